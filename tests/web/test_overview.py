"""The overview: what a glance needs, what is running, and the first steps of an empty notebook."""

import re
from datetime import timedelta

import pytest
from sqlmodel import Session, col, select
from starlette.testclient import TestClient

from app import engines
from app.core.samples import Workload
from app.db import machines, runs, servers
from app.db.database import Database
from app.db.saved_views import save_view
from app.db.tables import Config, Measurement, Run, now
from app.metrics import HEADLINE_METRICS, metrics
from app.results import hardware
from app.results.history.lately import lasting_updates, recent_changes
from app.results.history.series import newest
from app.results.history.updates import updates
from app.results.run_list import list_runs
from app.results.series import series_index
from tests.ports import free_port
from tests.replay import Replay
from tests.seed import made_sample, seed
from tests.web.notebook import add_run, text_of
from tests.year import BUILDS, END, UPDATE, WRONG, seed_year

HTMX = {"hx-request": "true", "hx-request-type": "partial"}


@pytest.fixture
def year(database: Database) -> list[str]:
    """A notebook of a year that ended today."""
    with database.write() as session:
        ids = seed_year(session, detailed=0)
        for run in session.exec(select(Run)).all():
            run.started_at = run.started_at + (now() - END) if run.started_at else None
            session.add(run)
    return ids


def section(page: str, title: str) -> str:
    """The part of a page that a heading with this id begins."""
    return page.partition(f'id="{title}"')[2].partition("</section>")[0]


# --- the latest result -----------------------------------------------------------------------------------------------


def test_the_latest_result_stands_against_the_run_before_of_its_series(client: TestClient, year: list[str]) -> None:
    page = client.get("/").text
    latest = section(page, "latest-title")
    assert f'href="/runs/{year[-1]}"' in latest
    (pair,) = re.findall(r'href="/compare\?run=(\w+)&amp;run=(\w+)"', latest)
    assert pair[1] == year[-1]
    assert pair[0] in client.get("/history?model=Qwen3-30B-A3B&machine=strix-halo").text
    assert re.search(r"Decode [\d.]+ tok/s ([\d.]+ % (slower|faster)|the same)", text_of(latest))
    assert "with nothing changed" in latest


def test_the_first_result_has_nothing_to_stand_against(client: TestClient, run: str) -> None:
    latest = section(client.get("/").text, "latest-title")
    assert f'href="/runs/{run}"' in latest
    assert "nothing to compare it with yet" in latest


def test_another_version_of_the_engine_is_named_beside_the_change(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=30, configs_used=3, detailed=0)
        newest_first = list_runs(session, sort="started")[0]
        later = [row for row in newest_first if row.engine_version == "b6400"][-1]
        for row in newest_first[: newest_first.index(later)]:
            run = runs.run(session, row.public_id)
            run.hidden_at, run.hidden_reason = now(), "Set aside."
            session.add(run)
    latest = section(client.get("/").text, "latest-title")
    assert later.public_id in latest
    assert "b6301" in latest


# --- what changed lately ---------------------------------------------------------------------------------------------


def test_an_update_that_still_costs_speed_is_named_with_its_comparison(client: TestClient, year: list[str]) -> None:
    page = client.get("/").text
    changes = text_of(section(page, "changes-title"))
    old, new = BUILDS[UPDATE - 1 : UPDATE + 1]
    assert re.search(
        rf"worse llama\.cpp {old} → {new}: decode (−7\.\d %|7\.\d % slower) on 3 models strix-halo, since", changes
    )
    assert "One change for the worse still holds." in text_of(page)
    assert re.search(r'href="/compare\?run=year\d+&amp;run=year\d+"', section(page, "changes-title"))


def test_a_wrong_run_is_named_until_it_is_hidden(client: TestClient, year: list[str]) -> None:
    page = client.get("/").text
    assert "One run looks wrong." in text_of(page)
    assert f'href="/runs/{WRONG}"' in section(page, "changes-title")
    client.post(f"/runs/{WRONG}/hide", data={"reason": "The fans stood still."})
    page = client.get("/").text
    assert "looks wrong" not in page
    assert WRONG not in page


def test_an_update_that_a_later_one_took_back_is_no_news(database: Database, year: list[str]) -> None:
    with database.read() as session:
        points, triple = newest(session, 64), [metrics()[key] for key in HEADLINE_METRICS]
        all_updates = updates(points, triple, series_index(session), hardware.timelines(session).all_changes())
        (lasting,) = [update for update in lasting_updates(points, all_updates) if update.is_worse]
        assert lasting.new_version == BUILDS[UPDATE]
        titles = {"llama.cpp": "llama.cpp"}
        assert [change.kind for change in recent_changes(session, now(), titles)][:1] == ["update"]
        assert not recent_changes(session, now() + timedelta(days=800), titles)
    _take_back(database, BUILDS[UPDATE])
    with database.read() as session:
        points = newest(session, 64)
        all_updates = updates(points, triple, series_index(session), hardware.timelines(session).all_changes())
        assert any(update.is_worse and update.new_version == BUILDS[UPDATE] for update in all_updates)
        assert not [update for update in lasting_updates(points, all_updates) if update.is_worse]


def _take_back(database: Database, since: str) -> None:
    """Makes decode on strix-halo as fast again with every build after the one that slowed it down."""
    with database.write() as session:
        later_builds = select(Run.id).join(Config).where(Run.machine_id == 1, col(Config.engine_version) > since)
        query = select(Measurement).where(Measurement.metric == "decode_tokens_per_s")
        for measured in session.exec(query.where(col(Measurement.run_id).in_(later_builds))):
            measured.value = (measured.value or 0) / 0.92
            session.add(measured)


# --- what is running -------------------------------------------------------------------------------------------------


def test_what_runs_and_what_waits_is_polled_in_a_small_part(client: TestClient, database: Database, run: str) -> None:
    assert "Nothing is being measured." in client.get("/").text
    running = add_run(database, [made_sample(0, Workload(512, 16), 100, 50)], status="running")
    waiting = [add_run(database, status="queued") for _ in range(5)]
    page = client.get("/").text
    part = section(page, "running-title")
    assert f'hx-get="/running?run={running}"' in page
    assert f'href="/runs/{running}"' in part
    assert "5 waiting" in part
    assert [public_id in part for public_id in waiting] == [True, True, True, False, False]
    assert "and 2 more" in part
    assert client.get("/running", follow_redirects=False).headers["location"] == "/"
    assert "hx-refresh" not in client.get(f"/running?run={running}", headers=HTMX).headers
    assert client.get("/running?run=ended", headers=HTMX).headers["hx-refresh"] == "true"


def test_every_question_has_a_way_to_its_answer(client: TestClient, year: list[str]) -> None:
    ways = client.get("/").text.partition('id="answers-title"')[2].partition("</nav>")[0]
    paths = re.findall(r'<a href="([^"]*)"', ways)
    assert len(paths) == 7
    for path in paths:
        assert client.get(path.replace("&amp;", "&")).status_code == 200, path


def test_the_newest_change_is_compared_and_its_memory_shown(
    client: TestClient, database: Database, year: list[str]
) -> None:
    ways = client.get("/").text.partition('id="answers-title"')[2].partition("</nav>")[0]
    assert 'href="/ceiling?model=3&amp;device=Radeon+8060S+on+strix-halo&amp;kv=q8_0"' in ways
    (pair,) = re.findall(r'href="(/compare\?run=\w+&amp;run=\w+)"', ways)
    assert "KV cache type K f16 → q8_0" in client.get(pair.replace("&amp;", "&")).text
    with database.write() as session:  # so that the newest run is one on two cards
        newest_first = list_runs(session, sort="started")[0]
        on_two = next(place for place, row in enumerate(newest_first) if "Mistral" in (row.model or ""))
        for row in newest_first[:on_two]:
            run = runs.run(session, row.public_id)
            run.hidden_at, run.hidden_reason = now(), "Set aside."
            session.add(run)
    assert f'href="/runs/{newest_first[on_two].public_id}#ceiling-title"' in client.get("/").text


def test_the_table_holds_the_first_ten_of_the_leaderboard(client: TestClient, year: list[str]) -> None:
    best = section(client.get("/").text, "best-title")
    assert best.count('<th scope="row"') == 10
    assert 'href="/models"' in best


def test_pinned_views_are_one_click_away(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        save_view(session, "Night runs", "history", "label=night", is_pinned=True)
        save_view(session, "Others", "history", "label=other")
    page = client.get("/").text
    assert '<a class="button" href="/history?label=night">Night runs</a>' in page
    assert "Others" not in page


# --- an empty notebook -----------------------------------------------------------------------------------------------


def test_an_empty_notebook_looks_for_servers(client: TestClient) -> None:
    page = client.get("/").text
    assert "Welcome to Roofmark" in page
    assert 'hx-get="/servers/discover" hx-trigger="load"' in page
    assert "Answers" not in page


def test_a_found_server_is_added_with_its_machine_and_measured(
    client: TestClient, database: Database, llama: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_MORE_PORTS", (int(llama.url.rpartition(":")[2]),))
    part = client.get("/servers/discover", headers=HTMX).text
    assert f'name="base_url" value="{llama.url}"' in part
    assert 'action="/servers/discover"' in part
    answer = client.post("/servers/discover", data={"base_url": llama.url}, follow_redirects=False)
    assert answer.status_code == 303
    with database.read() as session:
        run = runs.run(session, answer.headers["location"].rpartition("/")[2])
        assert (run.suite_key, run.status) == ("triple", "queued")
        assert machines.is_local_machine(run.machine)
        assert run.machine.physical_cores
        assert run.server.facts["models"]
    client.post("/servers/discover", data={"base_url": llama.url})
    with database.read() as session:
        assert len(servers.list_servers(session)) == 1
        assert list_runs(session)[1] == 2


def test_a_server_elsewhere_is_not_added_as_one_of_this_machine(client: TestClient, database: Database) -> None:
    answer = client.post("/servers/discover", data={"base_url": "http://192.168.1.20:8080"})
    assert answer.status_code == 422
    assert "is not on this machine" in answer.text
    with database.read() as session:
        assert not _anything(session)


def test_a_found_server_that_has_ended_adds_nothing(client: TestClient, database: Database) -> None:
    answer = client.post("/servers/discover", data={"base_url": f"http://127.0.0.1:{free_port()}"})
    assert answer.status_code == 502
    with database.read() as session:
        assert not _anything(session)


def _anything(session: Session) -> bool:
    return bool(servers.list_servers(session) or machines.list_machines(session))


def test_a_known_server_is_measured_with_one_click_too(client: TestClient, server: str) -> None:
    page = client.get("/").text
    assert f'<input type="hidden" name="server" value="{server}">' in page
    assert "Welcome to Roofmark" in page
