"""The command line of an engine: flags that decide where a model lies and how many bytes it reads, as settings.

`--n-cpu-moe 20 -ts 3,1` becomes `{"n_cpu_moe": 20, "tensor_split": "3,1"}`. A flag that can change neither bytes nor
placement is ignored; any other that is not understood is named, since a ceiling may be wrong because of it.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

Value = str | int
ALL_LAYERS = 999
_OFF = frozenset({"0", "off", "false", "no", "disabled"})


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def _layers(text: str) -> int | None:
    """`all`, and any number below zero, mean all of them; `auto` says nothing."""
    return ALL_LAYERS if text == "all" or re.fullmatch(r"-[1-9]\d{0,3}", text) else _whole(text)


def _switch(text: str) -> str | None:
    if text in ("auto", "-1"):
        return "auto"
    return "off" if text in _OFF else "on"


def _devices(text: str) -> int:
    """`CUDA0,CUDA1` are two cards, `none` is no card."""
    return 0 if text.lower() == "none" else sum(1 for name in text.split(",") if name)


def _type(text: str) -> str | None:
    return None if text == "auto" else text.lower()


def _ratios(text: str) -> str | None:
    parts = [part for part in re.split(r"[,/]", text) if part]
    return ",".join(parts) if all(re.fullmatch(r"\d+(\.\d+)?", part) for part in parts) and parts else None


@dataclass(frozen=True)
class _Flag:
    settings: tuple[str, ...]
    read: Callable[[str], Value | None] = _whole
    constant: Value | None = None
    """Of a flag that has no value of its own."""
    repeats: bool = False
    """Given several times, its values stand one after the other."""


def _named(names: str, flag: _Flag) -> dict[str, _Flag]:
    return dict.fromkeys(names.split(), flag)


_FLAGS: Mapping[str, _Flag] = {
    **_named("-ngl --n-gpu-layers --gpu-layers --gpulayers", _Flag(("gpu_layers",), _layers)),
    **_named("-ncmoe --n-cpu-moe --moecpu", _Flag(("n_cpu_moe",))),
    **_named("-cmoe --cpu-moe", _Flag(("n_cpu_moe",), constant=ALL_LAYERS)),
    **_named("-ot --override-tensor --overridetensors", _Flag(("override_tensor",), str, repeats=True)),
    **_named("-ts --tensor-split", _Flag(("tensor_split",), _ratios)),
    **_named("-sm --split-mode", _Flag(("split_mode",), str)),
    **_named("-mg --main-gpu", _Flag(("main_gpu",))),
    **_named("-dev --device", _Flag(("cards",), _devices)),
    **_named("-nkvo --no-kv-offload", _Flag(("kv_offload",), constant="off")),
    **_named("-kvo --kv-offload", _Flag(("kv_offload",), constant="on")),
    **_named("-ctk --cache-type-k", _Flag(("kv_type_k",), _type)),
    **_named("-ctv --cache-type-v", _Flag(("kv_type_v",), _type)),
    **_named("--kv-cache-dtype", _Flag(("kv_type_k", "kv_type_v"), _type)),
    **_named("-c --ctx-size --max-model-len --context-length --max-seq-len", _Flag(("context",))),
    **_named("-np --parallel --max-num-seqs --max-running-requests", _Flag(("parallel",))),
    **_named("-tp --tp --tp-size --tensor-parallel-size --num-shard", _Flag(("tensor_parallel",))),
    **_named("-pp --pp --pp-size --pipeline-parallel-size", _Flag(("pipeline_parallel",))),
    **_named("-b --batch-size --max-num-batched-tokens", _Flag(("batch",))),
    **_named("-ub --ubatch-size", _Flag(("ubatch",))),
    **_named("-t --threads", _Flag(("threads",))),
    **_named("-fa --flash-attn", _Flag(("flash_attention",), _switch, constant="on")),
}
_IGNORED = frozenset((
    "--host", "--port", "-a", "--alias", "--served-model-name", "--api-key", "--api-key-file", "--path",
    "--api-prefix", "--webui", "--no-webui", "--ssl-key-file", "--ssl-cert-file", "--metrics", "--slots",
    "--no-slots", "--props", "--jinja", "--no-jinja", "--chat-template", "--chat-template-file",
    "--chat-template-kwargs", "--reasoning-format", "--reasoning-budget", "--reasoning-parser",
    "--tool-call-parser", "--enable-auto-tool-choice", "-v", "--verbose", "-lv", "--verbosity", "--log-file",
    "--log-colors", "--log-prefix", "--log-timestamps", "--log-disable", "--disable-log-requests",
    "--disable-log-stats", "-m", "--model", "-mu", "--model-url", "-hf", "--hf-repo", "-hff", "--hf-file",
    "--model-path", "--tokenizer", "--revision", "--download-dir", "--trust-remote-code", "--dtype", "--seed", "-s",
    "--temp", "--temperature", "--top-k", "--top-p", "--min-p", "--repeat-penalty", "--samplers", "--ignore-eos",
    "-n", "--predict", "--n-predict", "--keep", "--mlock", "--no-mmap", "--mmap", "--numa", "--prio", "--poll",
    "--warmup", "--no-warmup", "-tb", "--threads-batch", "--threads-http", "-to", "--timeout", "-cb",
    "--cont-batching", "-nocb", "--no-cont-batching", "--cache-prompt", "--cache-reuse", "-cram", "--cache-ram",
    "--slot-save-path", "--kv-unified", "-kvu", "--enable-prefix-caching", "--no-enable-prefix-caching",
    "--enable-chunked-prefill", "--gpu-memory-utilization", "--mem-fraction-static", "--enforce-eager",
    "--load-format", "--no-op-offload", "--no-repack", "--no-escape", "-e", "--escape", "--offline",
    "--no-context-shift", "--context-shift", "--enable-per-request-metrics", "--enable-prompt-tokens-details",
))  # fmt: skip
"""What changes neither bytes nor placement."""


@dataclass(frozen=True)
class CommandLine:
    settings: Mapping[str, Value] = field(default_factory=dict)
    not_understood: tuple[str, ...] = ()
    """Flags, with their values, that may change bytes or placement."""


@lru_cache(maxsize=256)
def parse_flags(text: str) -> CommandLine:
    """Of a typed line; one that no shell could split is not understood as a whole.

    >>> parse_flags("-ngl 99 --n-cpu-moe=20 --port 8080 --rpc host:50052")
    CommandLine(settings={'gpu_layers': 99, 'n_cpu_moe': 20}, not_understood=('--rpc host:50052',))
    """
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is never closed
        return CommandLine({}, (text.strip(),))
    if words and not any(word.startswith("-") for word in words):
        return CommandLine({}, (text.strip(),))
    return parse_arguments(words)


def parse_arguments(arguments: Sequence[str]) -> CommandLine:
    """Of a command line that an engine tells; words before the first flag are its program and subcommand."""
    settings: dict[str, Value] = {}
    unknown: list[str] = []
    for name, values in _grouped(arguments):
        flag = _FLAGS.get(name) or _FLAGS.get(name.replace("_", "-"))
        if flag is None:
            if name not in _IGNORED and name.replace("_", "-") not in _IGNORED:
                unknown.append(" ".join([name, *values]))
            continue
        value = _value(flag, values)
        if value is None:
            if not values or values[0] not in ("auto", "-1"):
                unknown.append(" ".join([name, *values]))
            continue
        for key in flag.settings:
            settings[key] = f"{settings[key]},{value}" if flag.repeats and key in settings else value
    return CommandLine(_with_cards(settings), tuple(unknown))


def _grouped(arguments: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with the words that follow it."""
    name = ""
    values: list[str] = []
    for word in arguments:
        if word.startswith("-") and not re.fullmatch(r"-\d+(\.\d+)?", word):
            if name:
                yield name, values
            name, equals, value = word.partition("=")
            values = [value] if equals else []
        else:
            values.append(word)
    if name:
        yield name, values


def _value(flag: _Flag, values: Sequence[str]) -> Value | None:
    return flag.read(values[0]) if values and (flag.constant is None or flag.read is not _whole) else flag.constant


def _with_cards(settings: dict[str, Value]) -> dict[str, Value]:
    """Tensor times pipeline parallel is the number of cards; either says how they share the model."""
    tensor, pipeline = settings.pop("tensor_parallel", None), settings.get("pipeline_parallel", 1)
    if tensor is None and pipeline == 1:
        return settings
    tensor = tensor if isinstance(tensor, int) else 1
    pipeline = pipeline if isinstance(pipeline, int) else 1
    settings.setdefault("cards", max(tensor, 1) * max(pipeline, 1))
    settings.setdefault("split_mode", "tensor" if tensor > 1 else "layer")
    return settings


def with_flags(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings, with those that only the typed flags state; a setting that was stated by itself outranks its flag."""
    flags = settings.get("flags")
    stated: Mapping[str, object] = parse_flags(flags).settings if isinstance(flags, str) else {}
    return {**stated, **settings}
