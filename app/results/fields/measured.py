"""Fields that are measured: each metric, and what is derived from one."""

from app.metrics import metrics
from app.metrics.base import Metric
from app.results.fields.field import Disclosure, Field, RunContext

DECODE, POWER = "decode_tokens_per_s", "joules_per_output_token"


def metric_fields() -> list[Field]:
    """A field for each metric, with the metric's own title, unit and explanation."""
    return [_metric_field(metric) for metric in metrics().values()]


def _metric_field(metric: Metric) -> Field:
    return Field(
        metric.key, metric.title, "Metrics", "number", metric.unit, metric.explanation,
        missing="It was not measured there.", metric=metric.key, disclosure=Disclosure.ALWAYS,
    )  # fmt: skip


def _ceiling_share(tokens_per_s: float, context: RunContext) -> float | None:
    """Percent of the ceiling that all streams together reach."""
    return 100 * tokens_per_s / context.decode_ceiling if context.decode_ceiling else None


DERIVED_FIELDS = [
    Field(
        "ceiling_share", "Share of the ceiling", "Derived", "number", "%",
        "MBU: decode speed, of several streams their throughput, over the most that bandwidth allows; never clamped.",
        "Their ceiling is unknown; the page of a run says what is missing.",
        metric=DECODE, streams_metric="output_tokens_per_s", transform=_ceiling_share, needs="ceiling",
        disclosure=Disclosure.ALWAYS,
    ),
    Field(
        "tokens_per_s_per_watt", "Decode per watt", "Derived", "number", "tok/s/W",
        "Decode speed over the mean power during decode, which is tokens for each joule.",
        "No power was recorded; it needs a sensor that Roofmark can read on the machine that it runs on.",
        metric=POWER, transform=lambda joules, _context: 1 / joules if joules > 0 else None,
        disclosure=Disclosure.ALWAYS,
    ),
]  # fmt: skip
