"""The list of runs: columns, groups, CSV, search, and what is done to several runs at once."""

import csv
import io
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from app.db import annotations, runs
from app.db.database import Database
from app.metrics import metrics
from app.results.run_list import GROUPS
from tests.databases import on_both
from tests.web.notebook import listed
from tests.year import BUILDS, RUNS, seed_year


@pytest.fixture
def year(database: Database) -> list[str]:
    with database.write() as session:
        return seed_year(session)


def table_of(client: TestClient, query: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(client.get(f"/runs.csv?{query}").text)))


def test_columns_are_chosen_in_the_address_and_stay_when_a_filter_changes(client: TestClient, year: list[str]) -> None:
    address = "/runs?columns=decode_tokens_per_s&columns=gpu_memory_gb&columns=setting.kv_type_k&sort=vram&order=asc"
    response = client.get(address)
    heads = re.findall(r"<th scope=\"col\".*?</th>", response.text, re.DOTALL)
    titles = [re.sub(r"<[^>]+>|[↓↑]", "", head).strip() for head in heads]
    assert titles == ["Model", "KV cache type K", "Decode tok/s", "GPU memory used GB"]
    pushed = parse_qs(urlsplit(response.headers["hx-push-url"]).query)
    asked = parse_qs(urlsplit(address).query)
    assert {key: sorted(values) for key, values in pushed.items()} == {key: sorted(v) for key, v in asked.items()}
    form = response.text.partition('class="filters"')[2].partition("</form>")[0]
    checked = re.findall(r'name="columns" value="([^"]+)" checked', form)
    assert sorted(checked) == ["decode_tokens_per_s", "gpu_memory_gb", "setting.kv_type_k"]
    assert re.search(r'<option value="vram" selected>', form)
    assert client.get("/runs?columns=nothing").status_code == 422


@on_both
@pytest.mark.parametrize("group", GROUPS)
def test_rows_of_a_group_stand_together_and_are_sorted_within(
    client: TestClient, database: Database, year: list[str], group: str
) -> None:
    page = client.get(f"/runs?group={group}&sort=decode&order=desc").text
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    titles = [re.sub("<[^>]+>", "", title) for title in re.findall(r'scope="rowgroup">(.*?)</th>', body)]
    assert titles
    assert len(titles) == len(set(titles)), "each group once"
    by_id = {row["run"]: row for row in table_of(client, "")}
    for block in body.split('scope="rowgroup"')[1:]:
        speeds = [
            float(by_id[public_id]["decode_tokens_per_s"])
            for public_id in re.findall(r'<th scope="row"[^>]*><a href="/runs/([\w-]+)"', block)
        ]
        assert speeds == sorted(speeds, reverse=True)


def test_an_unknown_group_is_refused(client: TestClient, year: list[str]) -> None:
    assert client.get("/runs?group=colour").status_code == 422


def test_csv_has_all_that_is_filtered_whatever_page_is_shown(client: TestClient, year: list[str]) -> None:
    everything = table_of(client, "")
    assert [row["run"] for row in everything] == list(reversed(year))
    assert len(everything) == RUNS
    assert metrics().keys() <= everything[0].keys()
    assert everything[0]["setting.kv_type_k"]
    here = table_of(client, "machine=workstation&model=Llama-3.1-8B")
    assert {row["machine"] for row in here} == {"workstation"}
    assert {row["model"] for row in here} == {"Llama-3.1-8B"}
    assert len(here) > 50


def test_the_search_finds_what_its_placeholder_promises(
    client: TestClient, database: Database, year: list[str]
) -> None:
    public_id = year[100]
    with database.write() as session:
        annotations.edit_note(session, public_id, "Fans at 80 %, side panel off.")
        annotations.set_labels(session, public_id, ["night-shift"])
        row = runs.run(session, public_id)
        promised = {
            "note": "side panel",
            "label": "night-shift",
            "model": row.model.name if row.model else "",
            "machine": row.machine.name,
            "server": row.server.name,
            "engine": "llama.cpp",
            "setting": "32768",
            "run": public_id,
        }
    placeholder = re.findall(r'type="search"[^>]*placeholder="([^"]*)"', client.get("/runs").text)[0]
    assert set(re.findall(r"\w+", placeholder)) - {"or"} == promised.keys()
    for what, words in promised.items():
        rows = table_of(client, f"text={words.replace(' ', '+')}")
        assert public_id in {row["run"] for row in rows}, what
    assert [row["run"] for row in table_of(client, "text=night-shift")] == [public_id]
    assert all(BUILDS[3] in row["engine_version"] for row in table_of(client, f"text={BUILDS[3]}"))


# --- several at once -------------------------------------------------------------------------------------------------


def chosen(public_ids: list[str]) -> str:
    return "&".join(f"run={public_id}" for public_id in public_ids)


@pytest.mark.parametrize("action", ["label", "hide", "delete"])
def test_an_action_names_the_runs_before_it_is_done(client: TestClient, year: list[str], action: str) -> None:
    page = client.get(f"/runs/chosen/{action}?{chosen(year[-3:])}")
    assert page.status_code == 200
    assert "3 runs" in page.text
    assert re.findall(r'name="run" value="([\w-]+)"', page.text) == year[-3:]


def do(client: TestClient, action: str, public_ids: list[str], **fields: Any) -> Any:
    return client.post(f"/runs/chosen/{action}", data={"run": public_ids, **fields})


@on_both
def test_several_runs_are_labelled_hidden_and_deleted(client: TestClient, database: Database, year: list[str]) -> None:
    one, two, three = year[-3:]
    with database.write() as session:
        annotations.set_labels(session, one, ["old"])
    assert "The runs have their labels." in do(client, "label", [one, two], labels="night, fans 80 %").text
    with database.read() as session:
        assert runs.run(session, one).labels == ["old", "night", "fans 80 %"]
        assert runs.run(session, two).labels == ["night", "fans 80 %"]
        assert runs.run(session, three).labels == []
    do(client, "hide", [one, two], reason="It was only a trial.")
    assert listed(client.get("/runs?hidden=only").text) == [two, one]
    do(client, "delete", [two, three])
    assert client.get(f"/runs/{two}").status_code == 404
    assert client.get(f"/runs/{three}").status_code == 404
    assert client.get(f"/runs/{one}").status_code == 200


def test_a_refused_action_changes_nothing(client: TestClient, database: Database, year: list[str]) -> None:
    assert do(client, "label", year[-2:], labels=" , ").status_code == 422
    assert do(client, "hide", year[-2:], reason=" ").status_code == 422
    assert do(client, "delete", []).status_code == 422
    assert do(client, "delete", ["nothing"], reason="x").status_code == 404
    assert do(client, "burn", year[-2:]).status_code == 404
    with database.write() as session:
        runs.run(session, year[-1]).status = "running"
    assert do(client, "delete", year[-2:]).status_code == 409
    assert client.get(f"/runs/{year[-2]}").status_code == 200
    assert len(table_of(client, "")) == RUNS
