"""What a comparison is, as plain values: pages, figures, the terminal and JSON all read this and nothing else."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.compare.comparable import Difference
from app.compare.statistics import Ratio, Verdict
from app.samples import Point

SCHEMA = "roofmark.compare/1"
LETTERS = "ABCDEFGH"
MIXED = "mixed"
"""Some of it better, some of it worse."""


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
    basis: str
    """Which values stand behind its figures, in words."""
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
    refusal: str
    """Why nothing can be compared with it; empty when something can."""


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
    refusal: str = ""
    """Why there is no verdict."""


@dataclass(frozen=True)
class Row:
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
    point: Point
    rows: tuple[Row, ...]
    beside: tuple[Row, ...] = ()
    """What else is known of two subjects or more, and counts in no verdict."""

    @property
    def n_measured(self) -> int:
        """How many subjects have a value here."""
        return max((sum(cell.value is not None for cell in row.cells) for row in self.rows), default=0)


@dataclass(frozen=True)
class Pair:
    """One subject against the first."""

    place: int
    refusal: str
    """Why there is no verdict at all; empty when there is one."""
    about: tuple[str, ...]
    """Settings in which they differ, in words; more than one cannot be told apart by this pair."""
    verdict: str | None
    """Of all metrics at all points: better, worse, same, inconclusive or mixed."""


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
    main: Point | None
    """The point that distributions and ceilings are of: the suite's first that all have, else the first one's."""
    distributions: tuple[Distribution, ...]
    ceilings: tuple[Ceiling, ...]

    @property
    def main_rows(self) -> tuple[Row, ...]:
        return next((each.rows for each in self.points if each.point == self.main), ())

    @property
    def shared_points(self) -> tuple[PointRows, ...]:
        """Where more than one subject has a value."""
        return tuple(each for each in self.points if each.n_measured > 1)

    @property
    def verdicts(self) -> list[Verdict]:
        return [verdict for pair in self.pairs for verdict in verdicts_at(self.points, pair.place)]


def verdicts_at(points: Iterable[PointRows], place: int) -> list[Verdict]:
    ratios = [row.cells[place].ratio for each in points for row in each.rows]
    return [ratio.verdict for ratio in ratios if ratio is not None and ratio.verdict is not None]


def overall(verdicts: Iterable[Verdict]) -> str | None:
    """One word for several verdicts: what changed outweighs what did not. None for none."""
    found = set(verdicts)
    if {Verdict.BETTER, Verdict.WORSE} <= found:
        return MIXED
    for verdict in (Verdict.WORSE, Verdict.BETTER, Verdict.INCONCLUSIVE, Verdict.SAME):
        if verdict in found:
            return verdict.value
    return None


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The document "roofmark.compare/1"."""
    return {"schema": SCHEMA, **asdict(comparison)}
