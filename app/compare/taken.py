"""The values behind the figures of each subject: the repetitions of a run, or the medians of a configuration's runs."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from sqlmodel import Session

from app.compare.comparable import is_same_hardware, why_not_alone
from app.i18n import _, noun
from app.metrics import NULL_REASONS, belongs, is_usable, metrics, rounds_of, values_of
from app.metrics.base import Metric, Source
from app.models import Run
from app.samples import Point, Sample
from app.store.runs import Circumstances, circumstances_of
from app.store.samples import samples_by_run
from app.store.subjects import Median, Reference, medians, newest_alike
from app.units import plural

MIN_RUNS = 3
"""From so many runs on, a configuration is what its runs' medians say: they differ by more than repetitions do."""


@dataclass(frozen=True)
class Values:
    """One metric at one point."""

    by_source: Mapping[Source, Sequence[float]]
    left_out: int = 0
    reason: str = ""
    """Why there are none."""


@dataclass(frozen=True)
class Taken:
    reference: Reference
    circumstances: Circumstances
    """Of the run, or of the configuration's newest."""
    runs: tuple[str, ...]
    unit: str
    basis: str
    refusal: str
    samples: Sequence[Sample] = ()
    """Of that run, without warm-ups."""
    values: Mapping[tuple[Point, str], Values] = field(default_factory=dict)

    @property
    def points(self) -> list[Point]:
        return list(dict.fromkeys(point for point, _ in self.values))

    @property
    def main_point(self) -> Point:
        return Point.from_key(self.circumstances.run.main_point_key)

    def at(self, point: Point) -> list[Sample]:
        return [sample for sample in self.samples if sample.point == point]

    def output_tokens(self, point: Point) -> float | None:
        """As counted, in the middle of the usable samples."""
        counts = [sample.trace.output_tokens for sample in self.at(point) if is_usable(sample)]
        known = [count for count in counts if count is not None]
        return median(known) if known else None


def take(session: Session, references: Sequence[Reference], keys: Collection[str]) -> list[Taken]:
    """With the values of these metrics. Raises NotFound."""
    named = circumstances_of(session, {each.public_id for each in references})
    pools = newest_alike(session, [named[each.public_id].run for each in references if each.is_config])
    chosen = [_chosen(each, named[each.public_id], pools) for each in references]
    run_ids = {side.run.id for side, _ in chosen if side.run.id is not None}
    taken = samples_by_run(session, run_ids)
    # medians of runs and repetitions of a run scatter differently: one kind on all sides
    is_pooled = all(len(ids) >= MIN_RUNS for _, ids in chosen)
    known = medians(session, {run_id for _, ids in chosen for run_id in ids}, keys) if is_pooled else []
    found = []
    for reference, (side, ids) in zip(references, chosen, strict=True):
        assert side.run.id is not None
        samples = [sample for sample in taken.get(side.run.id, []) if not sample.is_warmup]
        if is_pooled:
            found.append(_of_runs(reference, side, ids, samples, known))
        else:
            found.append(_of_repetitions(reference, side, ids, samples, keys))
    return found


def _chosen(
    reference: Reference, named: Circumstances, pools: Mapping[str, Sequence[Run]]
) -> tuple[Circumstances, dict[int, str]]:
    """The run that stands for a reference, and the ids of all runs that its figures are of."""
    assert named.run.id is not None
    alone = named, {named.run.id: named.run.public_id}
    pool = pools.get(reference.public_id, []) if reference.is_config else []
    if not pool:
        return alone
    newest = pool[0]
    alike = [run for run in pool if is_same_hardware(run, newest)]
    return named._replace(run=newest), {run.id: run.public_id for run in alike if run.id is not None}


def _of_runs(
    reference: Reference,
    side: Circumstances,
    ids: Mapping[int, str],
    samples: Sequence[Sample],
    known: Sequence[Median],
) -> Taken:
    found: dict[tuple[Point, str], dict[Source, list[float]]] = {}
    for each in known:
        if each.run_id in ids and each.source != "slope":  # a slope is of two points
            found.setdefault((each.point, each.metric), {}).setdefault(each.source, []).append(each.value)
    values = {key: Values(by_source) for key, by_source in found.items()}
    basis = _("The medians of the newest {ids} runs of this configuration count, one value a run.", ids=len(ids))
    return Taken(reference, side, tuple(ids.values()), noun("run"), basis, why_not_alone(side), samples, values)


def _of_repetitions(
    reference: Reference,
    side: Circumstances,
    ids: Mapping[int, str],
    samples: Sequence[Sample],
    keys: Collection[str],
) -> Taken:
    refusal = why_not_alone(side)
    if not refusal and not samples:
        refusal = _("Run {public_id} has no samples.", public_id=side.run.public_id)
    basis = _("Each repetition of this run counts; where it had several streams, as their median.")
    if all(sample.point.concurrency == 1 for sample in samples):
        basis = _("Each repetition of this run counts.")
    if reference.is_config:
        why = (
            _("{runs} of it say too little about how runs differ", runs=plural(len(ids), "run"))
            if len(ids) < MIN_RUNS
            else _("runs are compared with runs only")
        )
        basis = _("Each repetition of the newest run of this configuration counts: {why}.", why=why)
    values = _values(samples, keys) if not refusal else {}
    return Taken(reference, side, (side.run.public_id,), noun("repetition"), basis, refusal, samples, values)


def _values(samples: Sequence[Sample], keys: Collection[str]) -> dict[tuple[Point, str], Values]:
    by_point: dict[Point, list[Sample]] = {}
    for sample in samples:
        by_point.setdefault(sample.point, []).append(sample)
    return {(point, key): _of_rounds(metrics()[key], here) for point, here in by_point.items() for key in keys}


def _of_rounds(metric: Metric, taken: Sequence[Sample]) -> Values:
    """One value a round: streams of one round disturb each other, so that they are not as many repetitions."""
    by_source: dict[Source, list[float]] = {}
    reasons: Counter[str] = Counter()
    left_out = 0
    for streams in rounds_of([sample for sample in taken if belongs(sample, metric)]):
        read = values_of(metric, streams)
        for source, values in read.by_source.items():
            if values:
                by_source.setdefault(source, []).append(median(values))
        for counts in read.reasons.values():
            reasons += counts
        left_out += read.left_out.total()
    usual = "no_usable_sample" if left_out else "not_measured"
    reason = NULL_REASONS[reasons.most_common(1)[0][0] if reasons else usual]
    return Values(by_source, left_out, "" if by_source else reason)
