"""What a leaderboard shows: which runs, by which metric, and how its rows are sorted and grouped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.core.errors import BadInput
from app.core.i18n import N_, _, enumerated
from app.metrics import HEADLINE_METRICS, metrics
from app.metrics.base import Metric
from app.results.run_filter import RunFilter

DEFAULT_METRIC = "decode_tokens_per_s"
DEFAULT_SORT = "best"

SORTS: Mapping[str, str] = {
    "best": N_("Best"),
    "model": N_("Model"),
    "machine": N_("Machine"),
    "quantization": N_("Quantization"),
    "latest": N_("Latest"),
    "below": N_("Latest against best"),
    "change": N_("Since the build before"),
    "runs": N_("Runs"),
    "when": N_("Last measured"),
}
"""What rows are sorted by, with titles."""
GROUPINGS: Mapping[str, str] = {
    "model": N_("Model"),
    "machine": N_("Machine"),
    "quantization": N_("Quantization"),
    "engine": N_("Engine"),
}
"""What rows are grouped by, with titles."""
VIEW_PARAMETERS = ("by", "sort", "order", "group")
"""Parameters of an address besides those of the filter."""
ORDERS = ("asc", "desc")
_ASCENDING_FIRST = frozenset({"model", "machine", "quantization"})
_IGNORED = {"status", "hidden"}
"""Filters without a meaning here: only finished runs that are not hidden count."""


@dataclass(frozen=True)
class LeaderboardView:
    """What a leaderboard shows. Raises BadInput for values that make no sense."""

    where: RunFilter = field(default_factory=RunFilter)
    by: str = DEFAULT_METRIC
    """The key of a metric."""
    sort: str = DEFAULT_SORT
    order: str = ""
    """asc or desc; empty: the usual order of what the rows are sorted by."""
    group: str = ""

    def __post_init__(self) -> None:
        if self.by not in metrics():
            keys = enumerated([metric.alias or key for key, metric in metrics().items() if key in HEADLINE_METRICS])
            raise BadInput(_("A leaderboard is about a metric such as {keys}; {by!r} is none.", keys=keys, by=self.by))
        for value, choices in ((self.sort, SORTS), (self.group, ("", *GROUPINGS)), (self.order, ("", *ORDERS))):
            if value not in choices:
                words = enumerated([choice for choice in choices if choice], "or")
                raise BadInput(_("A leaderboard takes {words}, not {value!r}.", words=words, value=value[:40]))

    @classmethod
    def parse(cls, parameters: Mapping[str, str | None], where: RunFilter | None = None) -> "LeaderboardView":
        """Parses the parameters of an address or a command, with `where` in place of theirs. Raises BadInput."""
        values = {name: stripped for name in VIEW_PARAMETERS if (stripped := (parameters.get(name) or "").strip())}
        values["by"] = _metric_key(values.get("by", DEFAULT_METRIC))
        return cls(where=where if where is not None else RunFilter.parse(parameters), **values)

    @property
    def metric(self) -> Metric:
        """The metric that decides what is best."""
        return metrics()[self.by]

    @property
    def metrics(self) -> Sequence[Metric]:
        """The headline metrics, and the chosen one where it is none of them."""
        return [metrics()[key] for key in dict.fromkeys((*HEADLINE_METRICS, self.by))]

    @property
    def place(self) -> int:
        """The place of the chosen metric among `metrics`."""
        return [metric.key for metric in self.metrics].index(self.by)

    @property
    def filter(self) -> RunFilter:
        """The filter without what has no meaning here."""
        return replace(self.where, **dict.fromkeys(_IGNORED))

    @property
    def is_descending(self) -> bool:
        return self.order == "desc" if self.order else self.first_order(self.sort) == "desc"

    def first_order(self, sort: str) -> str:
        """Returns the usual order of what rows are sorted by: names from A, the best before others, the worst change
        before others."""
        if sort in ("best", "latest"):
            return "desc" if self.metric.better == "higher" else "asc"
        if sort in ("below", "change"):
            return "asc" if self.metric.better == "higher" else "desc"
        return "asc" if sort in _ASCENDING_FIRST else "desc"

    @property
    def active(self) -> dict[str, str]:
        """The parameters of its address, without defaults."""
        values = {
            "by": "" if self.by == DEFAULT_METRIC else self.metric.alias or self.by,
            "sort": "" if self.sort == DEFAULT_SORT else self.sort,
            "order": "" if self.order in ("", self.first_order(self.sort)) else self.order,
            "group": self.group,
        }
        return {**self.where.active, **{name: value for name, value in values.items() if value}}


def _metric_key(text: str) -> str:
    """Returns the key of a metric that is named by its key or its alias; an unknown one as it is."""
    return next((key for key, metric in metrics().items() if text in (key, metric.alias)), text)
