"""Settings that a server's log states: where the model lies, read from the lines of its last start."""

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from app.ceiling.geometry import Geometry
from app.core.errors import BadInput
from app.core.llamacpp_flags import with_flags
from app.db.tables import FULL_GEOMETRY
from app.engines.base import Engine, Loaded, ModelInfo
from app.measure.runner.logfile import LogFile

log = logging.getLogger(__name__)

FULL_OFFLOAD_SHARE = 0.98
"""Of the weights that a step may read: with so many on cards, all of them are."""
MIB = 1 << 20


def settings_from_log(
    path: str | None, engine: Engine, model: ModelInfo | None, stated: Mapping[str, Any], shape: Mapping[str, Any]
) -> dict[str, Any]:
    """`stated`: what a person said; `shape`: what is known of the model (see runner.facts.geometry)."""
    if path is None or not engine.has_log:
        return {}
    try:
        with closing(LogFile(path)) as file:
            loads = next((loads for text in file.edges() if (loads := engine.read_loads(text))), ())
    except (BadInput, OSError):  # the run says so when it follows the log
        log.info("the server's log cannot be read", exc_info=True)
        return {}
    load = _load_of_model(loads, model)
    return {} if load is None else _settings(load, with_flags(stated), shape)


def _load_of_model(loads: Sequence[Loaded], model: ModelInfo | None) -> Loaded | None:
    """The last one of this model's file; a draft model is loaded after its model."""
    if model is None or model.file_path is None:
        return loads[-1] if loads else None
    name = _file_name(model.file_path)
    named = [load for load in loads if load.model_path is None or _file_name(load.model_path) == name]
    return named[-1] if named else None


def _file_name(path: str) -> str:
    """Also of a server on Windows."""
    return re.split(r"[\\/]", path)[-1]


def _by_number(item: tuple[str, float]) -> list[int]:
    """`CUDA2` before `CUDA10`."""
    return [int(digits) for digits in re.findall(r"\d+", item[0])]


def _settings(load: Loaded, stated: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    layers, typed = load.gpu_layers, stated.get("gpu_layers")
    is_all = layers is not None and layers == load.layers
    if layers is not None and not (is_all and isinstance(typed, int) and typed >= layers):
        settings["gpu_layers"] = layers
    settings |= _expert_settings(load.expert_blocks_in_ram, stated, shape)
    if load.is_kv_in_ram and layers:
        settings["kv_offload"] = "off"
    on_cards = load.gpu_weight_mib
    if len(on_cards) > 1 and "tensor_split" not in stated:
        whole = sum(on_cards.values())
        settings["tensor_split"] = ",".join(
            f"{100 * mib / whole:.0f}" for _name, mib in sorted(on_cards.items(), key=_by_number)
        )
    if on_cards and (read := _read_bytes(shape)) and sum(on_cards.values()) * MIB < FULL_OFFLOAD_SHARE * read:
        settings["gpu_weight_mib"] = round(sum(on_cards.values()))
    return settings


def _expert_settings(blocks: frozenset[int], stated: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """The first blocks that have experts are `n_cpu_moe`, any others a pattern; what was stated and agrees stays."""
    if not blocks or "override_tensor" in stated:
        return {}
    last, typed = max(blocks), stated.get("n_cpu_moe")
    geometry = _geometry(shape)
    with_experts = set(geometry.expert_blocks if geometry and geometry.expert_blocks else range(last + 1))
    if {index for index in with_experts if index <= last} <= blocks:
        return {} if isinstance(typed, int) and typed > last else {"n_cpu_moe": last + 1}
    return {"override_tensor": rf"blk\.({'|'.join(map(str, sorted(blocks)))})\.ffn_.*_exps=CPU"}


def _geometry(shape: Mapping[str, Any]) -> Geometry | None:
    return Geometry.from_json(shape[FULL_GEOMETRY]) if FULL_GEOMETRY in shape else None


def _read_bytes(shape: Mapping[str, Any]) -> int | None:
    """Of the weights that a step may read, all experts among them."""
    geometry = _geometry(shape)
    weights = geometry.weights if geometry else None
    return weights.total.n_bytes - weights.unread.n_bytes if weights else None
