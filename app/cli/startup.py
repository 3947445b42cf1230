"""What a command does before its work: it sends the log somewhere and opens the database."""

import logging
import tempfile
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path

from app.cli.output import say
from app.core import files
from app.core.errors import RoofmarkError
from app.core.settings import Settings
from app.db.database import Database
from app.db.migrate import migrate


def open_database(settings: Settings) -> Database:
    """Opens the database and migrates it to this version's schema."""
    database = Database(settings.effective_database_url, settings.session_info)
    if backup := migrate(database, files.MIGRATIONS):
        say(f"The database was migrated to this version's schema; a backup is in {backup}.", err=True)
    return database


def open_with_log(settings: Settings) -> Database:
    """Opens the database as `open_database` does, with the log in the data folder."""
    log_to_file(settings)
    return open_database(settings)


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
    try:
        folder = Settings().data_dir / "logs"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RoofmarkError):  # the data folder may be what fails
        folder = Path(tempfile.gettempdir())
    path = folder / "crash.log"
    with path.open("a", encoding="utf-8") as file:
        file.write(traceback.format_exc() + "\n")
    return path
