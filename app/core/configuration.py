"""A configuration frozen for a run: its fingerprint, and how configurations differ, in words."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.config_settings import (
    DEFAULT,
    IDENTITY_SETTINGS,
    SETTINGS,
    format_setting,
    ordered_setting_keys,
    setting_title,
)
from app.core.i18n import _


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
        """The SHA-256 of the content alone: the same configuration has the same fingerprint on every machine."""
        content = {
            "engine": self.engine,
            "engine_version": self.engine_version,
            "model": self.model,
            "quantization": self.quantization,
            "settings": dict(self.settings),
            "labels": sorted(self.labels),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def describe_changes(
    old: Snapshot, new: Snapshot, engine_titles: Mapping[str, str] | None = None, *, is_one_server: bool = True
) -> list[str]:
    """What changed from `old` to `new`, one short phrase each in the reader's language, the most important first.

    Two servers may know one model by other ids, and have its file in other folders.

    >>> a = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q4_K_M", {"context": 4096})
    >>> b = Snapshot("llama.cpp", "b6400", "Qwen3-8B", "IQ2_XS", {"context": 8192})
    >>> describe_changes(a, b)
    ['Q4_K_M → IQ2_XS', 'llama.cpp b6301 → b6400', 'Context 4,096 → 8,192']
    """
    phrases = []
    old_name, new_name = model_names((old, new)) if is_one_server else (old.model, new.model)
    if old_name != new_name:
        phrases.append(f"{old_name} → {new_name}")
    if old.quantization != new.quantization:
        unknown = _("unknown quantization")
        phrases.append(f"{old.quantization or unknown} → {new.quantization or unknown}")
    phrases += _engine_changes(old, new, engine_titles or {})
    for title, (before, after) in distinguishing_weights((old, new), is_one_server=is_one_server).items():
        phrases.append(f"{_(title)} {before} → {after}")
    for key in ordered_setting_keys({*old.settings, *new.settings}.difference(IDENTITY_SETTINGS)):
        old_value, new_value = old.settings.get(key), new.settings.get(key)
        if old_value != new_value:
            old_text, new_text = format_setting(old_value, key), format_setting(new_value, key)
            phrases.append(f"{setting_title(key)} {old_text} → {new_text}")
    phrases += [_("label {label} removed", label=label) for label in sorted(set(old.labels) - set(new.labels))]
    phrases += [_("label {label} added", label=label) for label in sorted(set(new.labels) - set(old.labels))]
    return phrases


def _engine_changes(old: Snapshot, new: Snapshot, engine_titles: Mapping[str, str]) -> list[str]:
    old_title, new_title = (engine_titles.get(snapshot.engine, snapshot.engine) for snapshot in (old, new))
    old_version, new_version = old.engine_version, new.engine_version
    if old.engine != new.engine:
        return [f"{old_title} {old_version or ''}".strip() + f" → {new_title} {new_version or ''}".rstrip()]
    if old_version != new_version:
        unknown = _("unknown version")
        return [f"{new_title} {old_version or unknown} → {new_version or unknown}"]
    return []


def distinguishing_settings(
    snapshots: Mapping[int, Snapshot], engine_titles: Mapping[str, str] | None = None
) -> dict[int, list[str]]:
    """For configurations side by side, by id: the phrases in which each differs from at least one of the others.

    >>> a = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q4_K_M", {"context": 4096, "cards": 2})
    >>> b = Snapshot("llama.cpp", "b6400", "Qwen3-8B", "Q4_K_M", {"context": 8192, "cards": 2})
    >>> distinguishing_settings({1: a, 2: b})
    {1: ['llama.cpp b6301', 'Context 4,096'], 2: ['llama.cpp b6400', 'Context 8,192']}
    """
    details = {config_id: _details(snapshot, engine_titles or {}) for config_id, snapshot in snapshots.items()}
    weights = distinguishing_weights(list(snapshots.values()), is_one_server=True)
    names = model_names(list(snapshots.values()))
    for position, (config_id, name) in enumerate(zip(snapshots, names, strict=True)):
        full_name = {} if name == snapshots[config_id].model else {"model": name}
        own_weights = {title: f"{_(title)} {values[position]}" for title, values in weights.items()}
        details[config_id] = {**full_name, **own_weights, **details[config_id]}
    keys = {key for phrases in details.values() for key in phrases}
    differing = {key for key in keys if len({phrases.get(key) for phrases in details.values()}) > 1}
    return {config_id: [phrases[key] for key in phrases if key in differing] for config_id, phrases in details.items()}


def _is_kv_uniform(snapshot: Snapshot) -> bool:
    return snapshot.settings.get("kv_type_k") == snapshot.settings.get("kv_type_v")


def _details(snapshot: Snapshot, engine_titles: Mapping[str, str]) -> dict[str, str]:
    engine = engine_titles.get(snapshot.engine, snapshot.engine)
    details = {"engine": f"{engine} {snapshot.engine_version or ''}".strip()}
    for key in ordered_setting_keys(snapshot.settings.keys() - set(IDENTITY_SETTINGS)):
        if snapshot.settings[key] == DEFAULT:  # what nobody set distinguishes from what somebody did by its absence
            continue
        details[key] = f"{setting_title(key)} {format_setting(snapshot.settings[key], key)}"
    if snapshot.settings.get("kv_type_k") is not None and _is_kv_uniform(snapshot):  # said once
        details["kv_type_k"] = _("KV cache {type}", type=format_setting(snapshot.settings["kv_type_k"], "kv_type_k"))
        del details["kv_type_v"]
    if snapshot.labels:
        details["labels"] = ", ".join(sorted(snapshot.labels))
    return details


# --- which model it is -----------------------------------------------------------------------------------------------


def model_names(snapshots: Sequence[Snapshot]) -> list[str]:
    """The name of each model, in full where two share a name and are not the same model.

    >>> ids = ("gpu0/llama-3-8b", "cpu/llama-3-8b")
    >>> model_names([Snapshot("openai", None, "llama-3-8b", None, {"model_id": model_id}) for model_id in ids])
    ['gpu0/llama-3-8b', 'cpu/llama-3-8b']
    """
    qualified_names = [_qualified_name(snapshot) for snapshot in snapshots]
    qualified_by_name: dict[str, set[str]] = {}
    for snapshot, qualified in zip(snapshots, qualified_names, strict=True):
        qualified_by_name.setdefault(snapshot.model, set()).add(qualified)
    names = [
        qualified if len(qualified_by_name[snapshot.model]) > 1 else snapshot.model
        for snapshot, qualified in zip(snapshots, qualified_names, strict=True)
    ]
    ids_by_name: dict[tuple[str, str | None], set[str]] = {}
    for snapshot, name in zip(snapshots, names, strict=True):
        if (model_id := served_id(snapshot)) is not None:
            ids_by_name.setdefault((name, snapshot.quantization), set()).add(model_id)
    return [
        served_id(snapshot) or name if len(ids_by_name.get((name, snapshot.quantization), ())) > 1 else name
        for snapshot, name in zip(snapshots, names, strict=True)
    ]


def distinguishing_weights(snapshots: Sequence[Snapshot], *, is_one_server: bool) -> dict[str, list[str]]:
    """What distinguishes the weights of models that share name and quantization: by the title of the first setting of
    IDENTITY_SETTINGS that differs, the value of each snapshot.

    Folders count only on one server: elsewhere the same file may lie in another one.
    """
    names = model_names(snapshots)
    if len({(name, snapshot.quantization) for name, snapshot in zip(names, snapshots, strict=True)}) > 1:
        return {}
    files = [_model_file(snapshot) for snapshot in snapshots]
    sizes = [snapshot.settings.get("model_bytes") for snapshot in snapshots]
    columns = {
        "model_file": files if is_one_server else [file_name(snapshot) for snapshot in snapshots],
        "model_digest": [str(snapshot.settings.get("model_digest") or "")[:12] or None for snapshot in snapshots],
        "model_bytes": [format_setting(size_bytes) if size_bytes else None for size_bytes in sizes],
    }
    for key, values in columns.items():
        if len(set(values) - {None}) > 1:
            return {SETTINGS[key].title: [value or format_setting(None) for value in values]}
    return {}


def _qualified_name(snapshot: Snapshot) -> str:
    """The model's name with the prefix that its server puts before it: a backend, a publisher."""
    model_id = served_id(snapshot)
    if model_id is None:
        return snapshot.model
    return model_id.removesuffix(_last_part(model_id)) + snapshot.model


def served_id(snapshot: Snapshot) -> str | None:
    """The id under which the server offers the model, unless that is only the path of its file."""
    model_id = snapshot.settings.get("model_id")
    return None if not isinstance(model_id, str) or is_file_path(model_id) else model_id


def file_name(snapshot: Snapshot) -> str | None:
    """The name of the model's file without its folder; None: not recorded."""
    path = _model_file(snapshot)
    return path and _last_part(path)


def _model_file(snapshot: Snapshot) -> str | None:
    model_id, path = snapshot.settings.get("model_id"), snapshot.settings.get("model_file")
    if path is None and isinstance(model_id, str) and is_file_path(model_id):
        return model_id
    return None if path is None else str(path)


def is_file_path(text: str) -> bool:
    return text.startswith(("/", "~")) or re.match(r"[A-Za-z]:[\\/]|\\\\", text) is not None


def _last_part(text: str) -> str:
    return re.split(r"[/\\]", text.rstrip("/\\"))[-1] + text[len(text.rstrip("/\\")) :]
