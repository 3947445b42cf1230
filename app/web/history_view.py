"""What the address of a history says: which runs, which metric, how its lines are made and drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from app.charts.history.lines import CONFIGURATION, SERIES
from app.core.errors import BadInput
from app.core.i18n import N_, _, english
from app.db.configs import ConfigDescription
from app.metrics import HEADLINE_METRICS, metrics
from app.metrics.base import Metric
from app.results.fields.run import filtered_series_keys, series_context, series_text, series_titles
from app.results.run_filter import RunFilter

PERIODS = {"7d": (N_("7 d"), 7), "30d": (N_("30 d"), 30), "1y": (N_("1 y"), 365)}
"""Times up to today by parameter: the title and the number of days."""
FIT = "fit"
ALL_CEILINGS = "all"
MAX_HIDDEN = 200


@dataclass(frozen=True)
class FieldFilter:
    """Shows only configurations with this value of a field; the value in English."""

    field: str
    value: str

    @classmethod
    def read(cls, text: str) -> "FieldFilter":
        """Parse `field:value`. Raises BadInput."""
        key, colon, value = text.partition(":")
        if not colon:
            raise BadInput(
                _("What to show is written field:value, such as quantization:Q4_K_M; {text!r} is not.", text=text[:80])
            )
        return cls(key, value)

    def __str__(self) -> str:
        return f"{self.field}:{self.value}"


@dataclass(frozen=True)
class HistoryView:
    """What a history shows: runs, metric, and how lines are made and drawn."""

    where: RunFilter
    metric: str = ""
    """A metric's key; empty: the headline metrics."""
    by: str = SERIES
    only: tuple[FieldFilter, ...] = ()
    period: str = ""
    """One of PERIODS, which outranks the days of the filter; empty: all time, or those days."""
    axis: str = ""
    """FIT: value axes fit the data; empty: they begin at zero."""
    ceilings: str = ""
    """ALL_CEILINGS: all are drawn; empty: those near the lines."""
    hide: tuple[str, ...] = ()
    """The keys of lines that are not drawn."""

    def __post_init__(self) -> None:
        if self.metric and self.metric not in metrics():
            raise BadInput(
                _(
                    "A history shows one of {value}; {metric!r} is not a metric.",
                    value=", ".join(metrics()),
                    metric=self.metric,
                )
            )
        for name, allowed in (("period", tuple(PERIODS)), ("axis", (FIT,)), ("ceilings", (ALL_CEILINGS,))):
            value: str = getattr(self, name)
            if value and value not in allowed:
                raise BadInput(
                    _(
                        "{name} is {values}, or nothing; {value!r} is neither.",
                        name=name,
                        values=", ".join(allowed),
                        value=value,
                    )
                )

    @property
    def metrics(self) -> Sequence[Metric]:
        """The metrics of its panels, from the top."""
        return [metrics()[key] for key in ([self.metric] if self.metric else HEADLINE_METRICS)]

    @property
    def query(self) -> str:
        """The query of the address, without defaults."""
        pairs = [(key, value) for key, value in self.where.active.items()]
        pairs += [("metric", self.metric), ("by", self.by if self.by != SERIES else "")]
        pairs += [("only", str(field_filter)) for field_filter in self.only]
        pairs += [("period", self.period), ("axis", self.axis), ("ceilings", self.ceilings)]
        pairs += [("hide", key) for key in self.hide]
        return urlencode([(key, value) for key, value in pairs if value])

    def dated(self, moment: datetime) -> RunFilter:
        """The filter of runs with the days of the period up to `moment`."""
        if not self.period:
            return self.where
        since = (moment.astimezone(UTC) - timedelta(days=PERIODS[self.period][1])).date()
        return replace(self.where, since=since, until=None)

    @property
    def at_all_times(self) -> "HistoryView":
        """The view without a period or days."""
        return replace(self, where=replace(self.where, since=None, until=None), period="")

    def narrowed(self, value: str) -> "HistoryView":
        """The view of one of its lines: of a configuration by its fingerprint, or of one value of the field."""
        if self.by == CONFIGURATION:
            return replace(self, where=replace(self.where, config=value))
        return replace(self, by=SERIES, only=(*self.without(self.by).only, FieldFilter(self.by, english(value))))

    def with_ceilings(self) -> "HistoryView":
        """The view with all ceilings drawn, or without them where they are."""
        return replace(self, ceilings="" if self.ceilings else ALL_CEILINGS)

    def of_machine(self, slug: str) -> "HistoryView":
        """The view of one machine."""
        return replace(self, where=replace(self.where, machine=slug))

    def of_model(self, name: str) -> "HistoryView":
        """The view of one model."""
        return replace(self, where=replace(self.where, model=name), hide=())

    def without(self, field: str) -> "HistoryView":
        """The view without the filter of a field."""
        return replace(self, only=tuple(field_filter for field_filter in self.only if field_filter.field != field))

    def config_ids(
        self, configs: Mapping[int, ConfigDescription], engine_titles: Mapping[str, str]
    ) -> list[int] | None:
        """The configurations that match all filters; None without filters."""
        if not self.only:
            return None
        contexts = {config_id: series_context(config, engine_titles) for config_id, config in configs.items()}
        return [
            config_id
            for config_id, context in contexts.items()
            if all(english(series_text(only.field, context)) == only.value for only in self.only)
        ]


def parse_grouping(text: str, configs: Mapping[int, ConfigDescription]) -> str:
    """The key of what lines are made by; SERIES without one. Raises BadInput."""
    titles = groupings(configs)
    if text and text not in titles:
        raise BadInput(
            _(
                "Series are made by one of {fields}; {text!r} is not one of them.",
                fields=", ".join(titles),
                text=text[:40],
            )
        )
    return text or SERIES


def filterable_values(
    configs: Mapping[int, ConfigDescription], engine_titles: Mapping[str, str]
) -> list[tuple[str, list[tuple[FieldFilter, str]]]]:
    """Choices for fields without a filter of their own, each with its words, by the title of the field."""
    contexts = [series_context(config, engine_titles) for config in configs.values()]
    filtered = filtered_series_keys()
    choices = []
    for key, title in series_titles(configs.values()).items():
        values = sorted({series_text(key, context) for context in contexts})
        if key not in filtered and len(values) > 1:
            choices.append((title, [(FieldFilter(key, english(value)), value) for value in values]))
    return choices


def groupings(configs: Mapping[int, ConfigDescription]) -> dict[str, str]:
    """What lines can be made by: titles by key."""
    fixed = {SERIES: _("Model and quantization"), CONFIGURATION: _("Configuration")}
    return {**fixed, **series_titles(configs.values())}
