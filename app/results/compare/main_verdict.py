"""The verdict of one run against another at their main point, from stored numbers: cheap enough for a list of runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sqlmodel import Session

from app.core.i18n import _
from app.core.samples import Workload
from app.db.measurements import measured_points
from app.db.tables import Run
from app.metrics import HEADLINE_METRICS, metrics, preferred
from app.metrics.base import Source
from app.results.compare.eligibility import refusal_reason_lengths
from app.results.compare.scatter import Scatters, median_of
from app.results.compare.soundness import distinct_reasons
from app.results.run_history import PastValue, Series
from app.results.token_counts import answer_lengths
from app.stats.runs import RunMedian, RunScatter
from app.stats.verdict import SAME_WITHIN, Ratio, Result, Verdict, judge, overall


class Judged(NamedTuple):
    """What a verdict needs to know of a run."""

    run_id: int
    public_id: str
    series: Series
    main_point_key: str

    @classmethod
    def of(cls, run: Run) -> "Judged":
        assert run.id is not None
        return cls(run.id, run.public_id, Series(run.machine_id, run.suite_key), run.main_point_key)


class Values(NamedTuple):
    """One metric of both runs."""

    source: Source
    base: float
    other: float


@dataclass(frozen=True)
class MainVerdict:
    """Of the triple, corrected for three looks."""

    verdict: Verdict | None
    """None where they cannot be compared."""
    ratios: Mapping[str, Ratio]
    """By metric, over the base; those that both have from one source."""
    unsound: tuple[str, ...] = ()
    """Why the verdict is no more than inconclusive whatever the ratios say: what disturbed one of the two."""
    scatters: Mapping[str, RunScatter] = field(default_factory=dict)
    """By metric: how much runs of one configuration differ."""
    values: Mapping[str, Values] = field(default_factory=dict)
    """By metric, as the ratios are of them."""
    reason: str = ""
    """Why there is no verdict."""


def same_within(session: Session) -> float:
    """The person's setting: an interval within this share of 1 counts as the same."""
    share: float = session.info.get("same_within", SAME_WITHIN)
    return share


def main_verdicts(
    session: Session, pairs: Collection[tuple[Judged, Judged]], unsound: Mapping[str, tuple[str, ...]]
) -> dict[tuple[int, int], MainVerdict]:
    """Of pairs of base and other whose runs may be compared, by their run ids: the same verdicts as `compare` has. A
    handful of queries, however many pairs. `unsound`: what disturbed these runs, by their public ids."""
    if not pairs:
        return {}
    runs = {run for pair in pairs for run in pair}
    run_ids = frozenset(run.run_id for run in runs)
    points = _common_points(session, pairs)
    at_points = frozenset(filter(None, points.values()))
    scatters = Scatters(session, {run.series for run in runs}, HEADLINE_METRICS, at_points, run_ids)
    lengths = answer_lengths(session, run_ids)
    values = {(value.run_id, value.point_key, value.metric, value.source): value for value in scatters.values}
    verdicts = {}
    for base, candidate in pairs:
        point = points[base.run_id, candidate.run_id]
        why_not = refusal_reason_lengths(*(lengths.get((run.run_id, point)) for run in (base, candidate)))
        results: dict[str, tuple[Result, Result]] = {}
        compared: dict[str, Values] = {}
        for key in HEADLINE_METRICS if not why_not else ():
            if pair := _same_source(values, (base, candidate), point, key):
                results[key] = _results(scatters, (base, candidate), key, pair)
                compared[key] = Values(pair[0].source, pair[0].value, pair[1].value)
        reasons = distinct_reasons(reason for run in (base, candidate) for reason in unsound.get(run.public_id, ()))
        verdict = conclude(results, reasons, same_within(session))
        reason = "" if verdict.verdict else why_not or _("Both have no figures that could be compared.")
        verdicts[base.run_id, candidate.run_id] = replace(verdict, values=compared, reason=reason)
    return verdicts


def _common_points(session: Session, pairs: Collection[tuple[Judged, Judged]]) -> dict[tuple[int, int], str]:
    """The key of the point at which each pair is judged: the base's main point, or the first that both measured; empty
    where there is none."""
    unlike = {run.run_id for pair in pairs if len({run.main_point_key for run in pair}) > 1 for run in pair}
    measured = measured_points(session, unlike, HEADLINE_METRICS)
    points: dict[tuple[int, int], str] = {}
    for base, candidate in pairs:
        point = base.main_point_key
        if candidate.main_point_key != point:
            common = [key for key in measured.get(base.run_id, ()) if key in measured.get(candidate.run_id, ())]
            point = point if point in common else next(iter(common), "")
        points[base.run_id, candidate.run_id] = point
    return points


def conclude(results: Mapping[str, tuple[Result, Result]], unsound: tuple[str, ...], limit: float) -> MainVerdict:
    """From base and other of some metrics, judged together; `limit` as `same_within`."""
    ratios = judge(results, {key: metrics()[key].better for key in results}, limit)
    if unsound:
        ratios = {
            key: replace(ratio, verdict=Verdict.INCONCLUSIVE, additional_runs_needed=None)
            for key, ratio in ratios.items()
        }
    verdict = overall(ratio.verdict for ratio in ratios.values())
    return MainVerdict(verdict, ratios, unsound, {key: base.scatter for key, (base, _other) in results.items()})


def _same_source(
    values: Mapping[tuple[int, str, str, Source], PastValue], pair: tuple[Judged, Judged], point: str, key: str
) -> tuple[PastValue, PastValue] | None:
    """From the preferred source that both have."""
    for source in preferred(key):
        base, candidate = (values.get((run.run_id, point, key, source)) for run in pair)
        if base and candidate:
            return base, candidate
    return None


def _results(
    scatters: Scatters, pair: tuple[Judged, Judged], key: str, values: tuple[PastValue, PastValue]
) -> tuple[Result, Result]:
    medians: list[RunMedian] = [median_of(value) for value in values]
    sides = [{run.run_id: median} for run, median in zip(pair, medians, strict=True)]
    point, source = Workload.from_key(values[0].point_key), values[0].source
    base, candidate = (
        Result([median], scatters.of(run.series, point, key, source, sides))
        for run, median in zip(pair, medians, strict=True)
    )
    return base, candidate
