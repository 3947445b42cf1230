"""The numbers behind each subject: those of a run, or of a configuration's runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import NamedTuple

from sqlmodel import Session

from app.core.i18n import _, noun
from app.core.samples import Sample, Workload
from app.core.units import plural
from app.db.measurements import measurements_by_run
from app.db.runs import runs_by_id
from app.db.samples import samples_by_run
from app.db.tables import Run
from app.metrics import NULL_REASONS, MetricResult
from app.metrics.base import Source
from app.results.compare.compare_refs import Reference, newest_alike
from app.results.compare.differences import is_same_hardware
from app.results.compare.eligibility import refusal_reason_run
from app.results.compare.soundness import distinct_reasons, unsound_by_run
from app.results.run_history import Series
from app.results.token_counts import answer_lengths
from app.stats.runs import RunMedian, run_median


class RunFigure(NamedTuple):
    """One metric of one run at one point."""

    run_id: int
    measured: MetricResult

    @property
    def repetitions(self) -> int:
        """Streams of one round are one repetition."""
        return max(1, self.measured.samples // self.measured.point.concurrency)

    @property
    def median(self) -> RunMedian:
        assert self.measured.value is not None
        return run_median(
            self.measured.value,
            self.measured.standard_deviation,
            self.measured.minimum,
            self.measured.maximum,
            self.measured.samples,
            self.measured.point.concurrency,
        )


@dataclass(frozen=True)
class Figures:
    """One metric of a subject at one point."""

    by_source: Mapping[Source, Sequence[RunFigure]]
    """Those with a value."""
    left_out: int = 0
    """So many repetitions were left out."""
    reason: str = ""
    """Why there are none."""


NO_FIGURES = Figures({}, reason=NULL_REASONS["not_measured"])


@dataclass(frozen=True)
class SubjectData:
    reference: Reference
    run: Run
    """The run itself, or the newest of the configuration."""
    runs: tuple[str, ...]
    """Public ids of the runs that its figures are of."""
    data_source: str
    """The same in words."""
    reason_not_comparable: str
    unsound: tuple[str, ...] = ()
    """Why no verdict may rest on its figures."""
    samples: Sequence[Sample] = ()
    """Of `run`, without warm-ups."""
    figures: Mapping[tuple[Workload, str], Figures] = field(default_factory=dict)
    answer_lengths: Mapping[str, float] = field(default_factory=dict)
    """How many tokens its answers have, by the key of a point: in the middle of its runs."""

    @property
    def unit(self) -> str:
        """What one value is of."""
        return noun("run") if len(self.runs) > 1 else noun("repetition")

    @property
    def points(self) -> list[Workload]:
        return list(dict.fromkeys(point for point, _key in self.figures))

    @property
    def metrics_with_value(self) -> set[str]:
        return {key for (_point, key), figures in self.figures.items() if figures.by_source}

    @property
    def main_point(self) -> Workload:
        return Workload.from_key(self.run.main_point_key)

    @property
    def series(self) -> Series:
        run = self.run
        return Series(run.machine_id, run.suite_key)

    def at(self, point: Workload) -> list[Sample]:
        return [sample for sample in self.samples if sample.point == point]


def load_subjects(session: Session, references: Sequence[Reference], keys: Collection[str]) -> list[SubjectData]:
    """With the figures of these metrics. Raises NotFound."""
    named = runs_by_id(session, {reference.public_id for reference in references})
    pools = newest_alike(session, [named[reference.public_id] for reference in references if reference.is_config])
    choices = [_chosen(reference, named[reference.public_id], pools) for reference in references]
    unsound = unsound_by_run(session, {run.public_id for _side, runs in choices for run in runs})
    choices = [(side, _sound(runs, unsound)) for side, runs in choices]
    samples = samples_by_run(session, {side.id for side, _runs in choices if side.id is not None})
    run_ids = {run.id for _side, runs in choices for run in runs if run.id is not None}
    measured = measurements_by_run(session, run_ids, keys)
    lengths = answer_lengths(session, frozenset(run_ids))
    return [
        replace(_subject(reference, side, runs, unsound, samples, measured), answer_lengths=_middle(lengths, runs))
        for reference, (side, runs) in zip(references, choices, strict=True)
    ]


def _chosen(reference: Reference, named: Run, pools: Mapping[str, Sequence[Run]]) -> tuple[Run, list[Run]]:
    """The run that stands for a reference, and all runs that its figures are of."""
    pool = pools.get(reference.public_id, []) if reference.is_config else []
    if not pool:
        return named, [named]
    newest = pool[0]
    return newest, [run for run in pool if is_same_hardware(run, newest)]


def _sound(runs: Sequence[Run], unsound: Mapping[str, Sequence[str]]) -> list[Run]:
    """Of a configuration's runs those that nothing disturbed, where there are any."""
    return [run for run in runs if run.public_id not in unsound] or list(runs)


def _subject(
    reference: Reference,
    side: Run,
    runs: Sequence[Run],
    unsound: Mapping[str, tuple[str, ...]],
    samples: Mapping[int, Sequence[Sample]],
    measured: Mapping[int, Sequence[MetricResult]],
) -> SubjectData:
    assert side.id is not None
    measured_samples = [sample for sample in samples.get(side.id, ()) if not sample.is_warmup]
    reason = refusal_reason_run(side)
    if not reason and not any(run.id in measured for run in runs):
        reason = _("Run {public_id} has no samples.", public_id=side.public_id)
    figures = {} if reason else _figures({run.id: measured.get(run.id, ()) for run in runs if run.id is not None})
    return SubjectData(
        reference,
        side,
        tuple(run.public_id for run in runs),
        _data_source(reference, len(runs)),
        reason,
        distinct_reasons(text for run in runs for text in unsound.get(run.public_id, ())),
        measured_samples,
        figures,
    )


def _middle(lengths: Mapping[tuple[int, str], float], runs: Sequence[Run]) -> dict[str, float]:
    """Of the lengths of these runs' answers."""
    own = {run.id for run in runs}
    by_point: dict[str, list[float]] = {}
    for (run_id, point), length in lengths.items():
        if run_id in own:
            by_point.setdefault(point, []).append(length)
    return {point: median(of_runs) for point, of_runs in by_point.items()}


def _data_source(reference: Reference, runs: int) -> str:
    if runs > 1:
        return _("The newest {runs} of this configuration; each counts once.", runs=plural(runs, "run"))
    if reference.is_config:
        return _("The only run of this configuration.")
    return _("One run.")


def _figures(measured: Mapping[int, Sequence[MetricResult]]) -> dict[tuple[Workload, str], Figures]:
    rows: dict[tuple[Workload, str], list[RunFigure]] = {}
    for run_id, of_run in measured.items():
        for result in of_run:
            if result.source != "slope":  # a slope is of two points
                rows.setdefault((result.point, result.metric), []).append(RunFigure(run_id, result))
    return {key: _summed_up(figures) for key, figures in rows.items()}


def _summed_up(figures: Sequence[RunFigure]) -> Figures:
    by_source: dict[Source, list[RunFigure]] = {}
    left_out: dict[int, int] = {}
    for figure in figures:
        if figure.measured.value is not None:
            by_source.setdefault(figure.measured.source, []).append(figure)
        left_out[figure.run_id] = max(left_out.get(figure.run_id, 0), sum(figure.measured.left_out.values()))
    reasons = [figure.measured.null_reason for figure in figures if figure.measured.null_reason]
    reason = "" if by_source else NULL_REASONS[reasons[0] if reasons else "not_measured"]
    return Figures(by_source, sum(left_out.values()), reason)
