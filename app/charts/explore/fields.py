"""Every quantity that the explorer can put on an axis or tell series apart by, in one registry."""

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from app.ceiling.labels import bits_of_label
from app.ceiling.types import KV_BITS
from app.configuration import SETTINGS, setting_title, show
from app.metrics import metrics
from app.metrics.base import Metric
from app.models import Config, Model
from app.roof import context_of, geometry_of
from app.samples import Point
from app.suites import BUILT_IN

Value = str | float | datetime
Kind = Literal["number", "category", "time"]
GROUPS = ("Metrics", "Derived", "Configuration", "Settings", "Point", "Run")
DECODE, POWER = "decode_tokens_per_s", "joules_per_output_token"


@dataclass(frozen=True)
class Spot:
    """What many observations share: all that a field may read except measured numbers and times."""

    config: Config
    model: Model
    title: str
    """Of the configuration, as short as it can be and still differ from the others."""
    machine: str
    server: str
    engine: str
    """Its title."""
    suite: str
    point: Point
    labels: tuple[str, ...]
    """Of the run and of its configuration."""
    decode_ceiling: float | None
    """tok/s of all streams together; only where a field needs it."""


def _unread(_spot: Spot) -> Value | None:
    return None


def _unturned(value: float, _spot: Spot) -> float | None:
    return value


def _unranked(_text: str) -> float:
    return 0.0


@dataclass(frozen=True)
class Field:
    """Either `read` from what observations share, or from a `metric` of each observation by `turn`, or its time."""

    name: str
    title: str
    group: str
    kind: Kind
    unit: str = ""
    explanation: str = ""
    missing: str = "It is not known of them."
    """Why there is no value, in one sentence."""
    read: Callable[[Spot], Value | None] = _unread
    metric: str | None = None
    turn: Callable[[float, Spot], float | None] = _unturned
    rank: Callable[[str], float] = _unranked
    """What categories are sorted by, before their names."""
    needs: Literal["", "title", "ceiling"] = ""
    """What of a Spot costs something to find out."""

    @property
    def label(self) -> str:
        return f"{self.title} {self.unit}".strip()

    @property
    def is_discrete(self) -> bool:
        """Whether many observations can share one value."""
        return self.metric is None and self.kind != "time"

    @property
    def is_of_point(self) -> bool:
        return self.group == "Point"

    @property
    def remedy(self) -> str:
        """What would give this field further values."""
        if self.is_of_point:
            suite = next((key for key, each in BUILT_IN.items() if self._varies(each.cases)), None)
            return f"run the `{suite}` suite" if suite else "run a suite that has several"
        return "measure it with more than one"

    def _varies(self, cases: Iterable[Any]) -> bool:
        return len({self.of_point(case.point) for case in cases}) > 1

    def of_point(self, point: Point) -> float | None:
        return _POINT[self.name](point) if self.is_of_point else None


_POINT: dict[str, Callable[[Point], float]] = {
    "prompt_tokens": lambda point: point.prompt_tokens,
    "output_tokens": lambda point: point.output_tokens,
    "concurrency": lambda point: point.concurrency,
    "depth": lambda point: point.depth,
    "context_tokens": context_of,
}


def registry(configs: Iterable[Config]) -> dict[str, Field]:
    """By name; `configs` are asked for the settings that people have made up."""
    found = [*map(_of_metric, metrics().values()), *_DERIVED, *_CONFIGURATION, *_settings(configs), *_POINTS, *_RUN]
    return {field.name: field for field in found}


def natural(text: str) -> tuple[tuple[int, float, str], ...]:
    """Sorts b999 before b6301.

    >>> sorted(["b6301", "B999", "a"], key=natural)
    ['a', 'B999', 'b6301']
    """
    parts = re.findall(r"\d+|\D+", text.casefold())
    return tuple((0, float(part), "") if part.isdecimal() and len(part) < 16 else (1, 0.0, part) for part in parts)


def order(field: Field, value: Value | None) -> tuple[Any, ...]:
    """A key to sort a field's values by; the unknown comes last."""
    if value is None:
        return (1,)
    return (0, field.rank(value), natural(value), value) if isinstance(value, str) else (0, value)


# --- metrics ---------------------------------------------------------------------------------------------------------


def _of_metric(metric: Metric) -> Field:
    return Field(
        metric.key, metric.title, "Metrics", "number", metric.unit, metric.explanation, metric=metric.key,
        missing="It was not measured there.",
    )  # fmt: skip


def _share(decode_tokens_per_s: float, spot: Spot) -> float | None:
    if not spot.decode_ceiling:
        return None
    return 100 * decode_tokens_per_s * spot.point.concurrency / spot.decode_ceiling


_DERIVED = (
    Field(
        "ceiling_share", "Share of the ceiling", "Derived", "number", "%",
        "MBU: decode speed over the most that the memory's bandwidth allows; never clamped.",
        "Their ceiling is unknown: the page of a run says what is missing.",
        metric=DECODE, turn=_share, needs="ceiling",
    ),
    Field(
        "tokens_per_s_per_watt", "Decode per watt", "Derived", "number", "tok/s/W",
        "Decode speed over the mean power during decode, which is tokens for each joule.",
        "No power was recorded: it needs a sensor that Roofmark can read on the machine that it runs on.",
        metric=POWER, turn=lambda joules, _spot: 1 / joules if joules > 0 else None,
    ),
)  # fmt: skip


# --- configuration ---------------------------------------------------------------------------------------------------


def _quantization_rank(label: str) -> float:
    bits = bits_of_label(label)
    return math.inf if bits is None else bits


def _bits(spot: Spot) -> float | None:
    """Of the file where it is known, else what the label usually means."""
    geometry = geometry_of(spot.model)
    if geometry is not None and geometry.weights is not None:
        return round(geometry.weights.bits_per_weight, 3)
    return bits_of_label(spot.model.quantization)


def _parameters(spot: Spot) -> float | None:
    geometry = geometry_of(spot.model)
    total = geometry.params_total if geometry else None
    return _billions(total or spot.model.geometry.get("parameters"))


def _active(spot: Spot) -> float | None:
    geometry = geometry_of(spot.model)
    return _billions(geometry.params_active) if geometry else None


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
        read=lambda spot: f"{spot.model.name} {spot.model.quantization}".strip(),
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

    def read(spot: Spot) -> Value | None:
        value = spot.config.settings.get(key)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        return value if is_number else (str(value) if _is_number(value) else show(value))

    return Field(
        f"setting.{key}", setting_title(key), "Settings", "number" if is_number else "category",
        read=read, rank=lambda text: KV_BITS.get(text.lower(), 0.0), missing="Their configuration does not state it.",
    )  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- points and runs -------------------------------------------------------------------------------------------------


def _of_point(name: str, title: str, explanation: str) -> Field:
    return Field(name, title, "Point", "number", explanation=explanation, read=lambda spot: _POINT[name](spot.point))


_POINTS = (
    _of_point("prompt_tokens", "Prompt tokens", "The length that the suite asks for."),
    _of_point("output_tokens", "Output tokens", "The length that the suite asks for."),
    _of_point("concurrency", "Concurrency", "How many requests run at once."),
    _of_point("depth", "Depth", "Tokens in the cache before the prompt."),
    _of_point("context_tokens", "Context tokens", "In the cache during decode, on average."),
)

_RUN = (
    Field("machine", "Machine", "Run", "category", read=lambda spot: spot.machine),
    Field("server", "Server", "Run", "category", read=lambda spot: spot.server),
    Field("suite", "Suite", "Run", "category", read=lambda spot: spot.suite),
    Field("started_at", "Started, UTC", "Run", "time", explanation="When the run started, by days."),
)

