"""The command line of a `llama-server`, as its router reports it for each of its models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.llamacpp_flags import group_by_flag, parse_arguments
from app.engines.protocol.models import quantization_in

_FILE, _REPOSITORY, _REPOSITORY_FILE = "file", "repository", "repository file"
_MODEL_FLAGS = {
    "-m": _FILE,
    "--model": _FILE,
    "-hf": _REPOSITORY,
    "-hfr": _REPOSITORY,
    "--hf-repo": _REPOSITORY,
    "-hff": _REPOSITORY_FILE,
    "--hf-file": _REPOSITORY_FILE,
}
"""What each flag that names the model names it by."""
_UNIFIED_CACHE = {"-kvu": True, "--kv-unified": True, "-no-kvu": False, "--no-kv-unified": False}
"""Flags that share one KV cache among all slots, or divide it."""


@dataclass(frozen=True)
class ModelArguments:
    settings: Mapping[str, Any]
    """By the keys of `app.core.configuration`; flags without a key are in `flags`, in alphabetical order."""
    context_tokens: int | None = None
    """What one request may use."""
    file_path: str | None = None
    quantization: str | None = None
    """By the name of the file or of the repository."""


def read_arguments(arguments: Sequence[Any]) -> ModelArguments:
    """The settings and the model of a command line. The last one of a repeated flag counts, as for the server itself.

    >>> line = read_arguments(["llama-server", "-c", "8192", "-np", "2", "-fa", "--model", "/m/a-Q8_0.gguf", "--mlock"])
    >>> line.settings, line.context_tokens, line.file_path, line.quantization
    ({'flags': '--mlock', 'flash_attention': 'on', 'parallel': 2}, 4096, '/m/a-Q8_0.gguf', 'Q8_0')
    """
    words = [argument for argument in arguments if isinstance(argument, str)]
    command = parse_arguments(words)
    settings: dict[str, Any] = dict(command.settings)
    context = settings.pop("context", None)
    settings.pop("cards", None)  # `flags` names them one by one
    model: dict[str, str] = {}
    is_unified = False
    for name, values in group_by_flag(words):
        if name in _MODEL_FLAGS:
            model[_MODEL_FLAGS[name]] = values[0] if values else ""
        is_unified = _UNIFIED_CACHE.get(name, is_unified)
    flags = [flag for flag in command.others if flag.split(" ")[0] not in _MODEL_FLAGS | _UNIFIED_CACHE]
    if flags:
        settings["flags"] = " ".join(flags)
    slots = settings.get("parallel") or 1
    file_name = model.get(_FILE) or model.get(_REPOSITORY_FILE) or model.get(_REPOSITORY) or ""
    return ModelArguments(
        settings=dict(sorted(settings.items())),
        context_tokens=context if context is None or is_unified else context // slots,
        file_path=model.get(_FILE),
        quantization=quantization_in(file_name.rpartition("/")[2].removesuffix(".gguf")),
    )
