import re
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.core.configuration import Snapshot
from app.core.samples import Workload
from app.db import annotations, configs, runs, servers
from app.db.database import Database
from app.results import run_list
from app.results.run_filter import RunFilter
from tests.seed import made_sample, seed
from tests.web.notebook import add_run, listed


@pytest.fixture
def seeded(database: Database) -> list[str]:
    with database.write() as session:
        return seed(session, runs=60, detailed=1)


def test_newest_first_and_paged(client: TestClient, seeded: list[str]) -> None:
    newest = seeded[::-1]
    assert listed(client.get("/runs").text) == newest[:50]
    assert listed(client.get("/runs?page=2").text) == newest[50:]
    assert listed(client.get("/runs?page=9").text) == []


def test_sorted_both_ways(client: TestClient, seeded: list[str]) -> None:
    slow = listed(client.get("/runs?sort=decode&order=asc").text)
    fast = listed(client.get("/runs?sort=decode&order=desc").text)
    assert slow[0] != fast[0]
    answer = client.get("/api/v1/runs?sort=decode&descending=true&per_page=3").json()
    assert [run["id"] for run in answer["runs"]] == fast[:3]


def test_filtered_and_the_address_says_how(client: TestClient, seeded: list[str]) -> None:
    answer = client.get("/runs?machine=m3-ultra&suite=triple&status=&text=&sort=queued&order=desc&page=1")
    ids = listed(answer.text)
    assert 0 < len(ids) < 60
    assert answer.headers["hx-push-url"] == "/runs?machine=m3-ultra&suite=triple"
    assert '<option value="m3-ultra" selected>' in answer.text
    assert listed(client.get(f"/runs?text={seeded[7]}").text) == [seeded[7]]
    nothing = client.get("/runs?text=%25nothing%25")
    assert "No run matches" in nothing.text


@pytest.mark.parametrize("query", ["sort=magic", "order=sideways", "page=0", "page=x", "status=lost"])
def test_a_wrong_address_is_one_sentence(client: TestClient, query: str) -> None:
    answer = client.get(f"/runs?{query}")
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert "Traceback" not in answer.text


def test_hostile_text_stays_text(client: TestClient, database: Database, seeded: list[str]) -> None:
    with database.write() as session:
        annotations.edit_note(session, seeded[-1], "<script>alert(1)</script>")
    for page in ("/runs", f"/runs/{seeded[-1]}", '/runs?text="><script>'):
        html = client.get(page).text
        assert "<script>" not in html


def test_the_form_offers_servers_suites_and_what_is_not_known(client: TestClient, server: str) -> None:
    page = client.get("/runs/new").text
    for text in (
        f'value="{server}" selected',
        'value="triple" checked',
        "Lengths",
        "KV cache type K",
        "Enter what you know",
    ):
        assert text in page


def test_a_suite_that_does_not_fit_says_so_before_it_runs(client: TestClient, server: str) -> None:
    page = client.get(f"/runs/new/plan?server={server}&suite=lengths", headers={"hx-request": "true"}).text
    assert "8,0" in page
    assert "4,096" in page
    assert "<html" not in page


def test_several_models_are_a_choice(client: TestClient, database: Database, server: str) -> None:
    names = ("a.gguf", "b.gguf")
    facts = {"models": [{"id": name, "name": name.removesuffix(".gguf"), "quantization": None} for name in names]}
    with database.write() as session:
        servers.edit_server(session, server, facts=facts, model="b.gguf")
    assert '<option value="b.gguf" selected>' in client.get("/runs/new").text


def test_the_button_queues_a_run(client: TestClient, database: Database, server: str) -> None:
    form = {"server": server, "suite": "triple", "repetitions": "2", "warmups": "", "note": " new driver "}
    answer = client.post("/runs", data=form, follow_redirects=False)
    assert answer.status_code == 303
    public_id = answer.headers["location"].rpartition("/")[2]
    with database.read() as session:
        run = runs.run(session, public_id)
    assert (run.status, run.note, run.samples_planned) == ("queued", "new driver", 3)
    assert client.get(answer.headers["location"]).status_code == 200


def test_the_button_queues_several_runs_of_the_same(client: TestClient, database: Database, server: str) -> None:
    form = {"server": server, "suite": "triple", "repetitions": "2", "runs": "4"}
    answer = client.post("/runs", data=form, follow_redirects=False)
    assert answer.status_code == 303
    with database.read() as session:
        assert runs.counts_by_status(session) == {"queued": 4}
        first = runs.run(session, answer.headers["location"].rpartition("/")[2])
        assert runs.queue_position(session, first) == 0


@pytest.mark.parametrize(
    ("wrong", "status", "sentence"),
    [
        ({"server": ""}, 422, "The server is missing."),
        ({"server": "nonesuch"}, 404, "There is no server called"),
        ({"suite": "nonesuch"}, 422, "There is no suite"),
        ({"repetitions": "five"}, 422, "Repetitions must be a whole number"),
        ({"repetitions": "0"}, 422, "Repetitions must be between 1 and 200."),
        ({"warmups": "-1"}, 422, "Warm-ups must be between 0 and 200."),
        ({"runs": "0"}, 422, "From 1 to 20 runs can be queued at once, not 0."),
        ({"runs": "21"}, 422, "From 1 to 20 runs can be queued at once, not 21."),
        ({"runs": "two"}, 422, "The number of runs must be a whole number"),
        ({"note": "x" * 10_001}, 422, "The note is longer than 10,000 characters."),
    ],
)
def test_a_form_that_makes_no_sense_queues_nothing(
    client: TestClient, database: Database, server: str, wrong: dict[str, str], status: int, sentence: str
) -> None:
    answer = client.post("/runs", data={"server": server, "suite": "triple", "note": "kept"} | wrong)
    assert answer.status_code == status
    assert sentence in answer.text
    with database.read() as session:
        assert not runs.counts_by_status(session)


def test_running_again_keeps_what_was_asked_for(client: TestClient, database: Database, seeded: list[str]) -> None:
    plan = {"repetitions": 7, "warmups": 2, "model": None}
    page = client.get(f"/runs/{add_run(database, [made_sample(0, Workload(512, 16), 100, 50)], plan=plan)}").text
    (link,) = re.findall(r'href="(/runs/new\?[^"]*)">Run again', page)
    again = client.get(unescape(link) + "&runs=3").text
    assert re.search(r'name="runs" type="number" min="1" max="20" value="3"', again)
    assert 'name="repetitions" inputmode="numeric" value="7"' in again
    assert 'name="warmups" inputmode="numeric" value="2"' in again


def test_running_again_takes_the_number_of_runs(client: TestClient, database: Database, seeded: list[str]) -> None:
    with database.write() as session:
        server = servers.list_servers(session)[0]
    plan = {"repetitions": 7, "warmups": 2, "model": None}
    samples = [made_sample(0, Workload(512, 16), 100, 50)]
    page = client.get(f"/runs/{add_run(database, samples, plan=plan, server_id=server.id)}").text
    (form,) = re.findall(r'<form class="again" method="post" action="/runs">(.*?)</form>', page, re.DOTALL)
    fields = dict(re.findall(r'name="(\w+)"[^>]* value="([^"]*)"', form))
    assert fields == {"server": server.slug, "suite": "triple", "repetitions": "7", "warmups": "2", "runs": "1"}
    client.post("/runs", data={**fields, "runs": "3"})
    with database.read() as session:
        queued, _ = run_list.list_runs(session, RunFilter(status="queued"))
        plans = [runs.run(session, row.public_id).plan for row in queued]
    assert [(plan["repetitions"], plan["warmups"]) for plan in plans] == [(7, 2)] * 3


@pytest.mark.parametrize(
    ("offered", "model"), [(["org/a", "org/b"], "org/b"), (["org/b"], None), (["org/a", "org/c"], None)]
)
def test_running_again_measures_the_same_of_several_models(
    client: TestClient, database: Database, seeded: list[str], offered: list[str], model: str | None
) -> None:
    """Though nobody named it: another one may be loaded by now. One model that was replaced is measured as it is."""
    with database.write() as session:
        server = servers.list_servers(session)[0]
        assert server.id is not None
        servers.remember(session, server.id, facts={"models": [{"id": model_id} for model_id in offered]})
        snapshot = Snapshot("llama.cpp", None, "b", None, {"model_id": "org/b"})
        config = configs.freeze(session, server.id, snapshot, {}, "")
        fields: dict[str, Any] = {"server_id": server.id, "config_id": config.id, "plan": {"model": None}}
    page = client.get(f"/runs/{add_run(database, [made_sample(0, Workload(512, 16), 100, 50)], **fields)}").text
    (form,) = re.findall(r'<form class="again" method="post" action="/runs">(.*?)</form>', page, re.DOTALL)
    assert dict(re.findall(r'name="(\w+)"[^>]* value="([^"]*)"', form)).get("model") == model


def test_rows_say_what_tells_configurations_apart(client: TestClient, seeded: list[str]) -> None:
    page = client.get("/runs").text
    assert "llama.cpp b6400 · KV cache type K q8_0" in page
    assert re.search(r"OpenAI[^<]* · Context 32,768 · night", page)


def test_a_row_says_which_of_several_points_it_shows(client: TestClient, database: Database, seeded: list[str]) -> None:
    add_run(
        database,
        [made_sample(0, Workload(200, 16), 100.0, 50.0)],
        suite_key="lengths",
        plan={"repetitions": 3, "warmups": 1},
        samples_planned=8,
        evidence={"left_out": [{"point": "8000/128/1/0", "reason": "too long"}]},
    )
    page = client.get("/runs").text
    assert "at 200 prompt tokens · 2 of 3 points" in page
