"""The result of a comparison as plain values and in words. Pages, charts, terminal and JSON are all made from it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.core.i18n import N_, _, enumerated, joined, lower_first, ngettext
from app.core.samples import Workload
from app.core.units import format_number, plural
from app.metrics import metrics
from app.results.compare.differences import Difference
from app.stats.runs import RunScatter
from app.stats.verdict import MANY_RUNS, Ratio, Verdict

SCHEMA = "roofmark.compare/2"
LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class Subject:
    """A run, or all runs of a configuration taken together."""

    letter: str
    key: str
    """The name as it was given: a run's id, or `config:` with one."""
    public_id: str
    """The public id of the run, or of the configuration's newest run."""
    title: str
    """Model and quantization."""
    name: str
    """What tells it apart from the others, and from them alone."""
    unit: str
    """What one value is of: repetition or run."""
    data_source: str
    """The runs that its values are of, in words."""
    runs: tuple[str, ...]
    """The public ids of all runs that its values are of."""
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
    """The number of repetitions left out; the run's page gives the reasons."""
    reason: str = ""
    ratio: Ratio | None = None
    """The ratio to the first subject; None for the first itself, and when `reason_not_comparable` says why."""
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
    """The better direction: higher or lower."""
    source: str | None
    """The source that all cells are from."""
    cells: tuple[Cell, ...]

    @property
    def best(self) -> int | None:
        """The place of the best value; None where nothing stands out: without two values, where another one reads the
        same, and where the verdict is that it is no better than the first."""
        values = {place: cell.value for place, cell in enumerate(self.cells) if cell.value is not None}
        if len(values) < 2:
            return None
        choose = max if self.better == "higher" else min
        best = choose(values, key=lambda place: values[place])
        texts = [format_number(value) for value in values.values()]
        own = self.cells[best].ratio
        ratios = [cell.ratio for cell in self.cells if cell.ratio] if own is None else [own]
        is_alike = bool(ratios) and all(ratio.verdict is Verdict.SAME for ratio in ratios)
        return None if is_alike or texts.count(format_number(values[best])) > 1 else best

    @property
    def common_count(self) -> int | None:
        """The number of values behind each median, where it is the same everywhere and none was left out."""
        counts = {cell.count for cell in self.cells if cell.value is not None}
        return next(iter(counts)) if len(counts) == 1 and not any(cell.left_out for cell in self.cells) else None

    def share_of_largest(self, place: int) -> float:
        """Returns how long the bar of a value is, where that of the largest is 1; 0 without a value."""
        largest = max((cell.value for cell in self.cells if cell.value is not None), default=0.0)
        return max(0.0, (self.cells[place].value or 0.0) / largest) if largest > 0 else 0.0


@dataclass(frozen=True)
class PointRows:
    point: Workload
    rows: tuple[MetricRow, ...]
    extra_rows: tuple[MetricRow, ...] = ()
    """The other metrics that at least two subjects have; no verdict uses them."""

    @property
    def all_rows(self) -> tuple[MetricRow, ...]:
        return (*self.rows, *self.extra_rows)

    @property
    def n_measured(self) -> int:
        """The number of subjects that have a value here."""
        return max((sum(cell.value is not None for cell in row.cells) for row in self.rows), default=0)


@dataclass(frozen=True)
class Pair:
    """One subject against the first."""

    place: int
    reason_not_comparable: str
    """Why there is no verdict; empty when there is one."""
    differing_settings: tuple[str, ...]
    """The settings in which they differ, in words; this pair alone cannot separate the effects of several."""
    unknown_settings: tuple[str, ...]
    """The titles of the settings that are unknown on either side, and may differ too."""
    verdict: Verdict | None
    """The verdict over the metrics at the main point."""
    words: str = ""
    """What the verdict says about each metric, such as `decode 51 % slower; TTFT the same`; empty without one."""
    unsound: tuple[str, ...] = ()
    """What disturbed one of the two, so that the verdict can only be inconclusive."""


@dataclass(frozen=True)
class Distribution:
    """The gaps between token events of a subject's run at the main point, over all usable samples."""

    quantiles_ms: tuple[float, ...]
    """The quantiles from 0 to 100 %, one for each per cent; empty without gaps."""
    gaps: int
    is_chunks: bool
    """Whether events hold several tokens."""
    reason: str = ""


@dataclass(frozen=True)
class Ceiling:
    """What the hardware allows at the main point, or at the subject's own when it lacks that. Shares are fractions of 1
    and never clamped."""

    decode_tokens_per_s: float | None
    decode_words: str
    mbu: float | None
    prefill_tokens_per_s: float | None
    prefill_words: str
    mfu: float | None
    reason: str = ""
    """Why the ceiling is unknown."""


@dataclass(frozen=True)
class Comparison:
    """A comparison. Each tuple of values has one item per subject, in their order; verdicts compare with the first."""

    subjects: tuple[Subject, ...]
    shared: tuple[str, ...]
    """What all subjects have in common, in words, which names leave out."""
    shared_settings: tuple[str, ...]
    differences: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    """One pair for every subject except the first."""
    points: tuple[PointRows, ...]
    main: Workload | None
    """The point of distributions and ceilings: the suite's first one that all subjects have, else the first
    subject's."""
    distributions: tuple[Distribution, ...]
    ceilings: tuple[Ceiling, ...]
    same_within: float
    """An interval within this share of 1 counts as the same."""

    def against_base(self, place: int) -> str:
        """Returns which two a verdict is about."""
        return _("{name} against {base}", name=self.subjects[place].name, base=self.subjects[0].name)

    @property
    def common_unit(self) -> str | None:
        """What the values are of, where it is the same for all subjects."""
        units = {subject.unit for subject in self.subjects}
        return next(iter(units)) if len(units) == 1 else None

    @property
    def main_rows(self) -> tuple[MetricRow, ...]:
        return next((point.rows for point in self.points if point.point == self.main), ())

    def main_ratios(self, place: int) -> list[Ratio]:
        """Returns the ratios that the verdict on a subject rests on."""
        return [ratio for row in self.main_rows if (ratio := row.cells[place].ratio) is not None]

    def main_scatters(self, place: int) -> dict[str, RunScatter]:
        """Returns the scatter on the machine of a subject, by metric."""
        return {row.metric: scatter for row in self.main_rows if (scatter := row.cells[place].scatter) is not None}

    @property
    def shared_points(self) -> tuple[PointRows, ...]:
        """The points where more than one subject has a value."""
        return tuple(point for point in self.points if point.n_measured > 1)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Returns the document "roofmark.compare/2"."""
    return {"schema": SCHEMA, **asdict(comparison)}


def order_by(comparison: Comparison, metric: str) -> list[int]:
    """Returns the places of the subjects, those with the best values of a metric at the main point first and those
    without a value last; as they were chosen for a metric that is not there."""
    rows = (row for point in comparison.points if point.point == comparison.main for row in point.all_rows)
    row = next((row for row in rows if row.metric == metric), None)
    places = list(range(len(comparison.subjects)))
    if row is None:
        return places
    sign = -1 if row.better == "higher" else 1
    values = [cell.value for cell in row.cells]
    return sorted(places, key=lambda place: (values[place] is None, sign * (values[place] or 0.0)))


def ratio_note(ratio: Ratio) -> str:
    """Returns what would settle an inconclusive ratio; empty for any other, and when a disturbance is the cause."""
    if ratio.verdict is not Verdict.INCONCLUSIVE:
        return ""
    if ratio.additional_runs_needed is not None:
        return _about(ratio.additional_runs_needed)
    return ""


def runs_to_settle(ratios: Iterable[Ratio]) -> int | None:
    """Returns how many more runs of each would settle all of them; None when none is open, or one needs too many."""
    needed = [ratio.additional_runs_needed for ratio in ratios if ratio.verdict is Verdict.INCONCLUSIVE]
    return None if not needed or None in needed else max(runs for runs in needed if runs is not None)


def settle_words(ratios: Iterable[Ratio]) -> str:
    """Returns what would settle an inconclusive comparison; empty when nothing is open."""
    ratios = list(ratios)
    if all(ratio.verdict is not Verdict.INCONCLUSIVE for ratio in ratios):
        return ""
    runs = runs_to_settle(ratios)
    if runs is None:
        return _("More than {many} more runs of each would be needed to settle it.", many=MANY_RUNS)
    return _about(runs)


def _about(runs: int) -> str:
    return ngettext("About {n} more run of each would settle it.", "About {n} more runs of each would settle it.", runs)


def unsound_words(reasons: Iterable[str]) -> str:
    """Returns why a verdict is inconclusive whatever the values say; empty without a reason."""
    reasons = list(reasons)
    return _("No verdict can rest on it: {reasons}.", reasons=enumerated(reasons)) if reasons else ""


def unsound_run_words(reasons: Iterable[str]) -> str:
    """Returns why no verdict can rest on a run; empty without a reason."""
    reasons = list(reasons)
    return _("No verdict can rest on this run: {reasons}.", reasons=enumerated(reasons)) if reasons else ""


def scatter_words(scatters: Mapping[str, RunScatter]) -> str:
    """Returns sentences on how much runs of one configuration differ, by metric, and which part is history and which is
    assumed."""
    seen = {key: scatter for key, scatter in scatters.items() if scatter.history_deviation is not None}
    assumed = {key: scatter.assumed_deviation for key, scatter in scatters.items() if scatter.assumed_deviation}
    local = {key: scatter for key, scatter in seen.items() if not scatter.is_elsewhere}
    elsewhere = {key: scatter for key, scatter in seen.items() if scatter.is_elsewhere}
    n_all = len(scatters)
    return joined(
        _history_sentence(
            N_("Runs of one configuration differ by {figures} here ({configurations}, {runs})."), local, n_all
        ),
        _history_sentence(
            N_("Runs of one configuration differ by {figures} on other machines ({configurations}, {runs})."),
            elsewhere,
            n_all,
        ),
        _assumption_sentence(
            N_("That is a short history, so it is combined with an assumed {figures}."),
            {key: deviation for key, deviation in assumed.items() if key in seen},
            n_all,
        ),
        _assumption_sentence(
            N_("The rest has no history yet: runs are assumed to differ by {figures}.")
            if seen
            else N_("No history yet: runs of one configuration are assumed to differ by {figures}."),
            {key: deviation for key, deviation in assumed.items() if key not in seen},
            n_all,
        ),
    )


def pair_scatter_words(comparison: Comparison, place: int) -> str:
    """Returns sentences on how much runs differ as the verdict on the `place`-th subject assumes it; two machines have
    one each."""
    sides = comparison.subjects[0], comparison.subjects[place]
    if sides[0].machine == sides[1].machine:
        return scatter_words(comparison.main_scatters(place))
    texts = [scatter_words(comparison.main_scatters(side_place)) for side_place in (0, place)]
    named = zip(sides, texts, strict=True)
    return joined(*(_("On {machine}: {sentence}", machine=side.machine, sentence=text) for side, text in named if text))


def _history_sentence(message: str, scatters: Mapping[str, RunScatter], n_all: int) -> str:
    if not scatters:
        return ""
    return _(
        message,
        figures=_figures({key: scatter.history_deviation for key, scatter in scatters.items()}, n_all),
        configurations=plural(max(scatter.configurations for scatter in scatters.values()), "configuration"),
        runs=plural(max(scatter.runs for scatter in scatters.values()), "run"),
    )


def _assumption_sentence(message: str, deviations: Mapping[str, float | None], n_all: int) -> str:
    return _(message, figures=_figures(deviations, n_all)) if deviations else ""


def _figures(deviations: Mapping[str, float | None], n_all: int) -> str:
    """Returns the values of metrics as `2.1 % (decode) and 3 % (prefill)`; a value that all `n_all` metrics share
    once."""
    texts = {key: _percent(deviation) for key, deviation in deviations.items() if deviation is not None}
    if len(set(texts.values())) == 1 and len(texts) == n_all:
        return next(iter(texts.values()))
    return enumerated(
        _("{figure} ({metric})", figure=text, metric=lower_first(_(metrics()[key].title)))
        for key, text in texts.items()
    )


def _percent(deviation: float) -> str:
    return _("less than 0.1 %") if deviation < 0.001 else f"{100 * deviation:.2g} %"
