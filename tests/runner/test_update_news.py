"""Updates that a run has made certain: told once, by the run that did."""

import json
from dataclasses import replace

import pytest

from app.core.settings import Settings
from app.db.database import Database
from app.measure import notify
from app.results.history.news import completed_by, engine_updates
from app.results.run_filter import RunFilter
from tests.compare.runs import BEGAN, Q8, change, place, run, timed
from tests.replay import Script, serve

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise imports it

SLOWER = 46


@pytest.fixture
def ids(database: Database) -> list[str]:
    """Eight runs of the old version, then four slower ones of a new version."""
    old, new = place(database, Q8, replace(Q8, engine_version="b6400"))
    speeds = [50.1, 49.9, 50.0, 50.2, 49.8, 50.0, 50.1, 49.9]
    before = [run(database, old, timed(500, speed), hours=hour) for hour, speed in enumerate(speeds)]
    after = [run(database, new, timed(500, SLOWER + 0.1 * place), hours=20 + place) for place in range(4)]
    return before + after


def completing(database: Database, public_ids: list[str]) -> list[str]:
    """The runs that make an update certain, when only they and those before them are there."""
    completing_ids = []
    for public_id in public_ids:
        change(database, public_id, hidden_at=None)
        with database.read() as session:
            completing_ids += [public_id for _ in completed_by(session, public_id)]
    return completing_ids


def test_one_run_is_the_one_that_makes_an_update_certain(database: Database, ids: list[str]) -> None:
    with database.read() as session:
        (update,) = engine_updates(session, RunFilter(suite="triple"))
        assert len(update.shifts) == 1
        assert engine_updates(session, RunFilter(suite="triple", since=update.at.date().replace(year=2027))) == []
    for public_id in ids:
        change(database, public_id, hidden_at=update.at)
    (certain_since,) = completing(database, ids)
    assert certain_since == ids[9]  # a lone run may be wrong


def test_it_is_told_with_what_changed(database: Database, settings: Settings, ids: list[str]) -> None:
    for public_id in ids[9:]:  # as if they were not measured yet
        change(database, public_id, hidden_at=BEGAN)
    with serve({"/hook": Script.json({})}) as receiver:
        url = f"{receiver.url.replace('http://', 'json://')}/hook"
        told = settings.model_copy(update={"notify_urls": Settings(notify_urls=url).notify_urls})
        for public_id in (ids[8], ids[9], ids[10]):
            change(database, public_id, hidden_at=None)
            notify.notify_run_ended(database, told, public_id)
        (request,) = receiver.requests
    message = json.loads(request.body)
    assert message["title"] == (  # some of their settings are unknown
        "Roofmark: llama.cpp b6301 → b6400: decode 7.9 % slower on Qwen3-8B, no other known change"
    )
    assert message["message"] == f"On strix-halo, since 2 September 2026; run {ids[9]} made it certain."
