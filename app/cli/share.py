from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sqlmodel import Session

from app.cli.common import log_to_file, open_database, say
from app.errors import BadInput
from app.settings import Settings
from app.share import Option, Snapshot, comparison, links, options, run
from app.share.markdown import markdown
from app.share.page import file


def share(run_ids: Sequence[str], title: str, include: Sequence[str], html: Path | None, as_markdown: bool) -> None:
    """Without `html` and `as_markdown` a link is made, and its path printed."""
    settings = Settings()
    log_to_file(settings)
    database = open_database(settings)
    with database.read() as session:
        snapshot = links.titled(_snapshot(session, run_ids, options.parse(include)), title)
    if html is not None:
        _write(html, file(snapshot, datetime.now(UTC)))
    if as_markdown:
        say(markdown(snapshot), nl=False)
    if html is None and not as_markdown:
        with database.write() as session:
            slug = links.publish(session, snapshot)
        say(f"{settings.root_path}/s/{slug}")


def _snapshot(session: Session, run_ids: Sequence[str], included: frozenset[Option]) -> Snapshot:
    if len(run_ids) == 1:
        return run.snapshot(session, run_ids[0], included)
    return comparison.snapshot(session, run_ids, included)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
