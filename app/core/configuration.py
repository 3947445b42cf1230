"""What shapes a result besides the prompt: the settings of a configuration, its fingerprint, and changes in words."""

import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.core.errors import BadInput
from app.core.i18n import _
from app.core.units import read_number

Value = str | int | float | bool


@dataclass(frozen=True)
class Setting:
    key: str
    title: str
    type: type = str
    asked: bool = False
    """Asked in the server's form, since hardly any probe can know it."""
    hint: str = ""
    choices: tuple[str, ...] = ()
    """The usual values; others are kept too."""
    is_always_set: bool = False
    """Every server runs with some value of it: where none is recorded, it is unknown and may have changed unseen."""


KV_TYPES = ("f16", "bf16", "f32", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "fp8", "fp8_e4m3", "fp8_e5m2")

SETTINGS = {
    setting.key: setting
    for setting in (
        Setting("context", "Context", int, hint="tokens one request may use", is_always_set=True),
        Setting("parallel", "Parallel slots", int, is_always_set=True),
        Setting(
            "cards",
            "GPUs",
            int,
            asked=True,
            hint="accelerators that hold the model; 0 for CPU only",
            is_always_set=True,
        ),
        Setting("split_mode", "Split mode", asked=True, choices=("layer", "row", "tensor", "none"), is_always_set=True),
        Setting("kv_type_k", "KV cache type K", asked=True, choices=KV_TYPES, is_always_set=True),
        Setting("kv_type_v", "KV cache type V", asked=True, choices=KV_TYPES, is_always_set=True),
        Setting("gpu_layers", "Layers on GPU", int, asked=True, hint="999 for all", is_always_set=True),
        Setting(
            "n_cpu_moe",
            "Layers with experts in system memory",
            int,
            asked=True,
            hint="as in --n-cpu-moe; 999 for all (--cpu-moe)",
        ),
        Setting("cpu_moe", "All experts in system memory", choices=("on", "off")),
        Setting("override_tensor", "Tensor overrides", asked=True, hint="as in -ot: exps=CPU"),
        Setting("tensor_split", "Split among GPUs", asked=True, hint="as in -ts: 3,1; the fastest GPU first"),
        Setting("main_gpu", "Main GPU", int, hint="with split mode none; the fastest GPU is 0"),
        Setting("pipeline_parallel", "Pipeline stages", int),
        Setting("kv_offload", "KV cache on GPUs", choices=("on", "off")),
        Setting("gpu_share", "Share in GPU memory, %", int, hint="as `ollama ps` says"),
        Setting("gpu_weight_mib", "Weights in GPU memory, MiB", int),
        Setting("batch", "Batch", int, is_always_set=True),
        Setting("ubatch", "Micro-batch", int, is_always_set=True),
        Setting("threads", "Threads", int, is_always_set=True),
        Setting("flash_attention", "Flash attention", choices=("on", "off", "auto"), is_always_set=True),
        Setting("flags", "Flags", asked=True, hint="further command-line flags of the engine"),
        Setting("runs_on", "Runs on", hint="where the server hands requests on to"),
        Setting("model_id", "Model id"),
        Setting("model_file", "Model file"),
        Setting("model_digest", "Digest of the model"),
        Setting("model_bytes", "Bytes of the model", int),
    )
}
IDENTITY = ("model_id", "model_file", "model_digest", "model_bytes")
"""Settings that say which weights were measured. One that is missing was not recorded, or the server does not tell it:
then it tells nothing apart."""

_KEY = re.compile(r"[a-z][a-z0-9_.-]{0,39}")


def parse_setting(text: str) -> tuple[str, Value | None]:
    """`key=value` as typed on a command line; an empty value means "forget it". Raises BadInput.

    >>> parse_setting("cards=2"), parse_setting("kv_type_k=q8_0"), parse_setting("cards=")
    (('cards', 2), ('kv_type_k', 'q8_0'), ('cards', None))
    """
    key, equals, value = text.partition("=")
    key = key.strip().lower()
    if not equals or not _KEY.fullmatch(key):
        raise BadInput(f"Settings are written key=value, such as cards=2; {text!r} is not.")
    return key, clean_setting(key, value)


def clean_setting(key: str, value: str) -> Value | None:
    """A typed-in value in its setting's type; None when it is empty. Raises BadInput."""
    value = value.strip()
    if not value:
        return None
    if len(value) > 500:
        raise BadInput(_("{title} is longer than 500 characters.", title=setting_title(key)))
    setting = SETTINGS.get(key)
    if setting is None or setting.type is str:
        return value
    try:
        number = read_number(value)
    except ValueError as error:
        raise BadInput(
            _("{title} must be a whole number, not {text!r}.", title=_(setting.title), text=value)
        ) from error
    if number != int(number) or not 0 <= number < 2**53:
        raise BadInput(
            _("{title} must be a whole number, neither negative nor absurdly large.", title=_(setting.title))
        )
    return int(number)


def log_path(text: str) -> str | None:
    """Where a server writes its log, as typed; None when it is empty. Raises BadInput for what is no full path."""
    typed = text.strip()
    if not typed:
        return None
    if not Path(typed).is_absolute() or "\0" in typed or len(typed) > 1000:
        raise BadInput(_("The log file needs its full path, such as /var/log/llama-server.log."))
    return typed


def doubt(key: str, value: Value) -> str | None:
    """One sentence when a setting looks like a slip of the pen: it is kept as typed all the same."""
    setting = SETTINGS.get(key)
    if setting is None:
        close = difflib.get_close_matches(key, SETTINGS, n=1)
        meant = f"; did you mean {close[0]}?" if close else f". Known are {', '.join(SETTINGS)}."
        return f"{key} is kept as a setting of your own{meant}"
    if setting.choices and value not in setting.choices:
        close = difflib.get_close_matches(str(value), setting.choices, n=1)
        meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(setting.choices)}."
        return f"{setting.title} {value} is kept as typed; {meant}"
    return None


@dataclass(frozen=True)
class Snapshot:
    """A configuration as it was when a run started."""

    engine: str
    engine_version: str | None
    model: str
    quantization: str | None
    settings: Mapping[str, Any]
    labels: Sequence[str] = ()

    @property
    def model_title(self) -> str:
        return f"{self.model} {self.quantization or ''}".strip()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content alone: the same configuration has the same fingerprint on every machine."""
        content = {
            "engine": self.engine,
            "engine_version": self.engine_version,
            "model": self.model,
            "quantization": self.quantization,
            "settings": dict(self.settings),
            "labels": sorted(self.labels),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def changes(old: Snapshot, new: Snapshot, engine_titles: Mapping[str, str] | None = None) -> list[str]:
    """What changed, one short phrase each, the weightiest first.

    >>> a = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q4_K_M", {"context": 4096})
    >>> b = Snapshot("llama.cpp", "b6400", "Qwen3-8B", "IQ2_XS", {"context": 8192})
    >>> changes(a, b)
    ['Q4_K_M → IQ2_XS', 'llama.cpp b6301 → b6400', 'Context 4,096 → 8,192']
    """
    titles = engine_titles or {}
    said = []
    old_name, new_name = model_names((old, new))
    if old_name != new_name:
        said.append(f"{old_name} → {new_name}")
    if old.quantization != new.quantization:
        said.append(
            f"{old.quantization or _('unknown quantization')} → {new.quantization or _('unknown quantization')}"
        )
    engine_then, engine_now = titles.get(old.engine, old.engine), titles.get(new.engine, new.engine)
    if old.engine != new.engine:
        said.append(
            f"{engine_then} {old.engine_version or ''}".strip() + f" → {engine_now} {new.engine_version or ''}".rstrip()
        )
    elif old.engine_version != new.engine_version:
        said.append(
            f"{engine_now} {old.engine_version or _('unknown version')} → {new.engine_version or _('unknown version')}"
        )
    for title, (before, after) in distinguishing_weights((old, new), is_one_server=True).items():
        said.append(f"{_(title)} {before} → {after}")
    known = [key for key in SETTINGS if key not in IDENTITY and (key in old.settings or key in new.settings)]
    free = sorted((set(old.settings) | set(new.settings)) - set(SETTINGS))
    for key in known + free:
        then, today = old.settings.get(key), new.settings.get(key)
        if then != today:
            said.append(f"{setting_title(key)} {show(then, key)} → {show(today, key)}")
    gone, come = set(old.labels) - set(new.labels), set(new.labels) - set(old.labels)
    said += [_("label {label} removed", label=label) for label in sorted(gone)]
    said += [_("label {label} added", label=label) for label in sorted(come)]
    return said


def distinguishing_settings(
    configs: Mapping[int, Snapshot], engine_titles: Mapping[str, str] | None = None
) -> dict[int, list[str]]:
    """For configurations that stand side by side, what each has that not all of them have in common.

    >>> a = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q4_K_M", {"context": 4096, "cards": 2})
    >>> b = Snapshot("llama.cpp", "b6400", "Qwen3-8B", "Q4_K_M", {"context": 8192, "cards": 2})
    >>> distinguishing_settings({1: a, 2: b})
    {1: ['llama.cpp b6301', 'Context 4,096'], 2: ['llama.cpp b6400', 'Context 8,192']}
    """
    snapshots = list(configs.values())
    details = {key: _details(each, engine_titles or {}) for key, each in configs.items()}
    weights = distinguishing_weights(snapshots, is_one_server=True)
    for place, (key, name) in enumerate(zip(configs, model_names(snapshots), strict=True)):
        full = {} if name == configs[key].model else {"model": name}
        more = {title: f"{_(title)} {values[place]}" for title, values in weights.items()}
        details[key] = {**full, **more, **details[key]}
    names = {name for each in details.values() for name in each}
    differing = {name for name in names if len({each.get(name) for each in details.values()}) > 1}
    return {key: [each[name] for name in each if name in differing] for key, each in details.items()}


def _details(snapshot: Snapshot, engine_titles: Mapping[str, str]) -> dict[str, str]:
    engine = engine_titles.get(snapshot.engine, snapshot.engine)
    details = {"engine": f"{engine} {snapshot.engine_version or ''}".strip()}
    known = [key for key in SETTINGS if key in snapshot.settings and key not in IDENTITY]
    for key in known + sorted(set(snapshot.settings) - set(SETTINGS)):
        details[key] = f"{setting_title(key)} {show(snapshot.settings[key], key)}"
    if snapshot.labels:
        details["labels"] = ", ".join(sorted(snapshot.labels))
    return details


def model_names(snapshots: Sequence[Snapshot]) -> list[str]:
    """The name of each model, in full where two share a name and are not the same model.

    >>> ids = ("gpu0/llama-3-8b", "cpu/llama-3-8b")
    >>> model_names([Snapshot("openai", None, "llama-3-8b", None, {"model_id": model_id}) for model_id in ids])
    ['gpu0/llama-3-8b', 'cpu/llama-3-8b']
    """
    qualified = [_qualified_name(snapshot) for snapshot in snapshots]
    shared = {snapshot.model for snapshot in snapshots if _has_several(snapshots, qualified, snapshot.model)}
    names = [
        full if snapshot.model in shared else snapshot.model
        for snapshot, full in zip(snapshots, qualified, strict=True)
    ]
    alike: dict[tuple[str, str | None], set[str]] = {}
    for snapshot, name in zip(snapshots, names, strict=True):
        if (identifier := _served_id(snapshot)) is not None:
            alike.setdefault((name, snapshot.quantization), set()).add(identifier)
    return [
        _served_id(snapshot) or name if len(alike.get((name, snapshot.quantization), ())) > 1 else name
        for snapshot, name in zip(snapshots, names, strict=True)
    ]


def distinguishing_weights(snapshots: Sequence[Snapshot], *, is_one_server: bool) -> dict[str, list[str]]:
    """What tells the weights of models apart that have the same name and quantization: by the title of the first of
    IDENTITY that differs, the value of each.

    Folders are those of one server: elsewhere the same file may lie in another one.
    """
    if (
        len({(name, snapshot.quantization) for name, snapshot in zip(model_names(snapshots), snapshots, strict=True)})
        > 1
    ):
        return {}
    files = [_file_of(snapshot) for snapshot in snapshots]
    columns = {
        "model_file": files if is_one_server else [path and _last_part(path) for path in files],
        "model_digest": [str(snapshot.settings.get("model_digest") or "")[:12] or None for snapshot in snapshots],
        "model_bytes": [show(n) if (n := snapshot.settings.get("model_bytes")) else None for snapshot in snapshots],
    }
    for key, values in columns.items():
        if len(set(values) - {None}) > 1:
            return {SETTINGS[key].title: [value or show(None) for value in values]}
    return {}


def _has_several(snapshots: Sequence[Snapshot], qualified: Sequence[str], name: str) -> bool:
    return len({full for snapshot, full in zip(snapshots, qualified, strict=True) if snapshot.model == name}) > 1


def _qualified_name(snapshot: Snapshot) -> str:
    """With what its server has in front of it: a backend, a publisher."""
    identifier = _served_id(snapshot)
    if identifier is None:
        return snapshot.model
    return identifier.removesuffix(_last_part(identifier)) + snapshot.model


def _served_id(snapshot: Snapshot) -> str | None:
    """The id of the model, unless that is but the path of its file."""
    identifier = snapshot.settings.get("model_id")
    return None if not isinstance(identifier, str) or is_file_path(identifier) else identifier


def _file_of(snapshot: Snapshot) -> str | None:
    identifier, path = snapshot.settings.get("model_id"), snapshot.settings.get("model_file")
    if path is None and isinstance(identifier, str) and is_file_path(identifier):
        return identifier
    return None if path is None else str(path)


def is_file_path(text: str) -> bool:
    return text.startswith(("/", "~")) or re.match(r"[A-Za-z]:[\\/]|\\\\", text) is not None


def _last_part(text: str) -> str:
    return re.split(r"[/\\]", text.rstrip("/\\"))[-1] + text[len(text.rstrip("/\\")) :]


def runs_elsewhere(settings: Mapping[str, Any] | None) -> str | None:
    """The host that works on the model, where the measured server only hands requests on to it."""
    host = (settings or {}).get("runs_on")
    return str(host) if host else None


def setting_title(key: str) -> str:
    """In the reader's language; a setting of a person's own has the name that they gave it."""
    return _(SETTINGS[key].title) if key in SETTINGS else key


def show(value: Any, key: str = "") -> str:
    """The value of a setting as a person reads it; text that is none of its choices is theirs, and stays as it is."""
    if value is None:
        return _("not stated")
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if key in SETTINGS and value in SETTINGS[key].choices:
        return _(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
