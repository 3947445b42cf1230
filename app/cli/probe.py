"""`roofmark probe`: which engine and models answer at a URL."""

from app import engines
from app.cli.common import log_to_file, print_json, say
from app.core.settings import Settings
from app.core.units import format_bytes
from app.engines.base import ServerInfo
from app.measure.config_snapshot import server_info_json


def probe_server(url: str, engine: str | None, api_key: str | None, as_json: bool) -> None:
    """Probes a URL and prints what answers. Raises RoofmarkError."""
    settings = Settings()
    log_to_file(settings)
    with engines.open_client(url, api_key, settings) as client:
        facts = engines.probe(client, engine)
        base_url = facts.base_url or client.base_url
    if as_json:
        print_json({"schema": "roofmark.probe/1", "base_url": base_url, **server_info_json(facts)})
    else:
        say(facts_text(base_url, facts))


def facts_text(base_url: str, facts: ServerInfo) -> str:
    """Formats the engine, its models and its settings as lines for a terminal."""
    lines = [f"{base_url}: {engines.find(facts.engine).title} {facts.engine_version or '(version unknown)'}"]
    if facts.loading:
        lines.append("The server is still loading its model.")
    for model in facts.models:
        details = [
            f"runs at {model.runs_on}, not here" if model.runs_on else None,
            model.quantization or "quantization unknown",
            f"context {model.context_tokens:,} tokens" if model.context_tokens else None,
            format_bytes(model.size_bytes) if model.size_bytes else None,
        ]
        name = model.id if len(facts.namesakes(model.name)) > 1 else model.name
        lines.append(f"  {name} ({', '.join(filter(None, details))})")
    lines += [f"  {key}: {value}" for key, value in facts.settings.items() if value is not None]
    return "\n".join([*lines, *facts.notes, *(note for model in facts.models for note in model.notes)])
