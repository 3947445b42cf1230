"""What the command line, the environment and the configuration file of a server's process say of its settings.

A command line of a process may hold anything, so only what is on a list is stored: the value of a flag that an engine
declares (`Engine.flags`), and of a variable that it declares (`Engine.environment`). Of any other flag only the name is
kept, and nothing of one that passes a secret.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path, PurePath
from typing import Any

from app import engines
from app.core.config_settings import DEFAULT, SETTINGS
from app.engines.base import Engine
from app.engines.flags import (
    COMMON,
    DEFAULT_VALUES,
    FlagTable,
    ModelArguments,
    flags_without_secrets,
    group_by_flag,
    holds_secret,
    merge_tables,
    parse_arguments,
)
from app.engines.protocol.gateway import own_arguments

HIDDEN_VALUE = "…"
"""Stands for the value of a flag that no engine declares."""
MAX_FILE_BYTES = 1_000_000
MAX_VALUE_CHARS = 200
GPU_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
    "GGML_VK_VISIBLE_DEVICES", "GGML_CUDA_FORCE_MMQ", "GGML_CUDA_FORCE_CUBLAS", "GGML_CUDA_DISABLE_GRAPHS",
    "GGML_CUDA_ENABLE_UNIFIED_MEMORY", "GGML_CUDA_NO_PINNED", "GGML_CUDA_P2P", "GGML_OPENCL_PLATFORM",
    "OMP_NUM_THREADS",
)  # fmt: skip
"""Variables that decide the speed of any engine; they are shown as they are."""
_SAFE_VALUE = re.compile(r"[\w.,:+/-]{1,80}")
_SAFE_NAME = re.compile(r"--[a-z][a-z0-9_.-]{1,39}")
_INTERPRETERS = re.compile(r"(?:python|pypy|node|bun|uv|poetry)[\d.]*(?:\.exe)?", re.IGNORECASE)
_LIKE_A_SECRET = re.compile(r"key|token|pass|pwd|secret|auth|cred|cookie|login|cert|user")
_MODEL_PATHS = frozenset(("-m", "--model", "--model-path"))
_SET = frozenset({"1", "true", "on", "yes", "enabled"})
_TITLE = re.compile(r"::")
"""In the title that a process of vLLM or SGLang gives itself in place of its command line."""
_YAML_LINE = re.compile(r"^\s*(?:-\s+)?([A-Za-z][\w-]*):\s*(\S.*)$")


@dataclass(frozen=True)
class Command:
    """How a process was started. It may hold secrets: it is read, and never stored, logged or shown."""

    arguments: Sequence[str] = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: str | None = None
    """The working folder, from which the paths of configuration files are meant."""
    program: str = ""
    """The name of the program that the system really runs."""
    is_environment_known: bool = True


def variables() -> frozenset[str]:
    """The environment variables that some engine takes settings from."""
    return frozenset(name for engine in engines.all() for name in engine.environment) | set(GPU_VARIABLES)


def names_program(engine: Engine, words: Sequence[str]) -> bool:
    """Whether a command line names the engine's program."""
    return own_arguments(engine, words) is not None


def read_command(engine: Engine, command: Command, *, is_listener: bool = False) -> ModelArguments | None:
    """The settings that a process was started with; None where its command line is not the engine's.

    `is_listener`: the process answers as this engine, so that its flags are the engine's, even where the program's name
    says nothing (`python main.py`). Where every flag was understood, what it leaves open is the engine's default.
    """
    if not command.arguments or _TITLE.search(command.arguments[0]):
        return None
    words = own_arguments(engine, command.arguments)
    is_named = words is not None
    if words is None and is_listener:
        words = _after_program(command)
    if words is None:
        return None
    words = list(dropwhile(lambda word: not word.startswith("-"), words))  # a subcommand
    table = merge_tables([COMMON, engine.flags, FlagTable(ignored=frozenset(engine.config_flags))])
    from_file, is_file_read = _configuration_file(engine, words, command.folder)
    all_arguments = [*_from_environment(engine, command.environment), *from_file, *words]
    allowed, is_understood = allowed_arguments(all_arguments, table)
    line = engine.read_arguments(allowed)
    settings: dict[str, Any] = dict(line.settings)
    # of a program that only answers like the engine, what it was not told is not known: it may hand on to another one
    is_complete = is_understood and is_file_read and command.is_environment_known and (is_named or bool(from_file))
    if is_complete and engine.has_defaults:
        settings = {**_defaults(engine, allowed, table, line), **settings}
    if shown := _shown_environment(command.environment):
        settings["environment"] = shown
    return ModelArguments(dict(sorted(settings.items())), line.context_tokens, line.file_path, line.quantization)


def allowed_arguments(words: Sequence[str], table: FlagTable) -> tuple[list[str], bool]:
    """The words of a command line that may be stored, and whether every flag was understood.

    >>> table = FlagTable(without_bytes=frozenset({"--mlock", "-md"}))
    >>> allowed_arguments(["--mlock", "--api-key", "s3cr3t", "--new-thing=x", "-md", "/home/me/draft.gguf"], table)
    (['--mlock', '--new-thing=…', '-md=draft.gguf'], False)
    """
    allowed: list[str] = []
    is_understood = True
    for name, values in flags_without_secrets(words, table):
        names = {name, name.replace("_", "-")}
        if holds_secret([name, *values]):
            is_understood = False
        elif not table.declares(name):
            is_understood = False
            if _SAFE_NAME.fullmatch(name) and not _LIKE_A_SECRET.search(name):
                allowed.append(f"{name}={HIDDEN_VALUE}" if values else name)
        elif names.isdisjoint(table.ignored):
            used = values if names & table.several else values[:1]
            is_exact = not names.isdisjoint(table.flags.keys() | _MODEL_PATHS)
            text = ",".join(value if is_exact else _short(value) for value in used)
            allowed.append(f"{name}={text}" if text else name)
    return allowed, is_understood


def _short(value: str) -> str:
    """The value of a flag as it is stored: of a path the name alone, of a long text its digest."""
    if len(value) > MAX_VALUE_CHARS:
        return f"sha256:{hashlib.sha256(value.encode(errors='replace')).hexdigest()[:8]}"
    return PurePath(value).name if value.startswith(("/", "~", "./", "../")) else value


def _after_program(command: Command) -> list[str] | None:
    """The arguments after the program, or after the script or the module that an interpreter runs.

    None where that is unclear: a process may have changed how it is listed.
    """
    words = list(command.arguments)
    listed, running = PurePath(words[0]).name.lower(), command.program.lower()
    if not running or not (listed.startswith(running) or running.startswith(listed)):
        return None
    if not _INTERPRETERS.fullmatch(listed):
        return words[1:]
    for place, word in enumerate(words[1:], 1):
        if word == "-c":
            return None
        if word == "-m":
            return words[place + 2 :]
        if not word.startswith("-"):
            return words[place + 1 :]
    return None


def _from_environment(engine: Engine, environment: Mapping[str, str]) -> Iterator[str]:
    """The variables as the flags that they stand for: `--flag=` takes the value, `--on/--off` says which."""
    for name, flag in engine.environment.items():
        value = environment.get(name, "").strip()
        if not value or not flag:
            continue
        if flag.endswith("="):
            yield flag + value
            continue
        on, _slash, off = flag.partition("/")
        if chosen := on if value.lower() in _SET else off:
            yield chosen


def _shown_environment(environment: Mapping[str, str]) -> str:
    values = [
        (name, value if _SAFE_VALUE.fullmatch(value) and not holds_secret([value]) else HIDDEN_VALUE)
        for name in sorted(GPU_VARIABLES)
        if (value := environment.get(name, ""))
    ]
    return " ".join(f"{name}={value}" for name, value in values)


# --- what is left to the engine --------------------------------------------------------------------------------------


def _defaults(engine: Engine, allowed: Sequence[str], table: FlagTable, line: ModelArguments) -> dict[str, Any]:
    """The usual settings that a completely understood command line leaves to the engine: their documented default, else
    that word. Those that only `flags` hold have the value that it gives them."""
    flags = parse_arguments(allowed, table).settings
    usual = [key for key, setting in SETTINGS.items() if setting.is_always_set]
    stated_settings = {
        key
        for name, values in group_by_flag(allowed)
        if (flag := table.flags.get(name)) is not None and (not values or values[0] not in DEFAULT_VALUES)
        for key in flag.settings
    }
    settings: dict[str, Any] = {
        key: flags.get(key, engine.default_settings.get(key, DEFAULT))
        for key in usual
        if key in flags or key not in stated_settings  # with a value that cannot be read it stays unknown
    }
    settings.pop("context" if line.context_tokens is not None else "", None)
    return settings


# --- configuration files ---------------------------------------------------------------------------------------------


def _configuration_file(engine: Engine, words: Sequence[str], folder: str | None) -> tuple[list[str], bool]:
    """The settings of a configuration file as arguments, and whether there is none that could not be read."""
    paths = [values[0] for name, values in group_by_flag(words) if name in engine.config_flags and values]
    path = paths[-1] if paths else engine.config_file
    if not path:
        return [], True
    full_path = Path(folder or ".", path)
    if not paths and not full_path.is_file():
        return [], folder is not None
    try:
        with full_path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):  # of another user, or in another file system
        return [], False
    return list(_file_arguments(text)), True


def _file_arguments(text: str) -> Iterator[str]:
    """The keys of a JSON object, or of the lines of a YAML file whatever their section, as flags."""
    try:
        document = json.loads(text)
    except ValueError:  # not JSON
        document = {}
        for line in text.splitlines():
            if match := _YAML_LINE.match(line):
                document[match[1]] = _yaml_value(match[2])
    for key, value in document.items() if isinstance(document, dict) else ():
        if value is None or value is False or value in ("", "null", "~", "false", "False"):
            continue
        is_switch = value is True or value in ("true", "True")
        text_value = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        yield f"--{key}" if is_switch else f"--{key}={text_value}"


def _yaml_value(text: str) -> str:
    text = re.sub(r"\s+#.*$", "", text).strip() if not text.startswith(("'", '"')) else text.strip()
    if text.startswith("#"):
        return ""
    if text.startswith("[") and text.endswith("]"):
        return ",".join(part.strip().strip("'\"") for part in text[1:-1].split(","))
    return text.strip("'\"")
