"""The question about a restart of a server: which settings a person is asked for, and what they answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlmodel import Session

from app.core.config_settings import SETTINGS, Setting, SettingValue, parse_setting_value
from app.core.errors import BadInput
from app.core.i18n import _
from app.db import restarts
from app.db.tables import Run
from app.web.forms import Fields

NOTHING = "nothing"
"""The answer of the button that says that nothing was changed."""


@dataclass(frozen=True)
class RestartQuestion:
    """An open question: the first run after a restart, and the settings that are unknown of it."""

    run: Run
    settings: Sequence[Setting]
    form: Fields = field(default_factory=Fields)
    """Its fields, all empty."""


def of_run(run: Run) -> RestartQuestion | None:
    """The open question of a run; None where there is none."""
    keys = restarts.question(run)
    return RestartQuestion(run, [SETTINGS[key] for key in keys]) if keys else None


def of_server(session: Session, server_id: int) -> RestartQuestion | None:
    """The open question of a server; None where there is none."""
    run = restarts.open_run(session, server_id)
    return None if run is None else of_run(run)


def parse_answer(form: Fields) -> Mapping[str, SettingValue]:
    """What was changed, as typed; empty where nothing was. Raises BadInput."""
    if form.get("answer") == NOTHING:
        return {}
    typed = {key: parse_setting_value(key, text) for key, text in form.starting_with("setting_").items()}
    settings = {key: value for key, value in typed.items() if value is not None}
    if not settings:
        raise BadInput(_("State at least one setting, or choose that nothing was changed."))
    return settings
