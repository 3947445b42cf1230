"""Every quantity that the explorer can put on an axis or tell series apart by, in one registry."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from app.ceiling.number_formats import bits_of_label, kv_bits
from app.core.configuration import SETTINGS, setting_title, show
from app.core.i18n import _
from app.core.samples import Workload
from app.db.tables import Config
from app.metrics import metrics
from app.metrics.base import Metric
from app.results.ceiling import context_of
from app.results.explore.field import Field, GroupContext, Value, natural

GROUPS = ("Metrics", "Derived", "Configuration", "Settings", "Point", "Run")
DECODE, POWER = "decode_tokens_per_s", "joules_per_output_token"


def registry(configs: Iterable[Config]) -> dict[str, Field]:
    """By name; `configs` are asked for the settings that people have made up."""
    found = [*map(_of_metric, metrics().values()), *_DERIVED, *_CONFIGURATION, *_settings(configs), *_POINTS, *_RUN]
    return {field.name: _said(field) for field in found}


def _said(field: Field) -> Field:
    """In the reader's words."""
    return replace(
        field,
        title=_(field.title),
        group=_(field.group),
        explanation=_(field.explanation) if field.explanation else "",
        missing=_(field.missing),
    )


def grouped(fields: Iterable[Field]) -> list[tuple[str, list[Field]]]:
    """As a person chooses among them."""
    found = list(fields)
    return [(group, [field for field in found if field.group == group]) for group in map(_, GROUPS)]


# --- metrics ---------------------------------------------------------------------------------------------------------


def _of_metric(metric: Metric) -> Field:
    return Field(
        metric.key, metric.title, "Metrics", "number", metric.unit, metric.explanation, metric=metric.key,
        missing="It was not measured there.",
    )  # fmt: skip


def _share(tokens_per_s: float, spot: GroupContext) -> float | None:
    """Of all streams together."""
    return 100 * tokens_per_s / spot.decode_ceiling if spot.decode_ceiling else None


_DERIVED = (
    Field(
        "ceiling_share", "Share of the ceiling", "Derived", "number", "%",
        "MBU: decode speed, of several streams their throughput, over the most that bandwidth allows; never clamped.",
        "Their ceiling is unknown; the page of a run says what is missing.",
        metric=DECODE, streams_metric="output_tokens_per_s", turn=_share, needs="ceiling",
    ),
    Field(
        "tokens_per_s_per_watt", "Decode per watt", "Derived", "number", "tok/s/W",
        "Decode speed over the mean power during decode, which is tokens for each joule.",
        "No power was recorded; it needs a sensor that Roofmark can read on the machine that it runs on.",
        metric=POWER, turn=lambda joules, _spot: 1 / joules if joules > 0 else None,
    ),
)  # fmt: skip


# --- configuration ---------------------------------------------------------------------------------------------------


def _quantization_rank(label: str) -> tuple[float]:
    bits = bits_of_label(label)
    return (math.inf if bits is None else bits,)


def _variant_rank(text: str) -> tuple[Any, ...]:
    model, _, label = text.rpartition(" ")
    return natural(model), *_quantization_rank(label)


def _bits(spot: GroupContext) -> float | None:
    """Of the file where it is known, else what the label usually means."""
    weights = spot.told and spot.told.geometry.weights
    if weights:
        return round(weights.bits_per_weight, 3)
    return bits_of_label(spot.model.quantization)


def _parameters(spot: GroupContext) -> float | None:
    total = spot.told and spot.told.geometry.params_total
    return _billions(total or spot.model.geometry.get("parameters"))


def _active(spot: GroupContext) -> float | None:
    return _billions(spot.told.geometry.params_active) if spot.told else None


def _billions(count: Any) -> float | None:
    return round(count / 1e9, 4) if isinstance(count, int | float) and count > 0 else None


_CONFIGURATION = (
    Field("model", "Model", "Configuration", "category", read=lambda spot: spot.model.name),
    Field(
        "quantization", "Quantization", "Configuration", "category", missing="The server does not tell it.",
        read=lambda spot: spot.model.quantization or None, rank=_quantization_rank,
        explanation="Sorted by bits per weight.",
    ),
    Field(
        "variant", "Model and quantization", "Configuration", "category",
        read=lambda spot: spot.model.title, rank=_variant_rank,
    ),
    Field(
        "configuration", "Configuration", "Configuration", "category", read=lambda spot: spot.title, needs="title",
        explanation="All of it: whatever tells it apart from the others is in its name.",
    ),
    Field(
        "bits_per_weight", "Bits per weight", "Configuration", "number", read=_bits,
        explanation="Of the model's file; where that is unknown, what its quantization usually has.",
        missing="Neither a model file nor the quantization tells it.",
    ),
    Field(
        "parameters", "Parameters", "Configuration", "number", "B", read=_parameters, missing="No model file tells it."
    ),
    Field(
        "active_parameters", "Active parameters", "Configuration", "number", "B", read=_active,
        explanation="Those that one token uses: fewer than all in a mixture of experts.",
        missing="No model file tells it.",
    ),
    Field("engine", "Engine", "Configuration", "category", read=lambda spot: spot.engine),
    Field(
        "engine_version", "Engine version", "Configuration", "category",
        read=lambda spot: spot.config.engine_version and f"{spot.engine} {spot.config.engine_version}",
        missing="The server does not tell it.",
    ),
    Field(
        "labels", "Labels", "Configuration", "category", read=lambda spot: ", ".join(sorted(spot.labels)) or None,
        missing="They have no label.",
    ),
)  # fmt: skip


def _settings(configs: Iterable[Config]) -> list[Field]:
    used: dict[str, set[Any]] = {key: set() for key in SETTINGS}
    for config in configs:
        for key, value in config.settings.items():
            used.setdefault(key, set()).add(value if isinstance(value, str | int | float) else json.dumps(value))
    free = sorted(used.keys() - SETTINGS.keys())
    return [_setting(key, used[key]) for key in (*SETTINGS, *free)]


def _setting(key: str, values: set[Any]) -> Field:
    """A number where each value is one; a setting nobody has used is what it is meant to be."""
    meant = key in SETTINGS and SETTINGS[key].type is int
    is_number = all(_is_number(value) for value in values) if values else meant

    def read(spot: GroupContext) -> Value | None:
        value = spot.config.settings.get(key)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        return value if is_number else (str(value) if _is_number(value) else show(value))

    return Field(
        f"setting.{key}", setting_title(key), "Settings", "number" if is_number else "category",
        read=read, rank=_kv_rank, missing="Their configuration does not state it.",
    )  # fmt: skip


def _kv_rank(text: str) -> tuple[float]:
    """Types of a KV cache by their bits; other settings have none."""
    return (kv_bits(text.lower()) or 0.0,)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- points and runs -------------------------------------------------------------------------------------------------


def _point(name: str, title: str, explanation: str, of_point: Callable[[Workload], float]) -> Field:
    return Field(
        name, title, "Point", "number", explanation=explanation, of_point=of_point,
        read=lambda spot: of_point(spot.point),
    )  # fmt: skip


def asked_context(point: Workload) -> int:
    return context_of(point, None)


_POINTS = (
    _point("prompt_tokens", "Prompt tokens", "As many as the suite asks for.", lambda point: point.prompt_tokens),
    _point("output_tokens", "Output tokens", "As many as the suite asks for.", lambda point: point.output_tokens),
    _point("concurrency", "Concurrency", "How many requests run at once.", lambda point: point.concurrency),
    _point("depth", "Depth", "Tokens in the cache before the prompt.", lambda point: point.depth),
    _point(
        "context_tokens",
        "Context tokens",
        "As the suite asks for: depth, prompt and half of the output.",
        asked_context,
    ),
)

_RUN = (
    Field("machine", "Machine", "Run", "category", read=lambda spot: spot.machine),
    Field("server", "Server", "Run", "category", read=lambda spot: spot.server),
    Field("suite", "Suite", "Run", "category", read=lambda spot: spot.suite),
    Field("started_at", "Day", "Run", "time", "UTC", "When the run started."),
)
