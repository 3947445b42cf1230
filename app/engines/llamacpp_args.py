"""The command line of a `llama-server`: its flags, and what its router reports for each of its models."""

from collections.abc import Sequence
from typing import Any

from app.engines.flags import (
    ALL_LAYERS,
    COMMON,
    Flag,
    FlagTable,
    ModelArguments,
    flags_named,
    group_by_flag,
    merge_tables,
    parse_arguments,
    read_devices,
    read_layers,
    read_positive,
    read_ratios,
    read_switch,
    read_text,
    read_type,
    read_word,
)
from app.engines.protocol.models import quantization_in

FLAGS = FlagTable(
    flags={
        **flags_named("-ngl --n-gpu-layers --gpu-layers", Flag(("gpu_layers",), read_layers)),
        **flags_named("-ncmoe --n-cpu-moe", Flag(("n_cpu_moe",))),
        **flags_named("-cmoe --cpu-moe", Flag(("n_cpu_moe",), constant=ALL_LAYERS)),
        **flags_named("-ot --override-tensor", Flag(("override_tensor",), read_text, repeats=True)),
        **flags_named("-ts --tensor-split", Flag(("tensor_split",), read_ratios)),
        **flags_named("-sm --split-mode", Flag(("split_mode",), read_word)),
        **flags_named("-mg --main-gpu", Flag(("main_gpu",))),
        **flags_named("-dev --device", Flag(("cards",), read_devices, is_partial=True)),
        **flags_named("-nkvo --no-kv-offload", Flag(("kv_offload",), constant="off")),
        **flags_named("-kvo --kv-offload", Flag(("kv_offload",), constant="on")),
        **flags_named("-ctk --cache-type-k", Flag(("kv_type_k",), read_type)),
        **flags_named("-ctv --cache-type-v", Flag(("kv_type_v",), read_type)),
        **flags_named("-c --ctx-size", Flag(("context",), read_positive)),
        **flags_named("-np --parallel", Flag(("parallel",), read_positive)),
        **flags_named("-b --batch-size", Flag(("batch",), read_positive)),
        **flags_named("-ub --ubatch-size", Flag(("ubatch",), read_positive)),
        **flags_named("-t --threads", Flag(("threads",), read_positive)),
        **flags_named("-fa --flash-attn", Flag(("flash_attention",), read_switch, constant="on")),
    },
    ignored=frozenset((
        "-a", "--tags", "--reuse-port", "--path", "--api-prefix", "--props", "--slots", "--no-slots", "--jinja",
        "--no-jinja", "--chat-template-file", "--chat-template-kwargs", "--reasoning-format", "--log-verbose", "-lv",
        "--verbosity", "--log-verbosity", "--log-colors", "--log-prefix", "--no-log-prefix", "--log-timestamps",
        "--no-log-timestamps", "--log-disable", "--ui", "--no-ui", "--webui", "--no-webui", "-to",
        "--sse-ping-interval", "--slot-save-path", "--media-path", "--samplers", "-n", "--predict", "--n-predict",
        "--models-dir", "--models-preset", "--models-max", "--models-autoload", "--no-models-autoload",
        "--cors-origins", "--cors-methods", "--cors-headers", "--warmup", "--no-warmup", "-e", "--escape",
        "--no-escape",
    )),
    without_bytes=frozenset((
        "-mu", "--model-url", "-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "--reasoning-budget", "--ignore-eos",
        "--keep", "--mlock", "--no-mmap", "--mmap", "--numa", "--prio", "--poll", "-tb", "--threads-batch",
        "--threads-http", "-cb", "--cont-batching", "-nocb", "--no-cont-batching", "--cache-prompt", "--cache-reuse",
        "-cram", "--cache-ram", "--kv-unified", "-kvu", "-no-kvu", "--no-kv-unified", "--no-op-offload", "--repack",
        "-nr", "--no-repack", "--no-context-shift", "--context-shift",
    )),
)  # fmt: skip

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
_TABLE = merge_tables([COMMON, FLAGS])


def read_arguments(arguments: Sequence[Any]) -> ModelArguments:
    """The settings and the model of a command line. The last one of a repeated flag counts, as for the server itself.

    >>> line = read_arguments(["llama-server", "-c", "8192", "-np", "2", "-fa", "--model", "/m/a-Q8_0.gguf", "--mlock"])
    >>> line.settings, line.context_tokens, line.file_path, line.quantization
    ({'flags': '--mlock', 'flash_attention': 'on', 'parallel': 2}, 4096, '/m/a-Q8_0.gguf', 'Q8_0')
    """
    words = [argument for argument in arguments if isinstance(argument, str)]
    command = parse_arguments(words, _TABLE)
    settings: dict[str, Any] = dict(command.settings)
    context = settings.pop("context", None)
    settings.pop("cards", None)  # `flags` names them one by one
    model: dict[str, str] = {}
    is_unified = False
    for name, values in group_by_flag(words):
        if name in _MODEL_FLAGS:
            model[_MODEL_FLAGS[name]] = values[0] if values else ""
        is_unified = _UNIFIED_CACHE.get(name, is_unified)
    flags = [flag for flag in command.unmapped if flag.split(" ")[0] not in _MODEL_FLAGS | _UNIFIED_CACHE]
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
