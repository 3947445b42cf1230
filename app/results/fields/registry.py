"""All fields, metrics included: the explorer, histories, comparisons, shares and searches use them."""

from collections.abc import Iterable
from dataclasses import replace

from app.core.i18n import _
from app.db.tables import Config
from app.metrics import metrics
from app.metrics.base import Metric
from app.results.fields.configuration import CONFIGURATION_FIELDS, setting_fields
from app.results.fields.field import Disclosure, Field, RunContext, SearchColumn
from app.results.fields.run import RUN_FIELDS, WORKLOAD_FIELDS

GROUPS = ("Metrics", "Derived", "Configuration", "Settings", "Point", "Run")
DECODE, POWER = "decode_tokens_per_s", "joules_per_output_token"


def metric_fields() -> list[Field]:
    """Returns a field for each metric, with the metric's title, unit and explanation."""
    return [_metric_field(metric) for metric in metrics().values()]


def _metric_field(metric: Metric) -> Field:
    return Field(
        metric.key, metric.title, "Metrics", "number", metric.unit, metric.explanation,
        missing="It was not measured there.", metric=metric.key, better=metric.better, disclosure=Disclosure.ALWAYS,
    )  # fmt: skip


def _ceiling_share(tokens_per_s: float, context: RunContext) -> float | None:
    """Reads the percentage of the ceiling that all streams together reach."""
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
        "Decode speed over the mean power during decode, which is tokens per joule.",
        "No power was recorded; it needs a sensor that Roofmark can read on the machine that it runs on.",
        metric=POWER, transform=lambda joules, _context: 1 / joules if joules > 0 else None,
        disclosure=Disclosure.ALWAYS,
    ),
]  # fmt: skip


def all_fields(configs: Iterable[Config] = ()) -> list[Field]:
    """Returns every field in the order of GROUPS; `configs` add the settings that people invented."""
    return [
        *metric_fields(),
        *DERIVED_FIELDS,
        *CONFIGURATION_FIELDS,
        *setting_fields(configs),
        *WORKLOAD_FIELDS,
        *RUN_FIELDS,
    ]


def context_fields(configs: Iterable[Config] = ()) -> list[Field]:
    """Returns the fields that are read from a RunContext alone, so no metrics."""
    return [*CONFIGURATION_FIELDS, *setting_fields(configs), *WORKLOAD_FIELDS, *RUN_FIELDS]


def explorer_fields(configs: Iterable[Config]) -> dict[str, Field]:
    """Returns the fields of the explorer by key, in the reader's language."""
    return {field.key: _localized(field) for field in all_fields(configs) if field.in_explorer}


def _localized(field: Field) -> Field:
    """Returns a field in the reader's language; names of a person's own settings stay as they are."""
    return replace(
        field,
        title=field.localized_title,
        group=_(field.group),
        explanation=_(field.explanation) if field.explanation else "",
        missing=_(field.missing),
    )


def grouped(fields: Iterable[Field]) -> list[tuple[str, list[Field]]]:
    """Returns localized fields by the title of their group, for a person to choose from."""
    choices = list(fields)
    return [(group, [field for field in choices if field.group == group]) for group in map(_, GROUPS)]


def search_columns() -> list[SearchColumn]:
    """Returns the columns that a search for words reads, each once."""
    fields = [*CONFIGURATION_FIELDS, *setting_fields(), *RUN_FIELDS]
    return list(dict.fromkeys(column for field in fields for column in field.search))
