"""The command line of a `llama-server`, as its router tells it of each of its models: settings, context and file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.engines._models import quantization_in
from app.units import read_number

ALL_LAYERS = 999
_WORDS = {"1": "on", "true": "on", "enabled": "on", "0": "off", "false": "off", "disabled": "off"}


@dataclass(frozen=True)
class CommandLine:
    settings: Mapping[str, Any]
    """By the keys of `app.configuration`; what has no key of its own there is in `flags`, in alphabetical order."""
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
    settings: dict[str, Any] = {}
    sources: dict[str, str] = {}
    flags: dict[str, str] = {}
    context, is_unified = None, False
    for flag, value in _pairs(args):
        if flag in _SETTINGS:
            key, convert = _SETTINGS[flag]
            converted = convert(value)
            if converted is not None:
                settings[key] = converted
        elif flag in _CONTEXT:
            context = _count(value) or None
        elif flag in _SOURCES:
            sources[_SOURCES[flag]] = value
        elif flag in _UNIFIED:
            is_unified = _UNIFIED[flag]
        elif flag not in _WITHOUT_EFFECT and not _is_secret(flag):
            flags[flag] = f"{flag} {value}".strip()
    if flags:
        settings["flags"] = " ".join(flags[flag] for flag in sorted(flags))
    slots = settings.get("parallel") or 1
    file_name = sources.get("file") or sources.get("repository file") or sources.get("repository") or ""
    return CommandLine(
        settings=dict(sorted(settings.items())),
        context_tokens=context if context is None or is_unified else context // slots,
        file_path=sources.get("file"),
        quantization=quantization_in(file_name.rpartition("/")[2].removesuffix(".gguf")),
    )


def _pairs(args: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Each flag with its value; empty for a switch. A minus with a digit behind it begins a value."""
    texts = [arg for arg in args if isinstance(arg, str)]
    place = 0
    while place < len(texts):
        flag, equals, value = texts[place].partition("=")
        place += 1
        if not _is_flag(flag):  # the program itself, or a stray word
            continue
        if not equals and place < len(texts) and not _is_flag(texts[place]) and flag not in _SWITCHES:
            value = texts[place]
            place += 1
        yield flag, value


def _is_flag(text: str) -> bool:
    return text.startswith("-") and len(text) > 1 and not text[1].isdigit()


def _is_secret(flag: str) -> bool:
    return flag == "-hft" or flag.removesuffix("-file").endswith(("-key", "-token", "-password", "-secret"))


def _count(value: str) -> int | None:
    try:
        number = int(read_number(value))
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number < 2**53 else None


def _positive(value: str) -> int | None:
    return _count(value) or None


def _layers(value: str) -> int | None:
    """`auto` says nothing of how many they are."""
    return ALL_LAYERS if value.lower() == "all" else _count(value)


def _word(value: str) -> str | None:
    return value.lower() or None


def _switch(value: str) -> str:
    """A flag by itself switches on."""
    return _WORDS.get(value.lower(), value.lower()) or "on"


def _text(value: str) -> str | None:
    return value or None


_NAMES: Mapping[tuple[str, Callable[[str], Any]], str] = {
    ("parallel", _positive): "-np --parallel",
    ("kv_type_k", _word): "-ctk --cache-type-k",
    ("kv_type_v", _word): "-ctv --cache-type-v",
    ("gpu_layers", _layers): "-ngl --gpu-layers --n-gpu-layers",
    ("batch", _positive): "-b --batch-size",
    ("ubatch", _positive): "-ub --ubatch-size",
    ("threads", _positive): "-t --threads",
    ("flash_attention", _switch): "-fa --flash-attn",
    ("split_mode", _word): "-sm --split-mode",
    ("tensor_split", _text): "-ts --tensor-split",
    ("main_gpu", _count): "-mg --main-gpu",
    ("n_cpu_moe", _count): "-ncmoe --n-cpu-moe",
    ("override_tensor", _text): "-ot --override-tensor",
}
_SETTINGS = {flag: setting for setting, flags in _NAMES.items() for flag in flags.split()}
_CONTEXT = frozenset({"-c", "--ctx-size"})
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
# names, addresses, what is written where, and what each request says by itself
_WITHOUT_EFFECT_FLAGS = (
    "-a --alias --tags --host --port --reuse-port --path --api-prefix --metrics --props --slots --no-slots "
    "--jinja --no-jinja --log-disable --log-file --log-colors -v --verbose --log-verbose -lv --verbosity "
    "--log-verbosity --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --offline --ui --webui "
    "--no-ui --no-webui -to --timeout --sse-ping-interval --ssl-cert-file --slot-save-path --media-path -s "
    "--seed --temp --temperature --top-k --top-p --min-p -n --predict --n-predict --models-dir --models-preset "
    "--models-max --models-autoload --no-models-autoload --cors-origins --cors-methods --cors-headers --warmup "
    "--no-warmup "
)
_WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT_FLAGS.split())
_SWITCHES_FLAGS = (
    "--mlock --no-mmap --mmap --no-repack --repack -nr --no-kv-offload -nkvo -kvo --kv-offload -cmoe --cpu-moe "
    "--swa-full -kvu --kv-unified -no-kvu --no-kv-unified --metrics --props --slots --no-slots --jinja "
    "--no-jinja -cb --cont-batching -nocb --no-cont-batching --no-host -v --verbose --log-verbose "
)
_SWITCHES = frozenset(_SWITCHES_FLAGS.split())
