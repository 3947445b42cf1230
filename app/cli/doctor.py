"""`roofmark doctor` and `roofmark migrate`."""

import importlib.util
import platform
import shutil
import tempfile
from collections.abc import Iterator
from itertools import chain

import typer

from app import __version__, engines
from app.cli.common import log_to_file, open_database, say
from app.cli.probe import facts_text
from app.core import files
from app.core.errors import BadInput, RoofmarkError
from app.core.secrets import Secrets
from app.core.settings import Settings
from app.core.units import format_bytes
from app.db import servers
from app.db.database import Database
from app.db.migrate import current_revision
from app.db.migrate import migrate as migrate_database
from app.measure import notify
from app.measure.runner import Runner

OK, ABSENT, BROKEN = "ok ", "-- ", "!! "
"""The second: not there, but no fault of this installation."""
EXTRAS = {"demo": "xllamacpp", "notify": "apprise", "nvidia": "pynvml", "postgres": "psycopg"}


def migrate(revision: str) -> None:
    settings = Settings()
    log_to_file(settings)
    database = Database(settings.effective_database_url)
    before = current_revision(database)
    backup = migrate_database(database, files.MIGRATIONS, revision)
    after = current_revision(database)
    say(
        f"The database is at layout {after or 'none'}."
        if before == after
        else f"{before or 'none'} -> {after or 'none'}"
    )
    if backup:
        say(f"A copy of how it was is in {backup}.")


def doctor(tries_notify: bool) -> None:
    """Prints one line per check; exits with 1 when something keeps Roofmark from working."""
    broken = False
    settings = Settings()
    for mark, line in chain(_checks(settings), [_notifications(settings, tries_notify)]):
        say(f"{mark} {line}")
        broken = broken or mark == BROKEN
    if broken:
        raise typer.Exit(1)


def _notifications(settings: Settings, tries: bool) -> tuple[str, str]:
    try:
        names = ", ".join(map(notify.service_name, notify.services(settings)))
    except BadInput as error:
        return BROKEN, f"Notifications: {error}"
    if not names:
        return ABSENT, "Notifications: not set up (ROOFMARK_NOTIFY_URLS)"
    if not tries:
        return OK, f"Notifications: {names}"
    problem = notify.send(settings, notify.Message("a test", ("Notifications of Roofmark arrive here.",)))
    return (BROKEN, f"Notifications: {problem}") if problem else (OK, f"Notifications: a test was sent to {names}")


def _checks(settings: Settings) -> Iterator[tuple[str, str]]:
    yield (
        OK,
        f"Roofmark {__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )
    for extra, module in EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        needed = "installed" if there else "not installed (only needed for what its name says)"
        yield OK if there else ABSENT, f"Extra {extra}: {needed}"
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.data_dir) as file:
            file.write(b"x")
        free = shutil.disk_usage(settings.data_dir).free
        yield (
            OK if free > 100_000_000 else BROKEN,
            f"Data folder {settings.data_dir}: writable, {format_bytes(free)} free",
        )
    except OSError as error:
        yield BROKEN, f"Data folder {settings.data_dir}: {error.strerror}"
        return
    try:
        log_to_file(settings)
        database = open_database(settings)
        with database.read() as session:
            known = servers.list_servers(session)
        where = database.url.render_as_string(hide_password=True)
        yield OK, f"Database {where}: layout {current_revision(database)}"
        Secrets(settings).encrypt("")
        yield OK, "Key for stored API keys: usable"
    except RoofmarkError as error:
        yield BROKEN, str(error)
        return
    runner = Runner(database, settings)
    for server in known:
        try:
            yield OK, f"Server {server.slug}: " + facts_text(server.base_url, runner.refresh(server.slug))
        except RoofmarkError as error:  # a server that is switched off is no fault of this installation
            yield ABSENT, f"Server {server.slug}: {error}"
    addresses = {server.base_url for server in known}
    for base_url, facts in runner.discover():
        if base_url not in addresses:
            yield OK, f"Not yet added: {facts_text(base_url, facts)}"
    yield OK, f"Engines: {', '.join(engine.key for engine in engines.all())}"
