"""The form that queues runs: what it knows of the server, what the runs take, and measuring again with a change."""

import re
from html import unescape

import pytest
from sqlmodel import col, select
from starlette.testclient import TestClient

from app.core.samples import Workload
from app.db import machines, runs, servers
from app.db.database import Database
from app.db.tables import Config, Run
from app.results.run_time import Basis, EarlierRuns
from app.suites import BUILT_IN
from tests.seed import made_sample, seed
from tests.web.notebook import add_run, text_of


@pytest.fixture
def second(database: Database) -> str:
    """The slug of a server that comes first by its name."""
    with database.write() as session:
        machine = machines.add_machine(session, "Another machine")
        assert machine.id is not None
        return servers.add_server(session, machine.id, "A server", "llama.cpp", "http://127.0.0.1:2").slug


@pytest.fixture
def seeded(database: Database) -> list[str]:
    with database.write() as session:
        return seed(session, runs=4, configs_used=2, detailed=1)


def all_runs(database: Database) -> list[Run]:
    """In the order in which they were queued."""
    with database.read() as session:
        return list(session.exec(select(Run).order_by(col(Run.id))))


def queue(client: TestClient, **form: object) -> str:
    """Queues runs; gives the public id of the first."""
    answer = client.post("/runs", data=form, follow_redirects=False)
    assert answer.status_code == 303, text_of(answer.text)
    return answer.headers["location"].rpartition("/")[2]


def test_the_server_used_last_is_chosen(client: TestClient, server: str, second: str) -> None:
    for slug in (server, second, server):
        queue(client, server=slug, suite="triple")
        assert f'<option value="{slug}" selected>' in client.get("/runs/new").text


def test_suites_take_turns_and_are_one_batch(client: TestClient, database: Database, server: str) -> None:
    first = queue(client, server=server, suite=["triple", "lengths"], runs="2")
    queued = all_runs(database)
    assert [run.suite_key for run in queued] == ["triple", "lengths", "triple", "lengths"]
    assert {run.plan["batch"] for run in queued} == {first}
    alone = queue(client, server=server, suite="triple")
    page = client.get(f"/runs/{queued[2].public_id}").text
    assert "Still to come of those queued together: 4 runs" in page
    assert "queued together" not in client.get(f"/runs/{alone}").text
    client.post(f"/runs/{queued[1].public_id}/cancel-batch")
    assert [run.status for run in all_runs(database)] == ["cancelled"] * 4 + ["queued"]
    client.post(f"/runs/{alone}/cancel-batch")
    assert all_runs(database)[-1].status == "queued"


def test_too_many_runs_at_once_are_refused(client: TestClient, database: Database, server: str) -> None:
    form = {"server": server, "suite": ["triple", "lengths", "depth", "cache"], "runs": "20"}
    answer = client.post("/runs", data=form)
    assert answer.status_code == 422
    assert "At most 60 runs can be queued at once, not 20 of each of 4 suites." in answer.text
    assert answer.text.count('" checked>') == 4
    assert not all_runs(database)


# --- settings --------------------------------------------------------------------------------------------------------


def test_unknown_settings_come_first_and_reported_ones_are_no_fields(
    client: TestClient, database: Database, server: str
) -> None:
    with database.write() as session:
        facts = {"context_tokens": 4096, "settings": {"parallel": 1}, "models": [{"id": "a.gguf", "name": "a"}]}
        servers.edit_server(session, server, facts=facts, settings={"kv_type_k": "q8_0", "cooling": "water"})
    page = client.get("/runs/new").text
    names = re.findall(r'name="setting_(\w+)"', page)
    assert names.index("threads") < names.index("kv_type_k") < names.index("cooling") < names.index("tensor_split")
    assert not {"context", "parallel", "model_id"} & set(names)
    assert re.search(r"Context <strong>4,096.*Parallel slots <strong>1", page)
    assert re.search(r'name="setting_kv_type_k" type="text" value="q8_0"', page)


def test_only_settings_that_were_changed_are_stored_with_the_run(
    client: TestClient, database: Database, server: str
) -> None:
    with database.write() as session:
        servers.edit_server(session, server, settings={"kv_type_k": "q8_0", "kv_type_v": "q8_0", "flags": "-fit off"})
    form = {"setting_kv_type_k": "q8_0", "setting_kv_type_v": "", "setting_threads": "8", "setting_flags": "-fit on"}
    queue(client, server=server, suite="triple", **form)
    (run,) = all_runs(database)
    assert run.plan["settings"] == {"kv_type_v": None, "threads": 8, "flags": "-fit on"}
    wrong = client.post("/runs", data={"server": server, "suite": "triple", "setting_threads": "many"})
    assert wrong.status_code == 422
    assert re.search(r'name="setting_threads" type="text" value="many"[^>]* aria-invalid="true"', wrong.text)
    assert '<details class="settings" open>' in wrong.text


def test_another_server_brings_its_own_settings(
    client: TestClient, database: Database, server: str, second: str
) -> None:
    with database.write() as session:
        servers.edit_server(session, second, settings={"threads": 6})
    address = f"/runs/new/checks?server={second}&setting_threads=12&setting_cards=2"
    part = client.get(address, headers={"hx-request": "true"}).text
    assert re.search(r'name="setting_threads" type="text" value="6"', part)
    assert re.search(r'name="setting_cards" type="text" value=""', part)


def test_a_run_is_measured_again_with_a_change(client: TestClient, database: Database, seeded: list[str]) -> None:
    page = client.get(f"/runs/{seeded[-1]}").text
    (link,) = re.findall(r'href="(/runs/new\?[^"]*)">Run again with a change', page)
    form = client.get(unescape(link)).text
    with database.read() as session:
        run = runs.run(session, seeded[-1])
        assert run.config is not None
        settings = run.config.settings
    assert f'name="like" value="{seeded[-1]}"' in form
    assert f'href="/runs/{seeded[-1]}">the run of' in form
    assert '<details class="settings" open>' in form
    fields = dict(re.findall(r'name="setting_(\w+)" type="text" value="([^"]*)"', form))
    repeated = {key: value for key, value in fields.items() if value}
    assert repeated
    assert repeated.items() <= {key: str(value) for key, value in settings.items()}.items()
    assert "the run of" not in client.get("/runs/new?like=gone").text


# --- what the runs take ----------------------------------------------------------------------------------------------


def plan(client: TestClient, server: str, *suites: str, runs: int = 1) -> str:
    query = {"server": server, "suite": suites, "runs": str(runs)}
    return text_of(client.get("/runs/new/plan", params=query, headers={"hx-request": "true"}).text)


def test_how_long_it_takes_is_unknown_before_the_first_run(client: TestClient, server: str) -> None:
    text = plan(client, server, "triple")
    assert "How long it takes is unknown" in text
    assert "About" not in text


def test_the_time_is_that_of_earlier_runs_of_the_suite(
    client: TestClient, database: Database, seeded: list[str]
) -> None:
    with database.read() as session:
        server = runs.run(session, seeded[-1]).server
    samples = [made_sample(n, Workload(512, 128), 100, 50) for n in range(6)]
    for _ in range(3):  # of 60 s each
        add_run(database, samples, suite_sha256=BUILT_IN["triple"].sha256, server_id=server.id)
    assert "About 1 min 0 s" in plan(client, server.slug, "triple")
    text = plan(client, server.slug, "triple", runs=3)
    assert "About 3 min 0 s" in text
    assert "3 runs, one after another: triple, triple, …" in text
    with database.read() as session:
        assert server.id is not None
        earlier = EarlierRuns(session, server.id, None)
        for suite in (BUILT_IN["lengths"], BUILT_IN["concurrency"]):
            estimate = earlier.time_of(suite, suite.cases)
            assert estimate is not None
            assert (estimate.basis, estimate.seconds > 3) == (Basis.SPEEDS, True)
    with database.write() as session:
        for config in session.exec(select(Config)):
            config.settings = {**config.settings, "model_id": "a.gguf"}
        session.flush()
        times = [EarlierRuns(session, server.id, name).time_of(suite, suite.cases) for name in ("a.gguf", "b.gguf")]
    assert [time is not None for time in times] == [True, False]


def test_points_that_do_not_fit_are_named_before_the_run(client: TestClient, server: str) -> None:
    text = plan(client, server, "triple", "lengths", runs=2)
    assert "Lengths leaves out its point of 8,000 prompt tokens." in text
    assert "4 runs, one after another: triple, lengths, triple, lengths" in text


def test_a_plan_of_nonsense_is_no_error(client: TestClient, server: str) -> None:
    address = f"/runs/new/plan?server={server}&suite=nonesuch&runs=many&repetitions=-1&model=gone&like=gone"
    assert client.get(address).status_code == 200
    assert client.get("/runs/new/plan?server=nonesuch").status_code == 404
