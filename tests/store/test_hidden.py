"""A hidden run is nowhere in statistics, and back in all of them when it is taken back."""

from collections.abc import Callable

import pytest
from sqlmodel import Session

from app.core.errors import BadInput
from app.db import annotations, runs
from app.db.database import Database
from app.results.ceiling import config_ceilings
from app.results.history.series import history
from app.results.previous import previous
from app.results.run_filter import RunFilter
from app.results.run_list import latest_per_config, list_runs
from tests.databases import on_both
from tests.seed import seed

pytestmark = on_both


def _history(session: Session) -> set[str]:
    points, _ = history(session, RunFilter())
    return {point.public_id for point in points}


def _latest(session: Session) -> set[str]:
    return {row.public_id for row in latest_per_config(session)}


@pytest.mark.parametrize("shown", [_history, _latest])
def test_lists_of_results_leave_it_out(database: Database, shown: Callable[[Session], set[str]]) -> None:
    with database.write() as session:
        newest = seed(session, runs=12, detailed=2)[-1]
        before = shown(session)
        assert newest in before
        annotations.hide(session, newest, "A try.")
        session.flush()
        assert newest not in shown(session)
        annotations.unhide(session, newest)
        session.flush()
        assert shown(session) == before


def test_the_next_newest_stands_in_its_place(database: Database) -> None:
    with database.write() as session:
        *_, second, newest = seed(session, runs=4, configs_used=1, detailed=4)
        annotations.hide(session, newest, "A try.")
        assert _latest(session) == {second}
        (row,) = [row for row in list_runs(session)[0] if row.public_id == second]
        (roof,) = config_ceilings(session).values()
        assert roof.mbu == pytest.approx((row.metrics["decode_tokens_per_s"].value or 0) / roof.ceiling.tokens_per_s)


def test_the_configuration_before_is_one_that_counts(database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=40, detailed=1)
        newest = runs.run(session, ids[-1])
        before = previous(session, newest)
        assert before is not None
        assert before.public_id is not None
        annotations.hide(session, before.public_id, "A try.")
        without = previous(session, newest)
        assert without is None or without.public_id != before.public_id


def test_hiding_needs_a_reason_and_keeps_the_first_moment(database: Database) -> None:
    with database.write() as session:
        (public_id,) = seed(session, runs=1, detailed=1)
        with pytest.raises(BadInput, match="Enter the reason"):
            annotations.hide(session, public_id, "  ")
        since = annotations.hide(session, public_id, "A try.").hidden_at
        again = annotations.hide(session, public_id, "The fans stood still.")
        assert (again.hidden_at, again.hidden_reason) == (since, "The fans stood still.")
