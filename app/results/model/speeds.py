"""The quantizations of a model on each machine where it was measured, the best first."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlmodel import Session

from app.core.errors import NotFound
from app.core.i18n import _
from app.db import models
from app.db.models import KnownModel
from app.metrics.base import Metric
from app.results.ceiling import Decode, Placement, decodes_of, resolve_placement
from app.results.history.updates import Update
from app.results.leaderboard.rows import Leaderboard, Row, leaderboard
from app.results.leaderboard.verdict import Ranking, ranking
from app.results.leaderboard.view import LeaderboardView
from app.results.model.contexts import MARGIN, SHORTEST_CURVE, ContextCurve, chosen, curve, measured_contexts
from app.results.model.memory import MemoryUsed, measured_memory, memory_used
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
    """Decode against context, in the order of the quantizations."""
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
    resources = _Resources(session, board.by_speed)
    return [_machine(board, rows, resources) for rows in by_machine.values()]


class _Resources:
    """What is read of all rows at once, for their curves and their memory."""

    def __init__(self, session: Session, rows: Sequence[Row]) -> None:
        measured = measured_contexts(session, [config_id for row in rows for config_id in row.config_ids])
        best_ids = {row.best.public_id for row in rows}
        self._on_curve = {
            row.best.public_id: of_row
            for row in rows
            if (of_row := chosen(measured, row.config_ids, row.best.config_id))
        }
        public_ids = best_ids | {of_row.public_id for of_row in self._on_curve.values()}
        self._decodes = {decode.public_id: decode for decode in decodes_of(session, public_ids)}
        self._placements = {public_id: _placement(decode) for public_id, decode in self._decodes.items()}
        self._memory = measured_memory(session, best_ids)

    def memory(self, row: Row) -> MemoryUsed | None:
        """Returns the memory of a row's best configuration; None: unknown."""
        public_id = row.best.public_id
        decode = self._decodes.get(public_id)
        return memory_used(decode, self._placements[public_id], self._memory.get(public_id, {})) if decode else None

    def curves(self, rows: Sequence[Row]) -> list[ContextCurve]:
        """Returns decode against context of some rows, all up to one context."""
        on_curve = [(row, of_row) for row in rows if (of_row := self._on_curve.get(row.best.public_id))]
        longest = max([SHORTEST_CURVE, *(round(MARGIN * of_row.points[-1].context) for _row, of_row in on_curve)])
        curves = []
        for row, of_row in on_curve:
            if decode := self._decodes.get(of_row.public_id):
                title = " ".join(filter(None, [row.quantization or row.model, decode.config.engine_version]))
                curves.append(curve(title, of_row, decode, self._placements[of_row.public_id], longest))
        return curves


def _machine(board: Leaderboard, rows: Sequence[Row], resources: _Resources) -> MachineSpeeds:
    ranked = ranking(rows, board.view.metric)
    return MachineSpeeds(
        machine=rows[0].machine,
        machine_slug=rows[0].machine_slug,
        ranking=ranked,
        quantizations=[QuantizationSpeed(row, ranked.ratio_of(row), resources.memory(row)) for row in rows],
        curves=resources.curves(rows),
        updates=_certain_updates(board, rows),
    )


def _placement(decode: Decode) -> Placement | None:
    placement = resolve_placement(
        decode.hardware.devices, decode.config, decode.known_geometry, gpu_share=decode.gpu_share
    )
    return placement if isinstance(placement, Placement) else None


def _certain_updates(board: Leaderboard, rows: Sequence[Row]) -> list[Update]:
    config_ids = {config_id for row in rows for config_id in row.config_ids}
    certain = []
    for update in reversed(board.updates):
        shift = next((shift for shift in update.shifts if shift.metric.key == board.view.by), None)
        if shift and any(config_ids.intersection(change.series.config_ids) for change in update.shifted(shift)):
            certain.append(update)
    return certain
