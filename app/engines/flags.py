"""Command lines of engines, typed or as a server reports them: their flags as settings.

`--n-cpu-moe 20 -ts 3,1` becomes `{"n_cpu_moe": 20, "tensor_split": "3,1"}`. Each engine says in its `Engine.flags`
what its flags mean. A flag that can change neither bytes nor placement is ignored; any other that is not understood is
named, since a ceiling may be wrong because of it.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.engines.protocol.models import quantization_in

Value = str | int
ALL_LAYERS = 999
_OFF = frozenset({"0", "off", "false", "no", "disabled"})
DEFAULT_VALUES = ("auto", "-1", "0", "cuda", "rocm", "gpu")
"""Values that leave the choice to the engine, where a flag cannot read them."""
_SECRET_NAMES = ("-key", "apikey", "-token", "-password", "-passwd", "-secret", "-auth", "-credentials")
_WINDOWS_PATH = re.compile(r"(?:^|[\s\"'=])[A-Za-z]:\\")
# keys of services by their first letters, a password before a host, a URL that may be signed, a header, and a variable
# or a field of JSON with such a name
_SECRET_VALUE = re.compile(
    r"\b(hf|sk|gh[pousr]|github_pat|glpat|xox[a-z])[-_]\w{8}|(^|//|[\s,;=\"'])[^/@\s,=]*:[^/@\s]*@|://[^\s?]*\?\S"
    r"|\bBearer\s|(KEY|TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIALS?|\bAUTH\w*)[\"']?\s*[=:]\s*\S",
    re.IGNORECASE,
)


def read_int(text: str) -> int | None:
    """A whole number of at most nine digits."""
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def read_layers(text: str) -> int | None:
    """A number of layers; `all`, and any number below zero, mean all of them."""
    return ALL_LAYERS if text == "all" or re.fullmatch(r"-[1-9]\d{0,3}", text) else read_int(text)


def read_positive(text: str) -> int | None:
    """A whole number above zero; 0 is the engine's own choice."""
    return read_int(text) or None


def read_word(text: str) -> str | None:
    """A word in lower case."""
    return text.lower() or None


def read_text(text: str) -> str | None:
    """Any text, as it is."""
    return text or None


def read_switch(text: str) -> str | None:
    """`on`, `off` or `auto`."""
    if text.lower() in ("auto", "-1"):
        return "auto"
    return "off" if text.lower() in _OFF else "on"


def read_devices(text: str) -> int | None:
    """How many GPUs a list names: `CUDA0,CUDA1` two, `none` and `cpu` none; `cuda` does not say."""
    names = [name for name in text.lower().split(",") if name]
    if names in (["none"], ["cpu"]):
        return 0
    return len(names) if names and all(name[-1].isdigit() for name in names) else None


def read_type(text: str) -> str | None:
    """The type of a cache."""
    return None if text == "auto" else read_word(text)


def read_ratios(text: str) -> str | None:
    """Numbers separated by commas or slashes, as a text with commas."""
    parts = [part for part in re.split(r"[,/]", text) if part]
    return ",".join(parts) if all(re.fullmatch(r"\d+(\.\d+)?", part) for part in parts) and parts else None


@dataclass(frozen=True)
class Flag:
    """What a flag means: the settings that its value belongs to, and how to read the value."""

    settings: tuple[str, ...]
    """Keys of `app.core.configuration`, or `tensor_parallel`."""
    read: Callable[[str], Value | None] = read_int
    """None for a value that cannot be read."""
    constant: Value | None = None
    """The value of a flag that is given without one."""
    repeats: bool = False
    """Given several times, its values are joined by commas."""
    is_partial: bool = False
    """The setting holds less than the flag says: `CUDA1` is more than "one GPU"."""


@dataclass(frozen=True)
class FlagTable:
    """The flags that an engine has."""

    flags: Mapping[str, Flag] = field(default_factory=dict)
    """By name, with its dashes."""
    ignored: frozenset[str] = frozenset()
    """Flags that change no speed: names, addresses, logging, and what each request sets itself."""
    without_bytes: frozenset[str] = frozenset()
    """Flags that may change a speed, but neither bytes nor placement."""
    unmodelled: frozenset[str] = frozenset()
    """Flags that may change bytes or placement in a way that no setting stands for: a ceiling may be wrong because of
    them."""
    several: frozenset[str] = frozenset()
    """Those of all flags that take several values, each a word of its own."""

    def declares(self, name: str) -> bool:
        """Whether the engine has this flag, written with dashes or with underscores."""
        names = {name, name.replace("_", "-")}
        return any(not names.isdisjoint(flags) for flags in self._declared)

    @property
    def _declared(self) -> tuple[Collection[str], ...]:
        return self.flags.keys(), self.ignored, self.without_bytes, self.unmodelled


def flags_named(names: str, flag: Flag) -> dict[str, Flag]:
    """The same flag under several names, which are separated by spaces."""
    return dict.fromkeys(names.split(), flag)


def merge_tables(tables: Iterable[FlagTable]) -> FlagTable:
    """One table of several engines; of a flag that two of them have, the first table's meaning counts."""
    merged: dict[str, Flag] = {}
    ignored: set[str] = set()
    without_bytes: set[str] = set()
    unmodelled: set[str] = set()
    several: set[str] = set()
    for table in tables:
        merged = {**table.flags, **merged}
        ignored |= table.ignored
        without_bytes |= table.without_bytes
        unmodelled |= table.unmodelled
        several |= table.several
    return FlagTable(merged, frozenset(ignored), frozenset(without_bytes), frozenset(unmodelled), frozenset(several))


@dataclass(frozen=True)
class CommandLine:
    settings: Mapping[str, Value] = field(default_factory=dict)
    not_understood: tuple[str, ...] = ()
    """Flags, with their values, that may change bytes or placement."""
    unmapped: tuple[str, ...] = ()
    """Flags, with their values, that may change a speed and are not wholly in `settings`: sorted, of a repeated flag
    the last one."""


def parse_text(text: str, table: FlagTable) -> CommandLine:
    """The settings in a typed command line; a text that no shell can split is not understood as a whole."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is never closed
        return CommandLine({}, (text.strip(),))
    if words and not any(word.startswith("-") for word in words):
        return CommandLine({}, (text.strip(),))
    return parse_arguments(words, table)


def split_command(text: str) -> list[str]:
    r"""The words of a command as a configuration file holds it: lines that go on, and lines that are comments.

    >>> split_command("llama-server -m a.gguf \\\n  # two slots\n  -np 2")
    ['llama-server', '-m', 'a.gguf', '-np', '2']
    """
    lines = [line.strip() for line in text.splitlines()]
    command = " ".join(line.removesuffix("\\") for line in lines if not line.startswith("#"))
    if _WINDOWS_PATH.search(command):  # where a backslash stands for itself
        command = command.replace("\\", "\\\\")
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is never closed
        return []


def program_of(words: Sequence[str], programs: Collection[str], *, is_last: bool = False) -> int | None:
    """Where a command names the first, or the last, of these programs: by its path, as a module or a container image.

    >>> program_of("docker run -e A=b ghcr.io/ggml-org/llama.cpp:server-cuda -m x".split(), ["llama.cpp"])
    4
    >>> program_of(["/opt/llama-server-vulkan", "-m", "x"], ["llama-server"])
    0
    """
    name = re.compile(rf"(?:{'|'.join(map(re.escape, programs))})(?:[-_:@]|\.exe|$)", re.IGNORECASE)
    places = [place for place, word in enumerate(words) if name.match(re.split(r"[/\\]", word)[-1])]
    return places[-1 if is_last else 0] if programs and places else None


@dataclass(frozen=True)
class ModelArguments:
    """What the command line of a server says of the model that it runs."""

    settings: Mapping[str, Any]
    """By the keys of `app.core.config_settings`; flags without a key are in `flags`, in alphabetical order."""
    context_tokens: int | None = None
    """What one request may use."""
    file_path: str | None = None
    quantization: str | None = None
    """By the name of the file or of the repository."""


_MODEL_NAMES = frozenset(("-m", "--model", "--model-path", "--model_path", "--tokenizer", "--hf-repo", "-hf"))


def model_arguments(arguments: Sequence[str], table: FlagTable) -> ModelArguments:
    """The settings of a command line, by the flags of `table` and those that many engines have."""
    command = parse_arguments(arguments, merge_tables([COMMON, table]))
    settings: dict[str, Any] = dict(command.settings)
    context = settings.pop("context", None)
    flags = [flag for flag in command.unmapped if flag.split(" ")[0] not in _MODEL_NAMES]
    if flags:
        settings["flags"] = " ".join(flags)
    model = next((values[0] for name, values in group_by_flag(arguments) if name in _MODEL_NAMES and values), "")
    return ModelArguments(
        settings=dict(sorted(settings.items())),
        context_tokens=context,
        file_path=model if model.startswith("/") else None,
        quantization=quantization_in(re.split(r"[/\\]", model)[-1].removesuffix(".gguf")),
    )


def parse_arguments(arguments: Sequence[str], table: FlagTable) -> CommandLine:
    """The settings in a command line; words before the first flag are its program and subcommand.

    A flag that passes a secret is left out.
    """
    settings: dict[str, Value] = {}
    unknown: list[str] = []
    unmapped: dict[str, str] = {}
    for name, values in flags_without_secrets(arguments, table):
        plain = name if name in table.flags else name.replace("_", "-")
        if holds_secret(values):
            continue
        flag, text = table.flags.get(plain), " ".join([name, *values])
        if flag is None:
            if not {name, plain} & table.ignored:
                unmapped[name] = text
                if not {name, plain} & table.without_bytes:
                    unknown.append(text)
            continue
        value, is_default = _value(flag, values), bool(values) and values[0] in DEFAULT_VALUES
        _set(settings, flag, value, is_default)
        if value is None and not is_default:
            unknown.append(text)
            unmapped[name] = text
        elif value is not None and flag.is_partial:
            unmapped[name] = text
    return CommandLine(_with_cards(settings), tuple(unknown), tuple(unmapped[name] for name in sorted(unmapped)))


def _set(settings: dict[str, Value], flag: Flag, value: Value | None, is_default: bool) -> None:
    for key in flag.settings:
        if value is not None:
            settings[key] = f"{settings[key]},{value}" if flag.repeats and key in settings else value
        elif is_default:
            settings.pop(key, None)


def flags_without_secrets(arguments: Sequence[str], table: FlagTable) -> Iterator[tuple[str, list[str]]]:
    """The flags of a command line as `group_by_flag` gives them, without those that pass a secret, and without one that
    may be such a secret itself: a key may begin with a dash."""
    is_after_secret = False
    for name, values in group_by_flag(arguments):
        is_value = is_after_secret and not table.declares(name)
        is_secret = is_secret_flag(name) or is_secret_flag(name.replace("_", "-"))
        is_after_secret = is_secret and not values
        if not is_secret and not is_value:
            yield name, values


def is_secret_flag(name: str) -> bool:
    """Whether a flag passes a key, a token or a password, by its name."""
    return name == "-hft" or name.lower().removesuffix("-file").endswith(_SECRET_NAMES)


def holds_secret(texts: Iterable[str]) -> bool:
    """Whether one of the texts looks like a key, or like an address with a password."""
    return any(_SECRET_VALUE.search(text) for text in texts)


def group_by_flag(arguments: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
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


def _value(flag: Flag, values: Sequence[str]) -> Value | None:
    return flag.read(values[0]) if values and (flag.constant is None or flag.read is not read_int) else flag.constant


def _with_cards(settings: dict[str, Value]) -> dict[str, Value]:
    """The settings with the number of GPUs, tensor times pipeline parallel, and with how they divide the model."""
    tensor, pipeline = settings.pop("tensor_parallel", None), settings.get("pipeline_parallel", 1)
    if tensor is None and pipeline == 1:
        return settings
    tensor = tensor if isinstance(tensor, int) else 1
    pipeline = pipeline if isinstance(pipeline, int) else 1
    settings.setdefault("cards", max(tensor, 1) * max(pipeline, 1))
    settings.setdefault("split_mode", "tensor" if tensor > 1 else "layer")
    return settings


TENSOR_PARALLEL_FLAGS: Mapping[str, Flag] = {
    **flags_named("-tp --tp --tp-size --tensor-parallel-size", Flag(("tensor_parallel",))),
    **flags_named("-pp --pp --pp-size --pipeline-parallel-size", Flag(("pipeline_parallel",))),
    **flags_named("--kv-cache-dtype", Flag(("kv_type_k", "kv_type_v"), read_type)),
}
"""Flags that vLLM and SGLang have in common."""
COMMON = FlagTable(
    ignored=frozenset((
        "--alias", "--served-model-name", "--host", "--port", "--metrics", "--chat-template", "--reasoning-parser",
        "--tool-call-parser", "-v", "--verbose", "--log-file", "--disable-log-requests", "--offline", "--timeout",
        "--ssl-cert-file", "--ssl-key-file", "-s", "--seed", "--temp", "--temperature", "--top-k", "--top-p",
        "--min-p", "--repeat-penalty", "--revision", "--download-dir", "--trust-remote-code", "--log-level",
        "--allowed-origins", "--root-path", "--ssl-ca-certs",
    )),
    without_bytes=frozenset(("-m", "--model", "--model-path", "--tokenizer", "--dtype", "--load-format")),
)  # fmt: skip
"""Flags that many engines have and that change neither bytes nor placement."""
