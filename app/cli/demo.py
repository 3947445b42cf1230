"""`roofmark demo`: a real engine, one measured run, and its result."""

from typing import Annotated

import typer

from app.cli.measure import TerminalProgress
from app.cli.output import say
from app.cli.serve import show_dashboard
from app.cli.startup import open_with_log
from app.cli.text import run_text
from app.core.errors import BadInput, RoofmarkError
from app.core.settings import Settings
from app.db import bandwidth, machines, servers
from app.db.database import Database
from app.demo import start_engine
from app.engines.base import ServerInfo
from app.hardware.detect import detect
from app.measure import bandwidth_process as measuring
from app.measure.config_snapshot import server_facts
from app.measure.runner import Runner
from app.schemas.run_document import run_document

SERVER_NAME = "Demo engine"

commands = typer.Typer()


@commands.command("demo")
def run_demo(
    once: Annotated[bool, typer.Option("--once", help="Exit after the run instead of showing the dashboard.")] = False,
) -> None:
    """Start llama.cpp with a small model, measure it, and show the result."""
    settings = Settings()
    database = open_with_log(settings)
    _measure_this_machine(database, settings)
    say("Starting llama.cpp with Gemma 3 270M on this machine …", err=True)
    with start_engine(settings) as engine:
        runner = Runner(database, settings)
        facts = runner.probe(engine.base_url, None)
        slug = _save_server(database, engine.base_url, facts)
        public_id = runner.perform(slug, "triple", TerminalProgress(), note="Demo")
        with database.read() as session:
            document = run_document(session, public_id)
        say(run_text(document))
        if document["run"]["status"] != "done":
            raise typer.Exit(130 if document["run"]["status"] == "cancelled" else 1)
        if not once:
            _show(settings)


def _measure_this_machine(database: Database, settings: Settings) -> None:
    """Detects the hardware and measures its memory bandwidth, once, for the ceiling; before the engine uses memory."""
    with database.read() as session:
        machine = machines.local_machine(session)
        if machine is not None and bandwidth.effective_probe(session, machine) is not None:
            return
    profile = detect()
    with database.write() as session:
        slug = machines.fill(session, machines.ensure_local_machine(session).slug, profile).slug
    say("Measuring this machine's memory bandwidth, for the ceiling …", err=True)
    try:
        measuring.perform(database, settings, slug, lambda _: None)
    except RoofmarkError as error:  # the result then shows why it has no ceiling
        say(f"Note: {error}", err=True)


def _save_server(database: Database, base_url: str, facts: ServerInfo) -> str:
    """Stores the demo's server, or its new address if an earlier demo stored it, and returns its slug."""
    with database.write() as session:
        server = next((server for server in servers.list_servers(session) if server.name == SERVER_NAME), None)
        if server is not None:
            servers.edit_server(session, server.slug, base_url=base_url, facts=server_facts(base_url, facts))
            return server.slug
        machine = machines.ensure_local_machine(session)
        assert machine.id is not None
        added = servers.add_server(
            session,
            machine.id,
            SERVER_NAME,
            facts.engine,
            base_url,
            facts=server_facts(base_url, facts),
            capabilities=dict(facts.capabilities),
            settings={"cards": 0, "kv_type_k": "f16", "kv_type_v": "f16"},
        )
        return added.slug


def _show(settings: Settings) -> None:
    try:
        show_dashboard(settings)
    except BadInput:  # the usual port is taken, most likely by a Roofmark that already runs
        show_dashboard(settings.model_copy(update={"port": 0}))
