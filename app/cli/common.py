"""What several commands need: output, the database, logs."""

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
"""A command that only reads spends at most this long on recomputing earlier runs."""


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints a text without control characters: names and notes come from servers and people."""
    typer.echo(printable(text), err=err, nl=nl)


def printable(text: str) -> str:
    """Replaces control characters, which could move the cursor or recolour a terminal; line breaks and tabs stay.

    >>> printable("Qwen\\x1b[2J\\n3")
    'Qwen�[2J\\n3'
    """
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if category(letter) == "Cc" and letter not in "\n\t" else letter for letter in text
    )


def open_database(settings: Settings) -> Database:
    """Opens the database and migrates it to this version's schema."""
    database = Database(settings.effective_database_url, settings.session_info)
    if backup := migrate(database, files.MIGRATIONS):
        say(f"The database was migrated to this version's schema; a backup is in {backup}.", err=True)
    return database


def open_runs() -> Database:
    """Opens the database for a command about runs: ends runs whose worker died, and recomputes outdated numbers."""
    from app.measure.runner import Runner

    settings = Settings()
    log_to_file(settings)
    database = open_database(settings)
    try:
        runner = Runner(database, settings)
        runner.dispatch()
        _bring_up_to_date(runner)
    except StorageError as error:  # a database that cannot be written can still be read
        say(f"roofmark: {error}", err=True)
    return database


def _bring_up_to_date(runner: "Runner") -> None:
    """Recomputes outdated runs, the newest first, for `LONGEST_WAIT_S`; `roofmark serve` does the rest."""
    ends_at = time.monotonic() + LONGEST_WAIT_S
    while not runner.is_measuring() and runner.bring_up_to_date():
        if time.monotonic() > ends_at:
            say(
                "Older runs still show numbers of an earlier version; `roofmark serve` recomputes them.",
                err=True,
            )
            return


def log_to_file(settings: Settings) -> None:
    """Sends the log to `logs/roofmark.log` in the data folder: a terminal shows sentences only."""
    folder = settings.data_dir / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(folder / "roofmark.log", maxBytes=1_000_000, backupCount=2)
    except OSError:  # a folder that cannot be written can still be read
        _set_up(settings, logging.NullHandler())
    else:
        _set_up(settings, handler)


def log_to_stderr(settings: Settings) -> None:
    """Sends the log to standard error, for a server and for workers."""
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
    except (OSError, RoofmarkError):  # the data folder may be what fails
        folder = Path(tempfile.gettempdir())
    path = folder / "crash.log"
    with path.open("a", encoding="utf-8") as file:
        file.write(traceback.format_exc() + "\n")
    return path


def print_json(document: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Prints a document as UTF-8, whatever the encoding of the terminal. Raises ValueError for NaN and infinity."""
    import json

    typer.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False).encode())
