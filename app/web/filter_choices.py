"""What the filters of every page offer."""

from sqlmodel import Session

from app.results import run_filter
from app.web.templates import engine_title

Choices = dict[str, list[tuple[str, str]]]


def filter_choices(session: Session) -> Choices:
    """For each filter its values, with the titles that a person reads."""
    choices = run_filter.filter_choices(session)
    return choices | {"engine": [(key, engine_title(key)) for key, _ in choices["engine"]]}
