"""Loads the values of each subject of a comparison: one query for each kind of row, however many runs there are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import NamedTuple

from sqlmodel import Session, col, func, select

from app.core.errors import BadInput, NotFound
from app.core.i18n import _, noun
from app.core.samples import Sample, Workload
from app.core.units import plural
from app.db import baselines, runs
from app.db.measurements import measurements_by_run
from app.db.runs import runs_by_id
from app.db.samples import samples_by_run
from app.db.tables import Run
from app.metrics import NULL_REASONS, MetricResult
from app.metrics.base import Source
from app.results.compare.differences import is_same_hardware
from app.results.compare.eligibility import refusal_reason_run
from app.results.compare.soundness import distinct_reasons, unsound_by_run
from app.results.previous import previous
from app.results.run_filter import NOT_HIDDEN
from app.results.run_history import HistoryScope
from app.results.token_counts import answer_lengths
from app.stats.runs import RunMedian, run_median

FEWEST, MOST = 2, 8
NEWEST_RUNS = 30
"""The most runs of a configuration that are taken together."""
CONFIG = "config:"
WORDS = ("latest", "previous", "baseline")


class Reference(NamedTuple):
    """The subject that a name refers to: a run, or with `is_config` all runs of its configuration with its suite."""

    public_id: str
    is_config: bool

    @property
    def key(self) -> str:
        """The reference in its written form: a run id, or `config:` and a run id."""
        return f"{CONFIG if self.is_config else ''}{self.public_id}"


def resolve(session: Session, names: Sequence[str]) -> list[Reference]:
    """Resolves the names of a comparison: run ids, `config:` with a run id, and words.

    `latest` is the newest finished run; `previous` and `baseline` refer to the last run named before them, else to the
    latest. Raises BadInput and NotFound.
    """
    if not FEWEST <= len(names) <= MOST:
        raise BadInput(
            _("A comparison takes {fewest} to {most} runs, not {count}.", fewest=FEWEST, most=MOST, count=len(names))
        )
    own = next((name for name in reversed(names) if name.removeprefix(CONFIG) not in WORDS), "latest")
    anchor = _latest(session) if own == "latest" else own.removeprefix(CONFIG)
    references = [_reference(session, name, anchor) for name in names]
    for place, reference in enumerate(references):
        if reference in references[:place]:
            first, second = names[references.index(reference)], names[place]
            if first == second:
                raise BadInput(_("{key} is named twice: a comparison needs different runs.", key=reference.key))
            raise BadInput(
                _(
                    "{first} and {second} are both {key}: a comparison needs different runs.",
                    first=first,
                    second=second,
                    key=reference.key,
                )
            )
    return references


def resolve_run_id(session: Session, name: str) -> str:
    """Returns the id of one run from its id, or from one of WORDS, which refers to the latest. Raises NotFound."""
    return _reference(session, name, _latest(session)).public_id if name in WORDS else name


def _reference(session: Session, name: str, anchor: str) -> Reference:
    bare = name.removeprefix(CONFIG)
    is_config = bare != name
    if bare not in WORDS:
        return Reference(bare, is_config)
    if bare == "latest":
        return Reference(_latest(session), is_config)
    run = runs.run(session, anchor)
    if bare == "baseline":
        pinned = baselines.baseline_of(session, run)
        if pinned is None:
            raise NotFound(_("Run {anchor} has no baseline: pin one with `roofmark baseline set RUN`.", anchor=anchor))
        return Reference(pinned, is_config)
    before = previous(session, run)
    if before is None or before.public_id is None:
        raise NotFound(
            _(
                "Before run {anchor}, its machine had no other configuration of its model with the same suite.",
                anchor=anchor,
            )
        )
    return Reference(before.public_id, is_config)


def _latest(session: Session) -> str:
    newest = select(Run.public_id).where(col(Run.status) == "done", NOT_HIDDEN)
    public_id = session.exec(newest.order_by(col(Run.started_at).desc(), col(Run.id).desc()).limit(1)).first()
    if public_id is None:
        raise NotFound(_("There is no finished run yet."))
    return public_id


def newest_alike(session: Session, of: Collection[Run]) -> dict[str, list[Run]]:
    """Returns for each run, by its public id, the newest finished runs of its configuration with the same version of
    its suite that are not hidden, newest first."""
    key = (col(Run.config_id), col(Run.suite_sha256))
    age = func.row_number().over(partition_by=key, order_by=[col(Run.started_at).desc(), col(Run.id).desc()])
    aged = (
        select(col(Run.id).label("id"), age.label("age"))
        .where(
            col(Run.status) == "done",
            NOT_HIDDEN,
            col(Run.config_id).in_({run.config_id for run in of}),
            col(Run.suite_sha256).in_({run.suite_sha256 for run in of}),
        )
        .subquery()
    )
    query = select(Run).join(aged, col(Run.id) == aged.c.id).where(aged.c.age <= NEWEST_RUNS).order_by(aged.c.age)
    rows = session.exec(query).all() if of else []
    return {
        run.public_id: [row for row in rows if (row.config_id, row.suite_sha256) == (run.config_id, run.suite_sha256)]
        for run in of
    }


class RunFigure(NamedTuple):
    """One metric of one run at one point."""

    run_id: int
    measured: MetricResult

    @property
    def repetitions(self) -> int:
        """The number of independent repetitions: the streams of one round are one."""
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
    """The values of one metric of a subject at one point."""

    by_source: Mapping[Source, Sequence[RunFigure]]
    """The runs that have a value, by source."""
    left_out: int = 0
    """The number of repetitions left out."""
    reason: str = ""
    """Why there is no value."""


NO_FIGURES = Figures({}, reason=NULL_REASONS["not_measured"])


@dataclass(frozen=True)
class SubjectData:
    reference: Reference
    run: Run
    """The run itself, or the newest of the configuration."""
    runs: tuple[str, ...]
    """The public ids of the runs that its values are of."""
    data_source: str
    """The same runs in words."""
    reason_not_comparable: str
    unsound: tuple[str, ...] = ()
    """Why no verdict may rest on its values."""
    samples: Sequence[Sample] = ()
    """The samples of `run`, without warm-ups."""
    figures: Mapping[tuple[Workload, str], Figures] = field(default_factory=dict)
    answer_lengths: Mapping[str, float] = field(default_factory=dict)
    """The median number of tokens of its answers by point key, over its runs."""

    @property
    def unit(self) -> str:
        """What one value is of: a repetition, or a run."""
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
    def scope(self) -> HistoryScope:
        run = self.run
        return HistoryScope(run.machine_id, run.suite_key)

    def at(self, point: Workload) -> list[Sample]:
        return [sample for sample in self.samples if sample.point == point]


def load_subjects(session: Session, references: Sequence[Reference], keys: Collection[str]) -> list[SubjectData]:
    """Loads the subjects with the values of these metrics. Raises NotFound."""
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
    """Returns the run that represents a reference, and all runs that its values are of."""
    pool = pools.get(reference.public_id, []) if reference.is_config else []
    if not pool:
        return named, [named]
    newest = pool[0]
    return newest, [run for run in pool if is_same_hardware(run, newest)]


def _sound(runs: Sequence[Run], unsound: Mapping[str, Sequence[str]]) -> list[Run]:
    """Returns the undisturbed runs of a configuration; all of them when each was disturbed."""
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
    """Returns the median answer length over these runs."""
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
