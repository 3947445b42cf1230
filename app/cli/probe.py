"""`roofmark probe`: which engine and models answer at a URL."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app import engines
from app.cli.output import Json, print_json, say
from app.cli.startup import log_to_file
from app.core.config_settings import DEFAULT
from app.core.settings import Settings
from app.core.units import format_bytes
from app.engines.base import ModelInfo, ServerInfo
from app.measure.config_snapshot import server_facts

ApiKey = Annotated[
    str | None, typer.Option("--api-key", envvar="ROOFMARK_API_KEY", show_envvar=True, help="The server's API key.")
]
EngineKey = Annotated[
    str | None,
    typer.Option("--engine", help=f"Engine, if detection gets it wrong: {', '.join(sorted(engines.titles()))}."),
]

commands = typer.Typer()


@commands.command("probe")
def probe_server(
    url: Annotated[str, typer.Argument(metavar="URL", help="Base URL of the server.")],
    engine: EngineKey = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Show which engine and models answer at a URL."""
    settings = Settings()
    log_to_file(settings)
    with engines.open_client(url, api_key, settings) as client:
        facts = engines.probe(client, engine)
        base_url = facts.base_url or client.base_url
    document = server_facts(base_url, facts)
    if as_json:
        print_json({"schema": "roofmark.probe/1", "base_url": base_url, **document})
    else:
        say(facts_text(base_url, facts, document.get("process")))


def facts_text(base_url: str, facts: ServerInfo, process: Mapping[str, Any] | None = None) -> str:
    """Formats the engine, its models and their settings as lines for a terminal; `process` is that of the server on
    this machine (see `Server.facts`)."""
    lines = [f"{base_url}: {engines.find(facts.engine).title} {facts.engine_version or '(version unknown)'}"]
    if facts.loading:
        lines.append("The server is still loading its model.")
    for model in facts.models:
        details = [
            f"runs at {model.runs_on}, not here" if model.runs_on else None,
            _engine_text(model),
            model.quantization or "quantization unknown",
            f"context {model.context_tokens:,} tokens" if model.context_tokens else None,
            format_bytes(model.size_bytes) if model.size_bytes else None,
        ]
        name = model.id if len(facts.namesakes(model.name)) > 1 else model.name
        lines.append(f"  {name} ({', '.join(filter(None, details))})")
        lines += [f"    {key}: {value}" for key, value in model.settings.items() if value is not None]
    lines += [f"  {key}: {value}" for key, value in facts.settings.items() if value is not None]
    lines += _process_lines(facts, process or {})
    return "\n".join([*lines, *facts.notes, *(note for model in facts.models for note in model.notes)])


def _process_lines(facts: ServerInfo, process: Mapping[str, Any]) -> list[str]:
    """What the server's command line says beside its API, and what it leaves to the engine."""
    model = facts.model(None)
    reported = {**(model.settings if model is not None else {}), **facts.settings}
    settings = {key: value for key, value in process.get("settings", {}).items() if reported.get(key) is None}
    lines = [f"  {key}: {value} (from its command line)" for key, value in settings.items() if value != DEFAULT]
    left = [key for key, value in settings.items() if value == DEFAULT]
    return [*lines, *([f"  not on its command line, so the engine's default: {', '.join(left)}"] if left else [])]


def _engine_text(model: ModelInfo) -> str | None:
    """The engine behind a gateway, with its version where it says one."""
    if model.engine is None:
        return None
    return " ".join(filter(None, [engines.titles().get(model.engine, model.engine), model.engine_version]))
