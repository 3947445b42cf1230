"""The command line of an engine, typed or as a server tells it: its flags as settings.

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
_ENGINES_CHOICE = ("auto", "-1", "0", "cuda", "rocm", "gpu")
"""Values that leave it to the engine, where a flag reads nothing of them."""


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def _layers(text: str) -> int | None:
    """`all`, and any number below zero, mean all of them; `auto` says nothing."""
    return ALL_LAYERS if text == "all" or re.fullmatch(r"-[1-9]\d{0,3}", text) else _whole(text)


def _positive(text: str) -> int | None:
    """0 is the engine's own choice."""
    return _whole(text) or None


def _word(text: str) -> str | None:
    return text.lower() or None


def _text(text: str) -> str | None:
    return text or None


def _switch(text: str) -> str | None:
    if text.lower() in ("auto", "-1"):
        return "auto"
    return "off" if text.lower() in _OFF else "on"


def _devices(text: str) -> int | None:
    """`CUDA0,CUDA1` are two cards, `none` and `cpu` no card; `cuda` says nothing of their number."""
    names = [name for name in text.lower().split(",") if name]
    if names in (["none"], ["cpu"]):
        return 0
    return len(names) if names and all(name[-1].isdigit() for name in names) else None


def _type(text: str) -> str | None:
    return None if text == "auto" else _word(text)


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
    says_more: bool = False
    """Than its setting holds: `CUDA1` is more than "one card"."""


def _named(names: str, flag: _Flag) -> dict[str, _Flag]:
    return dict.fromkeys(names.split(), flag)


_FLAGS: Mapping[str, _Flag] = {
    **_named("-ngl --n-gpu-layers --gpu-layers --gpulayers", _Flag(("gpu_layers",), _layers)),
    **_named("-ncmoe --n-cpu-moe --moecpu", _Flag(("n_cpu_moe",))),
    **_named("-cmoe --cpu-moe", _Flag(("n_cpu_moe",), constant=ALL_LAYERS)),
    **_named("-ot --override-tensor --overridetensors", _Flag(("override_tensor",), _text, repeats=True)),
    **_named("-ts --tensor-split", _Flag(("tensor_split",), _ratios)),
    **_named("-sm --split-mode", _Flag(("split_mode",), _word)),
    **_named("-mg --main-gpu", _Flag(("main_gpu",))),
    **_named("-dev --device", _Flag(("cards",), _devices, says_more=True)),
    **_named("-nkvo --no-kv-offload", _Flag(("kv_offload",), constant="off")),
    **_named("-kvo --kv-offload", _Flag(("kv_offload",), constant="on")),
    **_named("-ctk --cache-type-k", _Flag(("kv_type_k",), _type)),
    **_named("-ctv --cache-type-v", _Flag(("kv_type_v",), _type)),
    **_named("--kv-cache-dtype", _Flag(("kv_type_k", "kv_type_v"), _type)),
    **_named("-c --ctx-size --max-model-len --context-length --max-seq-len", _Flag(("context",), _positive)),
    **_named("-np --parallel --max-num-seqs --max-running-requests", _Flag(("parallel",), _positive)),
    **_named("-tp --tp --tp-size --tensor-parallel-size --num-shard", _Flag(("tensor_parallel",))),
    **_named("-pp --pp --pp-size --pipeline-parallel-size", _Flag(("pipeline_parallel",))),
    **_named("-b --batch-size --max-num-batched-tokens", _Flag(("batch",), _positive)),
    **_named("-ub --ubatch-size", _Flag(("ubatch",), _positive)),
    **_named("-t --threads", _Flag(("threads",), _positive)),
    **_named("-fa --flash-attn", _Flag(("flash_attention",), _switch, constant="on")),
}
WITHOUT_EFFECT = frozenset((
    "-a", "--alias", "--served-model-name", "--tags", "--host", "--port", "--reuse-port", "--path", "--api-prefix",
    "--metrics", "--props", "--slots", "--no-slots", "--jinja", "--no-jinja", "--chat-template",
    "--chat-template-file", "--chat-template-kwargs", "--reasoning-format", "--reasoning-parser",
    "--tool-call-parser", "--enable-auto-tool-choice", "-v", "--verbose", "--log-verbose", "-lv", "--verbosity",
    "--log-verbosity", "--log-file", "--log-colors", "--log-prefix", "--no-log-prefix", "--log-timestamps",
    "--no-log-timestamps", "--log-disable", "--disable-log-requests", "--disable-log-stats", "--offline", "--ui",
    "--no-ui", "--webui", "--no-webui", "-to", "--timeout", "--sse-ping-interval", "--ssl-cert-file",
    "--ssl-key-file", "--slot-save-path", "--media-path", "-s", "--seed", "--temp", "--temperature", "--top-k",
    "--top-p", "--min-p", "--repeat-penalty", "--samplers", "-n", "--predict", "--n-predict", "--models-dir",
    "--models-preset", "--models-max", "--models-autoload", "--no-models-autoload", "--cors-origins",
    "--cors-methods", "--cors-headers", "--warmup", "--no-warmup", "--revision", "--download-dir",
    "--trust-remote-code", "--enable-per-request-metrics", "--enable-prompt-tokens-details", "-e", "--escape",
    "--no-escape",
))  # fmt: skip
"""What changes no speed: names, addresses, what is written where, and what each request says by itself."""
_WITHOUT_BYTES = frozenset((
    "-m", "--model", "-mu", "--model-url", "-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "--model-path",
    "--tokenizer", "--dtype", "--reasoning-budget", "--ignore-eos", "--keep", "--mlock", "--no-mmap", "--mmap",
    "--numa", "--prio", "--poll", "-tb", "--threads-batch", "--threads-http", "-cb", "--cont-batching", "-nocb",
    "--no-cont-batching", "--cache-prompt", "--cache-reuse", "-cram", "--cache-ram", "--kv-unified", "-kvu",
    "-no-kvu", "--no-kv-unified", "--enable-prefix-caching", "--no-enable-prefix-caching",
    "--enable-chunked-prefill", "--gpu-memory-utilization", "--mem-fraction-static", "--enforce-eager",
    "--load-format", "--no-op-offload", "--repack", "-nr", "--no-repack", "--no-context-shift", "--context-shift",
))  # fmt: skip
"""What may change a speed, but neither bytes nor placement."""


@dataclass(frozen=True)
class CommandLine:
    settings: Mapping[str, Value] = field(default_factory=dict)
    not_understood: tuple[str, ...] = ()
    """Flags, with their values, that may change bytes or placement."""
    others: tuple[str, ...] = ()
    """Flags, with their values, of which the settings do not say all, and that may change a speed: sorted, each once,
    as the last one counts."""


@lru_cache(maxsize=256)
def parse_flags(text: str) -> CommandLine:
    """Of a typed line; one that no shell could split is not understood as a whole.

    >>> command = parse_flags("-ngl 99 --n-cpu-moe=20 --port 8080 --mlock --rpc host:50052")
    >>> command.settings, command.not_understood
    ({'gpu_layers': 99, 'n_cpu_moe': 20}, ('--rpc host:50052',))
    >>> command.others
    ('--mlock', '--rpc host:50052')
    """
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is never closed
        return CommandLine({}, (text.strip(),))
    if words and not any(word.startswith("-") for word in words):
        return CommandLine({}, (text.strip(),))
    return parse_arguments(words)


def parse_arguments(arguments: Sequence[str]) -> CommandLine:
    """Of a command line that an engine tells; words before the first flag are its program and subcommand.

    A flag that hands over a secret is left out.
    """
    settings: dict[str, Value] = {}
    unknown: list[str] = []
    others: dict[str, str] = {}
    for name, values in grouped(arguments):
        plain = name if name in _FLAGS else name.replace("_", "-")
        flag, words = _FLAGS.get(plain), " ".join([name, *values])
        if flag is None:
            if not _changes_nothing(name, plain):
                others[name] = words
                if not {name, plain} & _WITHOUT_BYTES:
                    unknown.append(words)
            continue
        value = _value(flag, values)
        for key in flag.settings:
            if value is not None:
                settings[key] = f"{settings[key]},{value}" if flag.repeats and key in settings else value
            elif values and values[0] in _ENGINES_CHOICE:
                settings.pop(key, None)
        if value is None and (not values or values[0] not in _ENGINES_CHOICE):
            unknown.append(words)
            others[name] = words
        elif value is not None and flag.says_more:
            others[name] = words
    return CommandLine(_with_cards(settings), tuple(unknown), tuple(others[name] for name in sorted(others)))


def _changes_nothing(*names: str) -> bool:
    return any(name in WITHOUT_EFFECT or _is_secret(name) for name in names)


def _is_secret(name: str) -> bool:
    return name == "-hft" or name.removesuffix("-file").endswith(("-key", "-token", "-password", "-secret"))


def grouped(arguments: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with the words that follow it. A minus with a digit behind it begins a value."""
    name = ""
    values: list[str] = []
    for word in arguments:
        if re.match(r"-[^\d]", word):
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
