"""What several commands need."""

import logging
import tempfile
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category

import typer

from app.core import files
from app.core.errors import RoofmarkError, StorageError
from app.core.settings import Settings
from app.db.database import Database
from app.db.migrate import migrate

if TYPE_CHECKING:
    from app.measure.runner import Runner

LONGEST_WAIT_S = 10.0
"""A command that only reads computes earlier runs anew for no longer than this."""


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints a text. Names and notes hold what servers and people wrote: nothing of it may steer the terminal."""
    typer.echo(printable(text), err=err, nl=nl)


def printable(text: str) -> str:
    """Without control characters, which move a cursor, recolour or retitle a terminal; lines and tabs stay.

    >>> printable("Qwen\\x1b[2J\\n3")
    'Qwen�[2J\\n3'
    """
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if category(letter) == "Cc" and letter not in "\n\t" else letter for letter in text
    )


def open_database(settings: Settings) -> Database:
    """The database, brought to the layout of this version first."""
    database = Database(settings.effective_database_url, settings.session_info)
    if backup := migrate(database, files.MIGRATIONS):
        say(f"The database was brought to the layout of this version; a copy of it is in {backup}.", err=True)
    return database


def open_runs() -> Database:
    """For a command about runs: those whose worker died are ended first, and numbers brought to today's formulas."""
    from app.measure.runner import Runner

    settings = Settings()
    log_to_file(settings)
    database = open_database(settings)
    try:
        runner = Runner(database, settings)
        runner.dispatch()
        _bring_up_to_date(runner)
    except StorageError as error:  # what cannot be written must not keep anybody from reading
        say(f"roofmark: {error}", err=True)
    return database


def _bring_up_to_date(runner: "Runner") -> None:
    """All runs of a notebook of usual size; of a large one the newest, and `roofmark serve` does the rest."""
    ends_at = time.monotonic() + LONGEST_WAIT_S
    while not runner.is_measuring() and runner.bring_up_to_date():
        if time.monotonic() > ends_at:
            say(
                "Older runs still have the numbers of an earlier version: `roofmark serve` computes them anew.",
                err=True,
            )
            return


def log_to_file(settings: Settings) -> None:
    """A person's terminal shows sentences only; causes and tracebacks go to `logs/roofmark.log` in the data folder."""
    folder = settings.data_dir / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(folder / "roofmark.log", maxBytes=1_000_000, backupCount=2)
    except OSError:  # what is stored can be read all the same
        _set_up(settings, logging.NullHandler())
    else:
        _set_up(settings, handler)


def log_to_stderr(settings: Settings) -> None:
    """For a server and for workers, whose standard error is a log already."""
    _set_up(settings, logging.StreamHandler())


def _set_up(settings: Settings, handler: logging.Handler) -> None:
    logging.raiseExceptions = False  # a full disk must not print tracebacks over a person's terminal
    level = logging.getLevelNamesMapping().get(settings.log_level.upper(), logging.INFO)
    logging.basicConfig(
        level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[handler], force=True
    )
    for chatty in ("httpx", "httpcore", "alembic", "filelock"):
        logging.getLogger(chatty).setLevel(max(level, logging.WARNING))


def log_crash() -> Path:
    """Writes the current traceback to a file and returns its path."""
    import traceback

    try:
        folder = Settings().data_dir / "logs"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RoofmarkError):
        folder = Path(tempfile.gettempdir())
    path = folder / "crash.log"
    with path.open("a", encoding="utf-8") as file:
        file.write(traceback.format_exc() + "\n")
    return path


def print_json(document: dict[str, Any] | list[dict[str, Any]]) -> None:
    import json

    typer.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False).encode())
