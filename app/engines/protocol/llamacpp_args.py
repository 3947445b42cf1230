"""The command line of a `llama-server`, as its router tells it of each of its models: settings, context and file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.llamacpp_flags import grouped, parse_arguments
from app.engines.protocol.models import quantization_in


@dataclass(frozen=True)
class CommandLine:
    settings: Mapping[str, Any]
    """By the keys of `app.core.config_settings`; the rest is in `flags`, in alphabetical order."""
    context_tokens: int | None = None
    """What one request may use."""
    file_path: str | None = None
    quantization: str | None = None
    """As the name of the file or of the repository tells it."""


def read(args: Sequence[Any]) -> CommandLine:
    """Where a flag is repeated, the last one counts, as for the server itself.

    >>> line = read(["llama-server", "-c", "8192", "-np", "2", "-fa", "--model", "/m/a-Q8_0.gguf", "--mlock"])
    >>> line.settings, line.context_tokens, line.file_path, line.quantization
    ({'flags': '--mlock', 'flash_attention': 'on', 'parallel': 2}, 4096, '/m/a-Q8_0.gguf', 'Q8_0')
    """
    words = [arg for arg in args if isinstance(arg, str)]
    command = parse_arguments(words)
    settings: dict[str, Any] = dict(command.settings)
    context = settings.pop("context", None)
    settings.pop("cards", None)  # `flags` says which ones
    sources: dict[str, str] = {}
    is_unified = False
    for name, values in grouped(words):
        if name in _SOURCES:
            sources[_SOURCES[name]] = values[0] if values else ""
        is_unified = _UNIFIED.get(name, is_unified)
    others = [other for other in command.others if other.split(" ")[0] not in {**_SOURCES, **_UNIFIED}]
    if others:
        settings["flags"] = " ".join(others)
    slots = settings.get("parallel") or 1
    file_name = sources.get("file") or sources.get("repository file") or sources.get("repository") or ""
    return CommandLine(
        settings=dict(sorted(settings.items())),
        context_tokens=context if context is None or is_unified else context // slots,
        file_path=sources.get("file"),
        quantization=quantization_in(file_name.rpartition("/")[2].removesuffix(".gguf")),
    )


_SOURCES = {
    "-m": "file",
    "--model": "file",
    "-hf": "repository",
    "-hfr": "repository",
    "--hf-repo": "repository",
    "-hff": "repository file",
    "--hf-file": "repository file",
}
_UNIFIED = {"-kvu": True, "--kv-unified": True, "-no-kvu": False, "--no-kv-unified": False}
