"""How decode falls with context: for each configuration one run that measured several contexts, under its ceiling.

A curve is one run, so nothing in it differs but the context. Of versions of an engine a series shows the newest.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlmodel import Session, col, func

from app import engines
from app.ceiling.decode import CurvePoint, against_context, contexts_up_to
from app.core.config_settings import remote_host
from app.core.i18n import _, lower_first, noun
from app.core.samples import Workload
from app.core.units import format_number, format_percent, plural
from app.db.database import cached_query
from app.db.machines import MachineDevice, devices
from app.db.models import KnownGeometry, all_stated, best_geometry
from app.db.tables import Config, Machine, Measurement, Model, Run
from app.metrics.token_times import TokenCounts
from app.results.ceiling.cards import Unknown
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import context_of, decode_of, step_of
from app.results.compare.words import unit_change_words
from app.results.fields.registry import DECODE
from app.results.hardware import Hardware, gpu_share_of, resolve_hardware
from app.results.run_filter import NOT_HIDDEN, RunFilter, conditions
from app.results.series import SeriesIndex, series_index
from app.results.token_counts import Drafts, drafting_among, drafts_of, token_counts

SAME_SPEED = 0.02
"""A smaller change counts as none."""
SAME_FALL = 0.05
"""By how much the share of the ceiling may change along a curve that falls as its ceiling does."""
MAX_CURVES = 24
"""The most curves that are computed at once."""


class MeasuredContext(NamedTuple):
    """A measured decode speed, and the ceiling at the same context."""

    context: int
    """The mean number of tokens in the cache during the decode."""
    tokens_per_s: float
    ceiling_tokens_per_s: float | None


@dataclass(frozen=True)
class ContextCurve:
    """The decode of one run at several contexts."""

    title: str
    """As short as it can be and still differ from the titles of the curves beside it."""
    config_id: int
    machine_id: int
    engine_version: str | None
    public_id: str
    started_at: datetime
    points: tuple[MeasuredContext, ...]
    """In the order of their contexts, of which there are at least two."""
    ceiling: tuple[CurvePoint, ...]
    """The decode ceiling from an empty cache to a bit more than the longest context; empty where it is unknown."""
    why_no_ceiling: str
    """One sentence; empty where the ceiling is known."""

    @property
    def change(self) -> float:
        """The relative change of decode from the shortest to the longest context: -0.31 is 31 % slower."""
        return self.points[-1].tokens_per_s / self.points[0].tokens_per_s - 1

    @property
    def ceiling_change(self) -> float | None:
        """The same of the ceiling."""
        first, last = self.points[0].ceiling_tokens_per_s, self.points[-1].ceiling_tokens_per_s
        return None if not first or not last else last / first - 1

    @property
    def kv_share_of_fall(self) -> float | None:
        """How much of the slowdown the ceiling explains, 0 to 1 and more; None where that is unknown or decode does
        not fall."""
        ceiling_change = self.ceiling_change
        if ceiling_change is None or self.change > -SAME_SPEED:
            return None
        return math.log1p(ceiling_change) / math.log1p(self.change)

    @property
    def change_words(self) -> str:
        """The change of decode in words: "31 % slower"."""
        return unit_change_words("tok/s", 1 + self.change)

    @property
    def ceiling_change_words(self) -> str:
        """The change of the ceiling in words: "28 % lower"; empty where it is unknown."""
        return "" if self.ceiling_change is None else unit_change_words("", 1 + self.ceiling_change)

    @property
    def words(self) -> str:
        """The curve in one sentence: by how much decode falls, and what that costs comes from."""
        return _sentence(self)

    @property
    def cause(self) -> str:
        """What the slowdown comes from, in a few words; empty where decode does not fall or no ceiling is known."""
        return _cause(self)


def context_curves(session: Session, run_filter: RunFilter, with_earlier_builds: bool = False) -> list[ContextCurve]:
    """Returns a curve for each configuration that a finished run measured at several contexts, in the order of their
    titles; of more than MAX_CURVES those that were measured last.

    Of a series only the newest version of the engine that has a curve counts, unless `with_earlier_builds`.
    """
    index = series_index(session)
    chosen = _chosen(_newest_sweeps(session, run_filter), index, with_earlier_builds)
    if not chosen:
        return []
    titles = _titles(chosen, index)
    ids = [sweep.run_id for sweep in chosen]
    drafts, counts = drafts_of(session, drafting_among(session, ids)), token_counts(session, ids)
    made = [
        _curve(sweep, measured_on, titles[sweep.config_id], drafts, counts)
        for sweep, measured_on in zip(chosen, _circumstances(session, ids), strict=True)
    ]
    return sorted((curve for curve in made if curve), key=lambda curve: (curve.title, curve.config_id))


# --- which runs ------------------------------------------------------------------------------------------------------


class _Sweep(NamedTuple):
    """A run that measured decode at several contexts."""

    run_id: int
    public_id: str
    config_id: int
    started_at: datetime
    speeds: tuple[tuple[Workload, float], ...]
    """Decode in tok/s at each point with a single stream."""

    @property
    def span(self) -> int:
        """The distance between the shortest and the longest context in tokens."""
        contexts = [point.mean_context() for point, _speed in self.speeds]
        return max(contexts) - min(contexts)


@cached_query(maxsize=4)
def _newest_sweeps(session: Session, run_filter: RunFilter) -> list[_Sweep]:
    """Returns the newest run of each configuration and suite, where it measured several contexts."""
    newest = (
        select(func.max(col(Run.id)))
        .where(col(Run.status) == "done", col(Run.config_id).is_not(None), NOT_HIDDEN, *conditions(run_filter))
        .group_by(col(Run.config_id), col(Run.suite_key))
    )
    query = (
        select(
            col(Run.id), col(Run.public_id), col(Run.config_id), col(Run.started_at),
            col(Measurement.point_key), col(Measurement.value),
        )
        .join(Measurement, col(Measurement.run_id) == col(Run.id))
        .where(col(Run.id).in_(newest), col(Measurement.metric) == DECODE, col(Measurement.is_shown))
        .where(col(Measurement.value) > 0, col(Measurement.point_key).like("%/%/1/%"))
        .order_by(col(Run.id), col(Measurement.id))
    )  # fmt: skip
    speeds: dict[tuple[Any, ...], list[tuple[Workload, float]]] = {}
    for *run, point_key, tokens_per_s in session.execute(query):
        speeds.setdefault(tuple(run), []).append((Workload.from_key(point_key), tokens_per_s))
    sweeps = [_Sweep._make((*run, tuple(of_run))) for run, of_run in speeds.items()]
    return [sweep for sweep in sweeps if sweep.span > 0]


def _chosen(sweeps: Iterable[_Sweep], index: SeriesIndex, with_earlier_builds: bool) -> list[_Sweep]:
    """Returns one sweep of each configuration or series, the one with the widest range of contexts; of versions the
    newest."""
    by_config: dict[int, _Sweep] = {}
    for sweep in sweeps:
        before = by_config.get(sweep.config_id)
        if before is None or (sweep.span, sweep.run_id) > (before.span, before.run_id):
            by_config[sweep.config_id] = sweep
    by_age = sorted(by_config.values(), key=lambda sweep: (sweep.started_at, sweep.run_id))
    if not with_earlier_builds:
        by_age = list({index.by_config[sweep.config_id].id: sweep for sweep in by_age}.values())
    return sorted(by_age, key=lambda sweep: (sweep.started_at, sweep.run_id))[-MAX_CURVES:]


def _titles(sweeps: Sequence[_Sweep], index: SeriesIndex) -> dict[int, str]:
    """Returns the title of each configuration: that of its series, with the engine's version where several are shown of
    one machine."""
    series = {sweep.config_id: index.by_config[sweep.config_id] for sweep in sweeps}
    of_series = index.titles({member.id for member in series.values()}, engines.titles())
    versions: dict[tuple[int, str], set[str | None]] = {}
    for config_id, member in series.items():
        versions.setdefault((member.machine_id, member.snapshot.engine), set()).add(index.version(config_id))
    titles = {}
    for config_id, member in series.items():
        has_several = len(versions[member.machine_id, member.snapshot.engine]) > 1
        version = index.version(config_id) or _("unknown version")
        titles[config_id] = f"{of_series[member.id]} · {version}" if has_several else of_series[member.id]
    return titles


# --- one curve -------------------------------------------------------------------------------------------------------


class _Circumstances(NamedTuple):
    config: Config
    machine_id: int
    geometry: KnownGeometry | None
    hardware: Hardware
    gpu_share: float | None


def _circumstances(session: Session, run_ids: Sequence[int]) -> list[_Circumstances]:
    """Returns what each run was measured on, in the order of `run_ids`, in few queries."""
    rows = session.execute(
        select(Run, Config, Model, Machine)
        .join(Config, col(Config.id) == col(Run.config_id))
        .join(Model, col(Model.id) == col(Config.model_id))
        .join(Machine, col(Machine.id) == col(Run.machine_id))
        .where(col(Run.id).in_(run_ids))
    ).all()
    stated = all_stated(session)
    today: dict[int, Sequence[MachineDevice]] = {}
    by_run: dict[int | None, _Circumstances] = {}
    for run, config, model, machine in rows:
        if machine.id not in today:
            today[machine.id] = devices(session, machine)
        is_elsewhere = remote_host(config.settings)
        hardware = Hardware(()) if is_elsewhere else resolve_hardware(run.hardware, today[machine.id])
        geometry = best_geometry(model, stated.get((model.name, model.quantization)))
        by_run[run.id] = _Circumstances(config, machine.id, geometry, hardware, gpu_share_of(run.evidence))
    return [by_run[run_id] for run_id in run_ids]


def _curve(
    sweep: _Sweep,
    measured_on: _Circumstances,
    title: str,
    drafts: dict[tuple[int, Workload], Drafts],
    counts: dict[tuple[int, Workload], TokenCounts],
) -> ContextCurve | None:
    """Returns the curve of a run; None when its prompts turned out to be equally long."""
    placement = resolve_placement(
        measured_on.hardware.devices,
        measured_on.config,
        measured_on.geometry,
        measured_on.hardware.assumptions,
        measured_on.gpu_share,
    )
    points = {}
    for point, tokens_per_s in sweep.speeds:
        key = (sweep.run_id, point)
        context, ceiling = context_of(point, counts.get(key)), None
        if isinstance(placement, Placement):
            ceiling = decode_of(placement, step_of(placement, point, counts.get(key)), drafts.get(key)).tokens_per_s
        points[context] = MeasuredContext(context, tokens_per_s, ceiling)
    ordered = tuple(points[context] for context in sorted(points))
    if len(ordered) < 2:
        return None
    return ContextCurve(
        title=title,
        config_id=sweep.config_id,
        machine_id=measured_on.machine_id,
        engine_version=measured_on.config.engine_version,
        public_id=sweep.public_id,
        started_at=sweep.started_at,
        points=ordered,
        ceiling=_ceiling(placement, ordered, _drafts_at(sweep, drafts)),
        why_no_ceiling=placement.reason if isinstance(placement, Unknown) else "",
    )


def _drafts_at(sweep: _Sweep, drafts: dict[tuple[int, Workload], Drafts]) -> Drafts | None:
    """Returns the drafts at the shortest context, which the whole ceiling is drawn with."""
    shortest = min((point for point, _speed in sweep.speeds), key=Workload.mean_context)
    return drafts.get((sweep.run_id, shortest))


def _ceiling(
    placement: Placement | Unknown, points: Collection[MeasuredContext], drafts: Drafts | None
) -> tuple[CurvePoint, ...]:
    if isinstance(placement, Unknown):
        return ()
    longest = round(max(point.context for point in points) * 1.1)
    return tuple(
        against_context(
            placement.geometry,
            lambda decode_step: decode_of(placement, decode_step, drafts),
            placement.kv,
            contexts_up_to(longest, pieces=16),
        )
    )


# --- in words --------------------------------------------------------------------------------------------------------


def falls_most(curves: Sequence[ContextCurve]) -> ContextCurve:
    """Returns the curve of at least one whose decode falls most."""
    return min(curves, key=lambda curve: curve.change)


def context_verdict(curves: Sequence[ContextCurve]) -> str:
    """Returns one or two sentences: how much all curves fall, and the one that falls most; empty without curves."""
    if not curves:
        return ""
    if len(curves) == 1:
        return curves[0].words
    most = falls_most(curves)
    least = max(curves, key=lambda curve: curve.change)
    if least.change > -SAME_SPEED:
        return _("{name}: {sentence}", name=most.title, sentence=lower_first(most.words))
    low, high = (format_number(-100 * curve.change, 2) for curve in (least, most))
    return _(
        "With a long context decode falls by {range} % in {configurations}, most with {title}: {sentence}",
        range=low if low == high else _("{low} to {high}", low=low, high=high),
        configurations=plural(len(curves), noun("configuration")),
        title=most.title,
        sentence=lower_first(most.words),
    )


def _sentence(curve: ContextCurve) -> str:
    first, last = curve.points[0], curve.points[-1]
    values = {
        "first": format_number(first.tokens_per_s),
        "few": first.context,
        "last": format_number(last.tokens_per_s),
        "many": last.context,
        "change": format_percent(curve.change),
    }
    if abs(curve.change) < SAME_SPEED:
        return _("Decode is as fast with {many:,} tokens in the cache as with {few:,}: {last} tok/s.", **values)
    if curve.change > 0:
        return _("Decode rises from {first} tok/s at {few:,} tokens to {last} at {many:,} ({change}).", **values)
    fall = _("Decode falls from {first} tok/s at {few:,} tokens to {last} at {many:,} ({change})", **values)
    if curve.ceiling_change is None:
        return _("{fall}; its ceiling is unknown.", fall=fall)
    if curve.ceiling_change > -SAME_SPEED / 2:
        return _("{fall}; its ceiling stays the same: {cause}.", fall=fall, cause=curve.cause)
    return _(
        "{fall}; its ceiling falls by {percent} %: {cause}.",
        fall=fall,
        percent=format_number(-100 * curve.ceiling_change, 2),
        cause=curve.cause,
    )


def _cause(curve: ContextCurve) -> str:
    share, ceiling_change = curve.kv_share_of_fall, curve.ceiling_change
    if share is None or ceiling_change is None:
        return ""
    share_change = (1 + curve.change) / (1 + ceiling_change) - 1
    if abs(share_change) <= SAME_FALL:
        return _("the slowdown is what the KV cache costs")
    if share_change > 0:
        return _("it is nearer to its ceiling with a long context than with a short one")
    if share < SAME_FALL:
        return _("reading the KV cache does not explain the slowdown")
    return _("the KV cache explains {percent} % of the slowdown", percent=format_number(100 * share, 2))
