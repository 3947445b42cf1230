"""What several commands need."""

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import typer

from app import files
from app.db import Database, migrate
from app.errors import RoofmarkError
from app.settings import Settings


def open_database(settings: Settings) -> Database:
    """The database, brought to the layout of this version first."""
    set_up_logging(settings.log_level)
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        from app.errors import StorageProblem

        raise StorageProblem(f"The data folder {settings.data_dir} cannot be made: {error.strerror}.") from error
    database = Database(settings.effective_database_url)
    if backup := migrate(database, files.MIGRATIONS):
        typer.echo(f"The database was brought to the layout of this version; a copy of it is in {backup}.", err=True)
    return database


def set_up_logging(level: str) -> None:
    known = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    logging.basicConfig(level=known, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    for chatty in ("httpx", "httpcore", "alembic"):
        logging.getLogger(chatty).setLevel(max(known, logging.WARNING))


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


def print_json(document: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))
