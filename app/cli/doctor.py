"""`roofmark doctor` and `roofmark migrate`."""

import importlib.util
import platform
import shutil
import tempfile
from collections.abc import Iterator
from itertools import chain
from typing import Annotated

import typer

from app import __version__, engines
from app.cli.output import say
from app.cli.probe import facts_text
from app.cli.startup import log_to_file, open_with_log
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
"""ABSENT is no fault of this installation: an extra that is not installed, a server that is switched off."""
EXTRAS = {"demo": "xllamacpp", "notify": "apprise", "nvidia": "pynvml", "postgres": "psycopg"}

commands = typer.Typer()


@commands.command("migrate")
def migrate_to(
    revision: Annotated[str, typer.Argument(help="Schema revision to migrate to; an older one downgrades.")] = "head",
) -> None:
    """Migrate the database to this version's schema. Other commands do this by themselves."""
    settings = Settings()
    log_to_file(settings)
    database = Database(settings.effective_database_url)
    before = current_revision(database)
    backup = migrate_database(database, files.MIGRATIONS, revision)
    after = current_revision(database)
    say(
        f"The database is at revision {after or 'none'}."
        if before == after
        else f"{before or 'none'} -> {after or 'none'}"
    )
    if backup:
        say(f"A backup of the database is in {backup}.")


@commands.command("doctor")
def run_checks(
    sends_test: Annotated[bool, typer.Option("--notify", help="Send a test notification.")] = False,
) -> None:
    """Check the installation, the data folder, the servers and the notifications."""
    broken = False
    settings = Settings()
    for mark, line in chain(_checks(settings), [_notifications(settings, sends_test)]):
        say(f"{mark} {line}")
        broken = broken or mark == BROKEN
    if broken:
        raise typer.Exit(1)


def _notifications(settings: Settings, sends_test: bool) -> tuple[str, str]:
    try:
        names = ", ".join(map(notify.service_name, notify.services(settings)))
    except BadInput as error:
        return BROKEN, f"Notifications: {error}"
    if not names:
        return ABSENT, "Notifications: not set up (ROOFMARK_NOTIFY_URLS)"
    if not sends_test:
        return OK, f"Notifications: {names}"
    problem = notify.send(settings, notify.Message("a test", ("Roofmark can reach you here.",)))
    return (BROKEN, f"Notifications: {problem}") if problem else (OK, f"Notifications: a test was sent to {names}")


def _checks(settings: Settings) -> Iterator[tuple[str, str]]:
    yield (
        OK,
        f"Roofmark {__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )
    for extra, module in EXTRAS.items():
        is_installed = importlib.util.find_spec(module) is not None
        state = "installed" if is_installed else f"not installed (optional): pip install 'roofmark[{extra}]'"
        yield OK if is_installed else ABSENT, f"Extra {extra}: {state}"
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
        database = open_with_log(settings)
        with database.read() as session:
            stored_servers = servers.list_servers(session)
        url = database.url.render_as_string(hide_password=True)
        yield OK, f"Database {url}: revision {current_revision(database)}"
        Secrets(settings).encrypt("")
        yield OK, "Key for stored API keys: usable"
    except RoofmarkError as error:
        yield BROKEN, str(error)
        return
    runner = Runner(database, settings)
    for server in stored_servers:
        try:
            yield OK, f"Server {server.slug}: " + facts_text(server.base_url, runner.refresh(server.slug))
        except RoofmarkError as error:  # a server that is switched off is no fault of this installation
            yield ABSENT, f"Server {server.slug}: {error}"
    addresses = {server.base_url for server in stored_servers}
    for base_url, facts in runner.discover():
        if base_url not in addresses:
            yield OK, f"Found, but not added: {facts_text(base_url, facts)}"
    yield OK, f"Engines: {', '.join(engine.key for engine in engines.all())}"
