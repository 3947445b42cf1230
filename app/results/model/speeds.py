"""The quantizations of a model on each machine where it was measured, the best first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlmodel import Session

from app.core.errors import NotFound
from app.core.i18n import _
from app.db import models
from app.db.models import KnownModel
from app.metrics.base import Metric
from app.results.context_curves import ContextCurve, context_curves
from app.results.history.updates import Update
from app.results.leaderboard.board import Leaderboard, leaderboard
from app.results.leaderboard.rows import Row
from app.results.leaderboard.verdict import Ranking, ranking
from app.results.leaderboard.view import LeaderboardView
from app.results.model.memory import MemoryUsed, memory_by_run
from app.stats.verdict import Ratio


@dataclass(frozen=True)
class QuantizationSpeed:
    """One quantization on one machine."""

    row: Row
    ratio: Ratio | None
    """Its best over the best of the machine; None for that one itself."""
    memory: MemoryUsed | None
    """None: unknown."""

    @property
    def title(self) -> str:
        """The quantization, or the model's name where none is stated."""
        return self.row.quantization or self.row.model


@dataclass(frozen=True)
class MachineSpeeds:
    """A model on one machine: its quantizations, the best first."""

    machine: str
    machine_slug: str
    ranking: Ranking
    quantizations: Sequence[QuantizationSpeed]
    curves: Sequence[ContextCurve]
    """Decode against context of those that were measured at several, in the order of the quantizations."""
    updates: Sequence[Update]
    """Engine updates that certainly changed the metric for this model here, the newest first."""

    @property
    def leaders(self) -> list[QuantizationSpeed]:
        """The best, and those that are not certainly worse."""
        leaders = self.ranking.leaders
        return [speed for speed in self.quantizations if any(row is speed.row for row in leaders)]

    def highest(self, metric_key: str) -> float:
        """Returns the largest figure of a metric, from which bars are drawn; 0 without any."""
        figures = [speed.row.best.figures.get(metric_key) for speed in self.quantizations]
        return max((figure for figure in figures if figure is not None), default=0.0)


@dataclass(frozen=True)
class ModelSpeeds:
    """A model in all of its quantizations."""

    name: str
    board: Leaderboard
    machines: Sequence[MachineSpeeds]
    """The machine with the best result first."""
    known_models: Sequence[KnownModel]
    """Its quantizations with the geometry of each."""
    namesakes: Sequence[str] = ()
    """The models whose short name this is, where several share it."""

    @property
    def metric(self) -> Metric:
        return self.board.view.metric

    @cached_property
    def runs(self) -> int:
        """The number of runs that count."""
        return sum(row.runs for row in self.board.rows)


def model_speeds(session: Session, name: str, view: LeaderboardView) -> ModelSpeeds:
    """Returns what was measured of the model with this name, in full where it has namesakes. Raises NotFound for a
    model that was never measured."""
    board = leaderboard(session, view, model=name)
    stored_names = {row.stored_name for row in board.rows} or {name}
    known_models = [model for model in models.list_models(session) if model.name in stored_names]
    namesakes: list[str] = []
    if not board.rows:
        if not known_models:
            raise NotFound(_("There is no model called {name!r} here.", name=name[:80]))
        everything = leaderboard(session, view)
        namesakes = sorted({row.model for row in everything.rows if row.stored_name == name})
    return ModelSpeeds(name, board, _machines(session, board), known_models, namesakes)


def _machines(session: Session, board: Leaderboard) -> list[MachineSpeeds]:
    by_machine: dict[int, list[Row]] = {}
    for row in board.by_speed:
        by_machine.setdefault(row.machine_id, []).append(row)
    memory = memory_by_run(session, {row.best.public_id for row in board.by_speed})
    curves = _curves_by_config(session, board)
    machines = []
    for rows in by_machine.values():
        ranked = ranking(rows, board.view.metric)
        machines.append(
            MachineSpeeds(
                machine=rows[0].machine,
                machine_slug=rows[0].machine_slug,
                ranking=ranked,
                quantizations=[
                    QuantizationSpeed(row, ranked.ratio_of(row), memory.get(row.best.public_id)) for row in rows
                ],
                curves=[curve for row in rows if (curve := _curve(row, curves))],
                updates=_certain_updates(board, rows),
            )
        )
    return machines


def _curves_by_config(session: Session, board: Leaderboard) -> Mapping[int, ContextCurve]:
    if not board.by_speed:
        return {}
    where = replace(board.view.filter, suite=None, model=board.by_speed[0].stored_name)
    return {curve.config_id: curve for curve in context_curves(session, where)}


def _curve(row: Row, curves: Mapping[int, ContextCurve]) -> ContextCurve | None:
    """Returns the fastest of a row's configurations whose decode was measured at several contexts."""
    of_row = [curves[config_id] for config_id in row.config_ids if config_id in curves]
    if not of_row:
        return None
    fastest = max(of_row, key=lambda curve: curve.points[0].tokens_per_s)
    return replace(fastest, title=" ".join(filter(None, [row.quantization or row.model, fastest.engine_version])))


def _certain_updates(board: Leaderboard, rows: Sequence[Row]) -> list[Update]:
    config_ids = {config_id for row in rows for config_id in row.config_ids}
    certain = []
    for update in reversed(board.updates):
        shift = next((shift for shift in update.shifts if shift.metric.key == board.view.by), None)
        if shift and any(config_ids.intersection(change.series.config_ids) for change in update.shifted(shift)):
            certain.append(update)
    return certain
