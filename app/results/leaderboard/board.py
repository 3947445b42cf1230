"""The leaderboard: its rows in the order and in the groups of its view."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from sqlmodel import Session, select

from app.core.arrays import np
from app.db.database import cached_query
from app.db.tables import Run, now
from app.results.history.series import history
from app.results.history.updates import Update
from app.results.leaderboard.builder import RowBuilder
from app.results.leaderboard.rows import Row
from app.results.leaderboard.view import LeaderboardView
from app.suites import DEFAULT_SUITE


class RowGroup(NamedTuple):
    """Rows that share a value of what they are grouped by; a leaderboard without groups has one without a title."""

    title: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Leaderboard:
    """A leaderboard at one suite."""

    view: LeaderboardView
    suite: str | None
    """The key of the suite; None: nothing was measured."""
    rows: Sequence[Row]
    """In the order of the view."""
    hidden: int = 0
    """How many hidden runs it leaves out."""
    of_other_prompts: int = 0
    """How many runs of other versions of the suite it leaves out."""
    wrong: Sequence[str] = ()
    """The public ids of runs that stand off from the others of their configuration: they are neither best nor
    latest."""
    updates: Sequence[Update] = field(default=(), repr=False)
    """All engine updates within its runs."""

    @cached_property
    def by_speed(self) -> Sequence[Row]:
        """The rows from the best to the worst, without models that run elsewhere."""
        return _sorted(
            [row for row in self.rows if row.remote_host is None],
            lambda row: row.best.value,
            self.view.metric.better == "higher",
        )

    def groups(self, engine_titles: Mapping[str, str]) -> list[RowGroup]:
        """Returns the rows in the groups of the view, the group of the first row first."""
        if not self.view.group:
            return [RowGroup("", self.rows)]
        titles = [group_title(row, self.view.group, engine_titles) for row in self.rows]
        places = {title: place for place, title in reversed(list(enumerate(titles)))}
        ordered = sorted(zip(titles, self.rows, strict=True), key=lambda pair: places[pair[0]])
        return [
            RowGroup(title, [row for _title, row in pairs]) for title, pairs in groupby(ordered, lambda pair: pair[0])
        ]


def group_title(row: Row, group: str, engine_titles: Mapping[str, str]) -> str:
    """Returns the value of a row by which it is grouped, as a person reads it."""
    return engine_titles.get(row.engine, row.engine) if group == "engine" else str(getattr(row, group))


def leaderboard(
    session: Session, view: LeaderboardView, model: str | None = None, moment: datetime | None = None
) -> Leaderboard:
    """Returns the leaderboard of a view: of all its models, or of the one with this name. Trends end at
    `moment`, which is now by default."""
    suite = view.where.suite or _default_suite(session)
    if suite is None:
        return Leaderboard(view, None, ())
    ends_at = moment or now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)  # cached for an hour
    plain = LeaderboardView(
        replace(view.filter, suite=suite), view.by, group="engine" if view.group == "engine" else ""
    )
    board = _built(session, plain, ends_at)
    rows = [row for row in board.rows if model in (None, row.model)]
    return replace(board, view=view, rows=_in_order(rows, view))


@cached_query(maxsize=4)
def _built(session: Session, view: LeaderboardView, moment: datetime) -> Leaderboard:
    """Returns the leaderboard of all models in no particular order."""
    points, hidden = history(session, view.where, tuple(metric.key for metric in view.metrics))
    newest = points.take(np.flatnonzero(points.prompt_codes == points.prompt_codes[-1])) if len(points) else points
    builder = RowBuilder(session, view, newest, moment)
    return Leaderboard(
        view=view,
        suite=view.where.suite,
        rows=builder.rows(),
        hidden=hidden,
        of_other_prompts=len(points) - len(newest),
        wrong=builder.wrong,
        updates=builder.updates,
    )


def _default_suite(session: Session) -> str | None:
    keys = measured_suites(session)
    return DEFAULT_SUITE if DEFAULT_SUITE in keys else next(iter(keys), None)


@cached_query(maxsize=1)
def measured_suites(session: Session) -> list[str]:
    """Returns the keys of all suites that were measured."""
    return list(session.exec(select(Run.suite_key).distinct().order_by(Run.suite_key)).all())


# --- order -----------------------------------------------------------------------------------------------------------


def _in_order(rows: Sequence[Row], view: LeaderboardView) -> list[Row]:
    is_better_high = view.metric.better == "higher"
    by_best = _sorted(rows, lambda row: row.best.value, is_better_high)
    keys: Mapping[str, Callable[[Row], Any]] = {
        "best": lambda row: row.best.value,
        "model": lambda row: row.model.casefold(),
        "machine": lambda row: row.machine.casefold(),
        "quantization": lambda row: row.quantization.casefold(),
        "latest": lambda row: row.latest.value,
        "below": lambda row: row.latest.against_best.value if row.latest.against_best else 1.0,
        "change": lambda row: row.change.change.ratio if row.change else None,
        "runs": lambda row: row.runs,
        "when": lambda row: row.latest.at,
    }
    return _sorted(by_best, keys[view.sort], view.is_descending)


def _sorted(rows: Sequence[Row], key: Callable[[Row], Any], is_descending: bool) -> list[Row]:
    """Sorts rows; equal ones keep their order, and those without a value come last."""
    with_value = [row for row in rows if key(row) is not None]
    ordered = sorted(with_value, key=key, reverse=is_descending)
    return ordered + [row for row in rows if key(row) is None]
