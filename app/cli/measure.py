"""`roofmark run` and `roofmark work`."""

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
from app.hardware import names_this_host
from app.measure.runner import Progress, Runner, facts_json
from app.schemas.run_document import run_document

EXIT_CODES = {"done": 0, "cancelled": 130}


@dataclass(frozen=True)
class Request:
    """What was typed."""

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


def measure(request: Request, run_count: int, as_json: bool) -> None:
    """Measures in this process, as often as `run_count` says, and exits with the last run's code.

    A run that does not reach its end is the last one. The results of several are a list in JSON.
    """
    given = dict(parse_setting(text) for text in request.settings)
    for key, value in given.items():
        if value is not None and (sentence := setting_warning(key, value)):
            say(f"Note: {sentence}", err=True)
    settings = Settings()
    log_to_file(settings)
    database = open_database(settings)
    runner = Runner(database, settings)
    with database.read() as session:  # before anything is asked of a server
        suites.suite(session, request.suite).with_counts(request.repetitions, request.warmups)
    slug = _server_slug(database, settings, runner, request)
    with database.write() as session:
        server = servers.server(session, slug)
        assert server.id is not None
        servers.remember(session, server.id, settings=given)
        if request.log is not None:
            servers.edit_server(session, slug, log_path=parse_log_path(request.log))
    documents: list[dict[str, Any]] = []
    for number_of_run in range(1, run_count + 1):
        if run_count > 1:
            say(f"Run {number_of_run} of {run_count}.", err=True)
        public_id = runner.perform(
            slug,
            request.suite,
            TerminalProgress(),
            repetitions=request.repetitions,
            warmups=request.warmups,
            model=request.model,
            note=request.note,
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


def work(public_id: str) -> None:
    settings = Settings()
    log_to_stderr(settings)
    database = open_database(settings)
    Runner(database, settings).work(public_id, TerminalProgress())


# --- which server ----------------------------------------------------------------------------------------------------


def _server_slug(database: Database, settings: Settings, runner: Runner, request: Request) -> str:
    """The server that was meant, made when it is new."""
    if request.server is not None and request.url is not None:
        raise BadInput("Give either --url or --server, not both.")
    if request.url is None:
        return _known_server(database, request.server)
    base_url = normalise_base_url(request.url)
    with database.read() as session:
        known = servers.server_at(session, base_url)
    if known is None:
        facts = _probe_patiently(runner, settings, request.url, request)
        if facts.base_url is not None:  # a part of its API was given, whose server may be known
            base_url = facts.base_url
            with database.read() as session:
                known = servers.server_at(session, base_url)
    if known is None:
        return _add_server(database, settings, base_url, facts, request.api_key)
    with database.write() as session:
        if known.archived_at is not None:
            servers.archive_server(session, known.slug, archived=False)
            say(f"The server {known.name} was archived and is in use again.", err=True)
        if request.engine is not None:
            stated = {**known.capabilities, STATED_ENGINE: True}
            servers.edit_server(session, known.slug, engine=engines.find(request.engine).key, capabilities=stated)
        if request.api_key is not None:
            encrypted = Secrets(settings).encrypt(request.api_key)
            servers.edit_server(session, known.slug, api_key_encrypted=encrypted)
    return known.slug


def _known_server(database: Database, slug: str | None) -> str:
    with database.read() as session:
        if slug is not None:
            return servers.server(session, slug).slug
        known = servers.list_servers(session)
    if len(known) == 1:
        return known[0].slug
    if not known:
        raise BadInput("Which server? Say it with --url, such as --url 127.0.0.1:8080.")
    raise BadInput(f"Which server? Say it with --server: {', '.join(server.slug for server in known)}.")


def _probe_patiently(runner: Runner, settings: Settings, url: str, request: Request) -> ServerInfo:
    """A server that is still loading its model is waited for, visibly."""
    begun = time.monotonic()
    while True:
        try:
            return runner.probe(url, request.api_key, request.engine)
        except ServerError as problem:
            waited = time.monotonic() - begun
            if problem.trouble is not ServerErrorKind.LOADING or waited > settings.loading_timeout_s:
                raise
            say(f"{problem} Waiting for {format_duration(waited)}.", err=True)
            time.sleep(1)


def _add_server(database: Database, settings: Settings, base_url: str, facts: ServerInfo, api_key: str | None) -> str:
    with database.write() as session:
        machine = _machine_at(session, base_url)
        assert machine.id is not None
        where = urlsplit(base_url)
        path = where.path.strip("/").replace("/", " ")
        added = servers.add_server(
            session,
            machine.id,
            name=" ".join(filter(None, [engines.find(facts.engine).title, where.netloc, path])),
            engine=facts.engine,
            base_url=base_url,
            api_key_encrypted=Secrets(settings).encrypt(api_key) if api_key else None,
            facts=facts_json(facts),
            capabilities=dict(facts.capabilities),
        )
        return added.slug


def _machine_at(session: Session, base_url: str) -> Machine:
    """This machine where the address is one of its own; else the one whose servers have the same host, or one named
    after the host, made if need be."""
    host = urlsplit(base_url).hostname or base_url
    is_here = is_loopback(base_url) or names_this_host(host)
    if is_here and (here := machines.here(session)) is not None:
        return here
    known = {machine.id: machine for machine in machines.list_machines(session)}
    for server in servers.list_servers(session):
        same = is_loopback(server.base_url) if is_here else urlsplit(server.base_url).hostname == host
        if same and server.machine_id in known:
            return known[server.machine_id]
    if is_here:
        return machines.ensure_here(session)
    named = next((machine for machine in known.values() if machine.name == host), None)
    return named or machines.add_machine(session, host)


# --- progress --------------------------------------------------------------------------------------------------------


class TerminalProgress:
    """One line per step on standard error; on a terminal, waiting rewrites its line."""

    def __init__(self) -> None:
        self._rewriting = False

    def __call__(self, progress: Progress) -> None:
        text = self._sample(progress) if progress.sample else progress.phase
        on_terminal = sys.stderr.isatty()
        start = "\r\033[K" if self._rewriting else ""
        self._rewriting = on_terminal and progress.sample is None
        typer.echo(start + printable(text), err=True, nl=not self._rewriting)

    def _sample(self, progress: Progress) -> str:
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
