import typer

from app.cli.common import log_to_file, open_database, say
from app.cli.measure import TerminalProgress
from app.cli.text import run_text
from app.core.errors import BadInput, RoofmarkError
from app.core.settings import Settings
from app.db import bandwidth, machines, servers
from app.db.database import Database
from app.demo import start_engine
from app.engines.base import ServerInfo
from app.hardware.detect import detect
from app.measure import bandwidth_process as measuring
from app.measure.config_snapshot import server_info_json
from app.measure.runner import Runner
from app.schemas.run_document import run_document

SERVER_NAME = "Demo engine"


def demo(once: bool) -> None:
    settings = Settings()
    log_to_file(settings)
    database = open_database(settings)
    _know_this_machine(database, settings)
    say("Starting llama.cpp with Gemma 3 270M on this machine …", err=True)
    with start_engine(settings) as engine:
        runner = Runner(database, settings)
        facts = runner.probe(engine.base_url, None)
        slug = _register(database, engine.base_url, facts)
        public_id = runner.perform(slug, "triple", TerminalProgress(), note="Demo")
        with database.read() as session:
            document = run_document(session, public_id)
        say(run_text(document))
        if document["run"]["status"] != "done":
            raise typer.Exit(130 if document["run"]["status"] == "cancelled" else 1)
        if not once:
            _show(settings)


def _know_this_machine(database: Database, settings: Settings) -> None:
    """What the result's ceiling needs, found out once and while nothing else keeps the memory busy."""
    with database.read() as session:
        known = machines.here(session)
        if known is not None and bandwidth.counting(session, known) is not None:
            return
    profile = detect()
    with database.write() as session:
        slug = machines.fill(session, machines.ensure_here(session).slug, profile).slug
    say("Measuring this machine's memory bandwidth, for the ceiling …", err=True)
    try:
        measuring.perform(database, settings, slug, lambda _: None)
    except RoofmarkError as error:  # the result then has no ceiling, and says so
        say(f"Note: {error}", err=True)


def _register(database: Database, base_url: str, facts: ServerInfo) -> str:
    """This machine and the demo's server, both only once however often the demo runs."""
    with database.write() as session:
        known = next((s for s in servers.list_servers(session) if s.name == SERVER_NAME), None)
        if known is not None:
            servers.edit_server(session, known.slug, base_url=base_url, facts=server_info_json(facts))
            return known.slug
        machine = machines.ensure_here(session)
        assert machine.id is not None
        added = servers.add_server(
            session,
            machine.id,
            SERVER_NAME,
            facts.engine,
            base_url,
            facts=server_info_json(facts),
            capabilities=dict(facts.capabilities),
            settings={"cards": 0, "kv_type_k": "f16", "kv_type_v": "f16"},
        )
        return added.slug


def _show(settings: Settings) -> None:
    from app.cli.serve import show_dashboard

    try:
        show_dashboard(settings)
    except BadInput:  # the usual port is taken, most likely by a Roofmark that already runs
        show_dashboard(settings.model_copy(update={"port": 0}))
