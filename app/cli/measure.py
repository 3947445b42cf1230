"""`roofmark run`, and `roofmark worker`, which the dashboard starts."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer
from sqlmodel import Session

from app import engines
from app.cli.output import Json, print_json, printable, say
from app.cli.probe import ApiKey, EngineKey
from app.cli.startup import log_to_stderr, open_database, open_with_log
from app.cli.text import run_text
from app.core.config_settings import SETTINGS, parse_log_path, parse_setting, setting_warning
from app.core.errors import BadInput, ServerError, ServerErrorKind
from app.core.secrets import Secrets
from app.core.settings import Settings
from app.core.units import format_duration, format_number, format_quantity
from app.db import machines, restarts, runs, servers, suites
from app.db.database import Database
from app.db.runs import check_run_count
from app.db.tables import Machine, Run
from app.engines.base import STATED_ENGINE, ServerInfo
from app.engines.http import is_loopback, normalise_base_url
from app.hardware.host import names_this_host
from app.measure.active_run import RunProgress
from app.measure.config_snapshot import server_facts
from app.measure.runner import Runner
from app.schemas.run_document import run_document
from app.suites import BUILT_IN, DEFAULT_SUITE

EXIT_CODES = {"done": 0, "cancelled": 130}

Reps = Annotated[int | None, typer.Option("--reps", help="Number of repetitions; the suite decides by default.")]
Warmup = Annotated[int | None, typer.Option("--warmup", help="Number of warm-ups; the suite decides by default.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting the API does not expose, such as cards=2; remembered for the model.",
    ),
]
LogFile = Annotated[
    str | None,
    typer.Option("--log", metavar="FILE", help="The server's log file on this machine; remembered, '' clears it."),
]

commands = typer.Typer()


class ServerOptions(NamedTuple):
    """The options of `roofmark run` that name a server or describe a new one."""

    url: str | None
    slug: str | None
    engine: str | None
    api_key: str | None


@commands.command("run")
def measure(
    url: Annotated[str | None, typer.Option("--url", help="Base URL of the server, such as 127.0.0.1:8080.")] = None,
    server: Annotated[str | None, typer.Option("--server", help="Slug of a server that was added before.")] = None,
    engine: EngineKey = None,
    model: Annotated[str | None, typer.Option("--model", help="Model to measure, if the server has several.")] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(
            "--suite",
            help=f"Suite to run: {', '.join(BUILT_IN)}, or your own; {DEFAULT_SUITE} by default. Several take turns.",
            show_default=False,
        ),
    ] = None,
    reps: Reps = None,
    warmup: Warmup = None,
    run_count: Annotated[
        int, typer.Option("--runs", "--times", help="Number of runs of each suite, one after another.", min=1, max=20)
    ] = 1,
    assignments: Assignments = None,
    log: LogFile = None,
    note: Annotated[str, typer.Option("--note", help="Note for this run.")] = "",
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Measure a server now, and store the result."""
    stated_settings = _parse_settings(assignments or [])
    settings = Settings()
    database = open_with_log(settings)
    runner = Runner(database, settings)
    suite_keys = list(dict.fromkeys(suite or [DEFAULT_SUITE]))
    check_run_count(run_count, len(suite_keys))
    with database.read() as session:  # a wrong suite or count is refused before a server is asked anything
        for suite_key in suite_keys:
            suites.suite(session, suite_key).with_counts(reps, warmup)
    slug = _server_slug(database, settings, runner, ServerOptions(url, server, engine, api_key))
    if log is not None:
        with database.write() as session:
            servers.edit_server(session, slug, log_path=parse_log_path(log))
    documents: list[dict[str, Any]] = []
    in_turn = suite_keys * run_count
    for run_number, suite_key in enumerate(in_turn, start=1):
        if len(in_turn) > 1:
            suite_name = f", suite {suite_key}" if len(suite_keys) > 1 else ""
            say(f"Run {run_number} of {len(in_turn)}{suite_name}.", err=True)
        public_id = runner.perform(
            slug,
            suite_key,
            TerminalProgress(),
            repetitions=reps,
            warmups=warmup,
            model=model,
            note=note,
            settings=stated_settings,
        )
        with database.read() as session:
            documents.append(run_document(session, public_id))
            question = restart_question(runs.run(session, public_id))
        _print_run(documents[-1], question, as_json=as_json)
        if _exit_code(documents[-1]):  # a run that fails or is cancelled is the last one
            break
    if as_json:
        print_json(documents if len(in_turn) > 1 else documents[0])
    if code := _exit_code(documents[-1]):
        raise typer.Exit(code)


def _print_run(document: dict[str, Any], question: str | None, *, as_json: bool) -> None:
    if not as_json:
        say(run_text(document))
    if question is not None:
        say(question, err=True)


@commands.command("worker", hidden=True)
def run_worker(public_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a queued run.")]) -> None:
    """Measure a queued run. Roofmark starts this process itself."""
    settings = Settings()
    log_to_stderr(settings)
    database = open_database(settings)
    Runner(database, settings).run_worker(public_id, TerminalProgress())


def restart_question(run: Run) -> str | None:
    """One sentence where the server was restarted before a run and may have settings that nothing states."""
    unknown = restarts.question(run)
    if not unknown:
        return None
    names = ", ".join(SETTINGS[key].title.lower() for key in unknown)
    return (
        f"The engine was restarted since the last run: what did you change? Unknown: {names}. State it on the run's "
        f"page, or with --set next time."
    )


def _parse_settings(assignments: Sequence[str]) -> dict[str, Any]:
    """Reads `KEY=VALUE` texts, and points out what may be a typo. Raises BadInput."""
    stated_settings = dict(parse_setting(text) for text in assignments)
    for key, value in stated_settings.items():
        if value is not None and (sentence := setting_warning(key, value)):
            say(f"Note: {sentence}", err=True)
    return stated_settings


def _exit_code(document: Mapping[str, Any]) -> int:
    return EXIT_CODES.get(document["run"]["status"], 1)


# --- which server ----------------------------------------------------------------------------------------------------


def _server_slug(database: Database, settings: Settings, runner: Runner, options: ServerOptions) -> str:
    """Returns the slug of the server to measure, after probing and storing a new one. Raises RoofmarkError."""
    if options.slug is not None and options.url is not None:
        raise BadInput("Give either --url or --server, not both.")
    if options.url is None:
        return _stored_server(database, options.slug)
    base_url = normalise_base_url(options.url)
    with database.read() as session:
        server = servers.server_at(session, base_url)
    if server is None:
        facts = _probe_patiently(runner, settings, options.url, options)
        if facts.base_url is not None:  # the typed URL was a part of its API; the server itself may be stored
            base_url = facts.base_url
            with database.read() as session:
                server = servers.server_at(session, base_url)
    if server is None:
        return _add_server(database, settings, base_url, facts, options.api_key)
    with database.write() as session:
        if server.archived_at is not None:
            servers.archive_server(session, server.slug, archived=False)
            say(f"The server {server.name} was archived; it is active again.", err=True)
        if options.engine is not None:
            capabilities = {**server.capabilities, STATED_ENGINE: True}
            engine_key = engines.find(options.engine).key
            servers.edit_server(session, server.slug, engine=engine_key, capabilities=capabilities)
        if options.api_key is not None:
            encrypted = Secrets(settings).encrypt(options.api_key)
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


def _probe_patiently(runner: Runner, settings: Settings, url: str, options: ServerOptions) -> ServerInfo:
    """Probes a new server; while it loads its model, waits and says so. Raises ServerError."""
    started_at = time.monotonic()
    while True:
        try:
            return runner.probe(url, options.api_key, options.engine)
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
            facts=server_facts(base_url, facts),
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
    """Prints a run's progress to standard error, one line per step; on a terminal, a waiting line is rewritten.

    Elsewhere, as in a log file, a phase is printed once, however often it is reported.
    """

    def __init__(self) -> None:
        self._rewriting = False
        self._last_text = ""

    def __call__(self, progress: RunProgress) -> None:
        if progress.arrived is not None and not sys.stderr.isatty():
            return
        text = self._sample(progress) if progress.sample else self._arriving(progress)
        is_repeated = progress.sample is None and text == self._last_text
        self._last_text = text
        if is_repeated:
            return
        on_terminal = sys.stderr.isatty()
        start = "\r\033[K" if self._rewriting else ""
        self._rewriting = on_terminal and progress.sample is None
        typer.echo(start + printable(text), err=True, nl=not self._rewriting)

    def _arriving(self, progress: RunProgress) -> str:
        if (arrived := progress.arrived) is None:
            return progress.phase
        rate = f", {format_number(arrived.per_s)} tok/s" if arrived.per_s is not None else ""
        return f"{progress.done + 1:>3}/{progress.planned}  about {arrived.events:,} tokens so far{rate}"

    def _sample(self, progress: RunProgress) -> str:
        sample, last = progress.sample, progress.last or {}
        assert sample is not None
        triple = (
            f"TTFT {format_quantity(last.get('ttft_ms'), 'ms')}, "
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
