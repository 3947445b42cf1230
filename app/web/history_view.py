"""The state of the history page, all of which is in its address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from app.charts.history.series import CONFIGURATION
from app.core.errors import BadInput
from app.core.i18n import _, english
from app.db.configs import ConfigDescription
from app.metrics import HEADLINE_METRICS, metrics
from app.metrics.base import Metric
from app.results.fields.series import filtered_series_keys, series_context, series_text, series_titles
from app.results.run_filter import RunFilter


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
    """What a history shows: runs, metric, and how series are made."""

    where: RunFilter
    metric: str = ""
    """A metric's key; empty: the headline metrics."""
    by: str = CONFIGURATION
    only: tuple[FieldFilter, ...] = ()

    def __post_init__(self) -> None:
        if self.metric and self.metric not in metrics():
            raise BadInput(
                _(
                    "A history shows one of {value}; {metric!r} is not a metric.",
                    value=", ".join(metrics()),
                    metric=self.metric,
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
        pairs += [("metric", self.metric), ("by", self.by if self.by != CONFIGURATION else "")]
        pairs += [("only", str(field_filter)) for field_filter in self.only]
        return urlencode([(key, value) for key, value in pairs if value])

    def narrowed(self, value: str) -> "HistoryView":
        """The view of one of its series: of a configuration by its fingerprint, or of one value of the field."""
        if self.by == CONFIGURATION:
            return replace(self, where=replace(self.where, config=value))
        return replace(self, by=CONFIGURATION, only=(*self.without(self.by).only, FieldFilter(self.by, english(value))))

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
    """The key of the field that series are made by; the configuration without one. Raises BadInput."""
    titles = groupings(configs)
    if text and text not in titles:
        raise BadInput(
            _(
                "Series are made by one of {known}; {text!r} is not one of them.",
                known=", ".join(titles),
                text=text[:40],
            )
        )
    return text or CONFIGURATION


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
    """The fields that series can be made by: titles by key."""
    return {CONFIGURATION: _("Configuration"), **series_titles(configs.values())}
