"""`roofmark run`, and `roofmark worker`, which the dashboard starts."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import typer
from sqlmodel import Session

from app import engines
from app.cli.common import log_to_file, log_to_stderr, open_database, print_json, printable, say
from app.cli.text import run_text
from app.core.config_settings import parse_log_path, parse_setting, setting_warning
from app.core.errors import BadInput, ServerError, ServerErrorKind
from app.core.secrets import Secrets
from app.core.settings import Settings
from app.core.units import format_duration, format_number
from app.db import machines, servers, suites
from app.db.database import Database
from app.db.tables import Machine
from app.engines.base import STATED_ENGINE, ServerInfo
from app.engines.http import is_loopback, normalise_base_url
from app.hardware.host import names_this_host
from app.measure.active_run import RunProgress
from app.measure.config_snapshot import server_info_json
from app.measure.runner import Runner
from app.schemas.run_document import run_document

EXIT_CODES = {"done": 0, "cancelled": 130}


@dataclass(frozen=True)
class RunRequest:
    """The options of `roofmark run`."""

    url: str | None
    server: str | None
    engine: str | None
    model: str | None
    suite: str
    repetitions: int | None
    warmups: int | None
    settings: list[str]
    note: str
    api_key: str | None
    log: str | None = None


def measure(request: RunRequest, run_count: int, as_json: bool) -> None:
    """Measures `run_count` runs in this process, prints them, and exits with the last one's code.

    A run that fails or is cancelled is the last one. The JSON of several runs is a list. Raises RoofmarkError.
    """
    stated_settings = dict(parse_setting(text) for text in request.settings)
    for key, value in stated_settings.items():
        if value is not None and (sentence := setting_warning(key, value)):
            say(f"Note: {sentence}", err=True)
    settings = Settings()
    log_to_file(settings)
    database = open_database(settings)
    runner = Runner(database, settings)
    with database.read() as session:  # a wrong suite or count is refused before a server is asked anything
        suites.suite(session, request.suite).with_counts(request.repetitions, request.warmups)
    slug = _server_slug(database, settings, runner, request)
    with database.write() as session:
        server = servers.server(session, slug)
        assert server.id is not None
        if request.log is not None:
            servers.edit_server(session, slug, log_path=parse_log_path(request.log))
    documents: list[dict[str, Any]] = []
    for run_number in range(1, run_count + 1):
        if run_count > 1:
            say(f"Run {run_number} of {run_count}.", err=True)
        public_id = runner.perform(
            slug,
            request.suite,
            TerminalProgress(),
            repetitions=request.repetitions,
            warmups=request.warmups,
            model=request.model,
            note=request.note,
            settings=stated_settings,
        )
        with database.read() as session:
            documents.append(run_document(session, public_id))
        if not as_json:
            say(run_text(documents[-1]))
        if _exit_code(documents[-1]):
            break
    if as_json:
        print_json(documents if run_count > 1 else documents[0])
    if code := _exit_code(documents[-1]):
        raise typer.Exit(code)


def _exit_code(document: Mapping[str, Any]) -> int:
    return EXIT_CODES.get(document["run"]["status"], 1)


def run_worker(public_id: str) -> None:
    """Measures a queued run in this process, if no other has claimed it. Raises NotFound."""
    settings = Settings()
    log_to_stderr(settings)
    database = open_database(settings)
    Runner(database, settings).run_worker(public_id, TerminalProgress())


# --- which server ----------------------------------------------------------------------------------------------------


def _server_slug(database: Database, settings: Settings, runner: Runner, request: RunRequest) -> str:
    """Returns the slug of the server to measure, after probing and storing a new one. Raises RoofmarkError."""
    if request.server is not None and request.url is not None:
        raise BadInput("Give either --url or --server, not both.")
    if request.url is None:
        return _stored_server(database, request.server)
    base_url = normalise_base_url(request.url)
    with database.read() as session:
        server = servers.server_at(session, base_url)
    if server is None:
        facts = _probe_patiently(runner, settings, request.url, request)
        if facts.base_url is not None:  # the typed URL was a part of its API; the server itself may be stored
            base_url = facts.base_url
            with database.read() as session:
                server = servers.server_at(session, base_url)
    if server is None:
        return _add_server(database, settings, base_url, facts, request.api_key)
    with database.write() as session:
        if server.archived_at is not None:
            servers.archive_server(session, server.slug, archived=False)
            say(f"The server {server.name} was archived; it is active again.", err=True)
        if request.engine is not None:
            capabilities = {**server.capabilities, STATED_ENGINE: True}
            engine_key = engines.find(request.engine).key
            servers.edit_server(session, server.slug, engine=engine_key, capabilities=capabilities)
        if request.api_key is not None:
            encrypted = Secrets(settings).encrypt(request.api_key)
            servers.edit_server(session, server.slug, api_key_encrypted=encrypted)
    return server.slug


def _stored_server(database: Database, slug: str | None) -> str:
    """Returns the slug of the named server, or of the only one. Raises NotFound, BadInput."""
    with database.read() as session:
        if slug is not None:
            return servers.server(session, slug).slug
        stored_servers = servers.list_servers(session)
    if len(stored_servers) == 1:
        return stored_servers[0].slug
    if not stored_servers:
        raise BadInput("Which server? Give its URL with --url, such as --url 127.0.0.1:8080.")
    raise BadInput(f"Which server? Choose with --server: {', '.join(server.slug for server in stored_servers)}.")


def _probe_patiently(runner: Runner, settings: Settings, url: str, request: RunRequest) -> ServerInfo:
    """Probes a new server; while it loads its model, waits and says so. Raises ServerError."""
    started_at = time.monotonic()
    while True:
        try:
            return runner.probe(url, request.api_key, request.engine)
        except ServerError as problem:
            waited_s = time.monotonic() - started_at
            if problem.trouble is not ServerErrorKind.LOADING or waited_s > settings.loading_timeout_s:
                raise
            say(f"{problem} Waited {format_duration(waited_s)} so far.", err=True)
            time.sleep(1)


def _add_server(database: Database, settings: Settings, base_url: str, facts: ServerInfo, api_key: str | None) -> str:
    with database.write() as session:
        machine = _machine_at(session, base_url)
        assert machine.id is not None
        url_parts = urlsplit(base_url)
        path = url_parts.path.strip("/").replace("/", " ")
        server = servers.add_server(
            session,
            machine.id,
            name=" ".join(filter(None, [engines.find(facts.engine).title, url_parts.netloc, path])),
            engine=facts.engine,
            base_url=base_url,
            api_key_encrypted=Secrets(settings).encrypt(api_key) if api_key else None,
            facts=server_info_json(facts),
            capabilities=dict(facts.capabilities),
        )
        return server.slug


def _machine_at(session: Session, base_url: str) -> Machine:
    """Returns the machine that a new server runs on, and adds it if it is new.

    An address of this machine means this machine. Any other means the machine whose servers have the same host, or the
    one named after the host.
    """
    host = urlsplit(base_url).hostname or base_url
    is_here = is_loopback(base_url) or names_this_host(host)
    if is_here and (this_machine := machines.local_machine(session)) is not None:
        return this_machine
    machines_by_id = {machine.id: machine for machine in machines.list_machines(session)}
    for server in servers.list_servers(session):
        has_same_host = is_loopback(server.base_url) if is_here else urlsplit(server.base_url).hostname == host
        if has_same_host and server.machine_id in machines_by_id:
            return machines_by_id[server.machine_id]
    if is_here:
        return machines.ensure_local_machine(session)
    same_name = next((machine for machine in machines_by_id.values() if machine.name == host), None)
    return same_name or machines.add_machine(session, host)


# --- progress --------------------------------------------------------------------------------------------------------


class TerminalProgress:
    """Prints a run's progress to standard error, one line per step; on a terminal, a waiting line is rewritten."""

    def __init__(self) -> None:
        self._rewriting = False

    def __call__(self, progress: RunProgress) -> None:
        text = self._sample(progress) if progress.sample else progress.phase
        on_terminal = sys.stderr.isatty()
        start = "\r\033[K" if self._rewriting else ""
        self._rewriting = on_terminal and progress.sample is None
        typer.echo(start + printable(text), err=True, nl=not self._rewriting)

    def _sample(self, progress: RunProgress) -> str:
        sample, last = progress.sample, progress.last or {}
        assert sample is not None
        triple = (
            f"TTFT {format_number(last.get('ttft_ms'))} ms, "
            f"prefill {format_number(last.get('prefill_tokens_per_s'))} tok/s, "
            f"decode {format_number(last.get('decode_tokens_per_s'))} tok/s"
        )
        bar = "█" * round(20 * progress.done / progress.planned) if progress.planned else ""
        parts = [
            f"{progress.done:>3}/{progress.planned} {bar:░<20}",
            ("warm-up: " if sample.is_warmup else "") + (sample.trace.error or triple),
            f"about {format_duration(progress.remaining_s)} left" if progress.remaining_s else "",
        ]
        return "  ".join(filter(None, parts))
