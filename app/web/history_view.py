"""What a history shows: its whole state, as it stands in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from app.charts.history.series import CONFIGURATION
from app.core.errors import BadInput
from app.core.i18n import _, english
from app.db.configs import Described
from app.metrics import HEADLINE_METRICS, metrics
from app.metrics.base import Metric
from app.results.config_fields import field, fields_of
from app.results.run_filter import RunFilter


@dataclass(frozen=True)
class Only:
    """A field of the configuration and the one value that is wanted, as it reads in English."""

    field: str
    value: str

    @classmethod
    def read(cls, text: str) -> "Only":
        key, colon, value = text.partition(":")
        if not colon:
            raise BadInput(
                _("What to show is written field:value, such as quantization:Q4_K_M; {text!r} is not.", text=text[:80])
            )
        return cls(key, value)

    def __str__(self) -> str:
        return f"{self.field}:{self.value}"


@dataclass(frozen=True)
class View:
    where: RunFilter
    metric: str = ""
    """A metric's key; empty: the triple."""
    by: str = CONFIGURATION
    only: tuple[Only, ...] = ()

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
        return [metrics()[key] for key in ([self.metric] if self.metric else HEADLINE_METRICS)]

    @property
    def query(self) -> str:
        """As it stands in an address; what is as usual does not clutter it."""
        pairs = [(key, value) for key, value in self.where.active.items()]
        pairs += [("metric", self.metric), ("by", self.by if self.by != CONFIGURATION else "")]
        pairs += [("only", str(each)) for each in self.only]
        return urlencode([(key, value) for key, value in pairs if value])

    def narrowed(self, value: str) -> "View":
        """To one of its series: a configuration by its fingerprint, or one value of the field."""
        if self.by == CONFIGURATION:
            return replace(self, where=replace(self.where, config=value))
        return replace(self, by=CONFIGURATION, only=(*self.without(self.by).only, Only(self.by, english(value))))

    def without(self, field: str) -> "View":
        return replace(self, only=tuple(each for each in self.only if each.field != field))

    def config_ids(self, configs: Mapping[int, Described], engine_titles: Mapping[str, str]) -> list[int] | None:
        """Those that have every wanted value; None: no value is wanted."""
        if not self.only:
            return None
        return [
            key
            for key, config in configs.items()
            if all(english(field(config, each.field, engine_titles)) == each.value for each in self.only)
        ]


def read_by(text: str, configs: Mapping[int, Described]) -> str:
    known = groupings(configs)
    if text and text not in known:
        raise BadInput(
            _("Series are made by one of {known}; {text!r} is not one of them.", known=", ".join(known), text=text[:40])
        )
    return text or CONFIGURATION


HAVE_A_FILTER = ("model", "machine", "server", "engine", "label")


def values_of(
    configs: Mapping[int, Described], engine_titles: Mapping[str, str]
) -> list[tuple[str, list[tuple[Only, str]]]]:
    """What there is to choose from of fields that have no filter of their own, each in words, with the title of each
    field."""
    found = []
    for key, title in fields_of(configs.values()).items():
        values = sorted({field(config, key, engine_titles) for config in configs.values()})
        if key not in HAVE_A_FILTER and len(values) > 1:
            found.append((title, [(Only(key, english(value)), value) for value in values]))
    return found


def groupings(configs: Mapping[int, Described]) -> dict[str, str]:
    """What series can be made by: titles by key."""
    return {CONFIGURATION: _("Configuration"), **fields_of(configs.values())}
