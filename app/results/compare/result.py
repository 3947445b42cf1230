"""What a comparison is, as plain values: pages, figures, the terminal and JSON all read this and nothing else."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.core.samples import Workload
from app.results.compare.differences import Difference
from app.stats.runs import RunScatter
from app.stats.verdict import Ratio, Verdict

SCHEMA = "roofmark.compare/2"
LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class Subject:
    """A run, or all runs of a configuration taken together."""

    letter: str
    key: str
    """As it was named: a run's id, or `config:` with one."""
    public_id: str
    """Of the run, or of the configuration's newest; its page tells more."""
    title: str
    """Model and quantization."""
    unit: str
    """What one value is of: repetition or run."""
    data_source: str
    """Which runs its figures are of, in words."""
    runs: tuple[str, ...]
    """Public ids of all runs that its figures are of."""
    machine: str
    server: str
    engine: str | None
    engine_version: str | None
    model: str | None
    quantization: str | None
    settings: Mapping[str, Any]
    labels: tuple[str, ...]
    fingerprint: str | None
    suite_key: str
    started_at: str | None
    """ISO 8601, UTC."""
    reason_not_comparable: str
    """Why nothing can be compared with it; empty when something can."""
    unsound: tuple[str, ...]
    """What disturbed its runs, so that no verdict can rest on them."""


@dataclass(frozen=True)
class Cell:
    """One metric of one subject at one point. `value` is the median; None has a reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    standard_deviation: float | None = None
    count: int = 0
    left_out: int = 0
    """So many repetitions were left out; the run's page says why."""
    reason: str = ""
    ratio: Ratio | None = None
    """Over the first subject; None for itself, and where there is a refusal."""
    reason_not_comparable: str = ""
    """Why there is no ratio."""
    scatter: RunScatter | None = None
    """How much runs of one configuration differ on its machine; None without a value."""


@dataclass(frozen=True)
class MetricRow:
    metric: str
    title: str
    unit: str
    better: str
    """higher or lower."""
    source: str | None
    """The one source that all cells are from."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class PointRows:
    point: Workload
    rows: tuple[MetricRow, ...]
    extra_rows: tuple[MetricRow, ...] = ()
    """Other metrics that two subjects or more have; no verdict looks at them."""

    @property
    def all_rows(self) -> tuple[MetricRow, ...]:
        return (*self.rows, *self.extra_rows)

    @property
    def n_measured(self) -> int:
        """How many subjects have a value here."""
        return max((sum(cell.value is not None for cell in row.cells) for row in self.rows), default=0)


@dataclass(frozen=True)
class Pair:
    """One subject against the first."""

    place: int
    reason_not_comparable: str
    """Why there is no verdict at all; empty when there is one."""
    differing_settings: tuple[str, ...]
    """Settings in which they differ, in words; more than one cannot be told apart by this pair."""
    unknown_settings: tuple[str, ...]
    """Titles of the settings that are unknown on either side: they may differ, too."""
    verdict: Verdict | None
    """Of the metrics at the main point together."""
    unsound: tuple[str, ...] = ()
    """What disturbed one of the two, so that the verdict is no more than inconclusive."""


@dataclass(frozen=True)
class Distribution:
    """The pauses between token events of a subject's run at the main point, all usable samples together."""

    quantiles_ms: tuple[float, ...]
    """0 to 100 %, one for each per cent; empty where there are none."""
    gaps: int
    is_chunks: bool
    """Events hold several tokens."""
    reason: str = ""


@dataclass(frozen=True)
class Ceiling:
    """What the hardware allows at the main point, or where a subject lacks it, at its own. Shares are of 1 and never
    clamped."""

    decode_tokens_per_s: float | None
    decode_words: str
    mbu: float | None
    prefill_tokens_per_s: float | None
    prefill_words: str
    mfu: float | None
    reason: str = ""
    """Why it is unknown."""


@dataclass(frozen=True)
class Comparison:
    """Each tuple of values has one for each subject, in their order; verdicts are against the first."""

    subjects: tuple[Subject, ...]
    differences: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    """Of every subject but the first."""
    points: tuple[PointRows, ...]
    main: Workload | None
    """The point that distributions and ceilings are of: the suite's first that all have, else the first one's."""
    distributions: tuple[Distribution, ...]
    ceilings: tuple[Ceiling, ...]
    same_within: float
    """An interval within this share of 1 counts as the same."""

    @property
    def main_rows(self) -> tuple[MetricRow, ...]:
        return next((point.rows for point in self.points if point.point == self.main), ())

    def main_ratios(self, place: int) -> list[Ratio]:
        """Those that the verdict on a subject rests on."""
        return [ratio for row in self.main_rows if (ratio := row.cells[place].ratio) is not None]

    def main_scatters(self, place: int) -> dict[str, RunScatter]:
        """By metric, on the machine of a subject."""
        return {row.metric: scatter for row in self.main_rows if (scatter := row.cells[place].scatter) is not None}

    @property
    def shared_points(self) -> tuple[PointRows, ...]:
        """Where more than one subject has a value."""
        return tuple(point for point in self.points if point.n_measured > 1)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The document "roofmark.compare/2"."""
    return {"schema": SCHEMA, **asdict(comparison)}
