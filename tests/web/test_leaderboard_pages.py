"""The leaderboard and the page of a model, as a reader and a program see them."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.cli import app
from app.core import files
from app.core.settings import Settings
from app.db.database import Database
from app.db.migrate import migrate
from tests.web.notebook import pages, text_of
from tests.year import WRONG, seed_year

UPDATED: dict[str, Any] = {"machine": "strix-halo", "until": "2026-06-25"}
"""Just after the update that cost speed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Settings(data_dir=Path(tmp_path_factory.mktemp("year")))
    database = Database(settings.effective_database_url)
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        seed_year(session, 0)
    database.dispose()
    return settings.data_dir


@pytest.fixture(scope="module")
def year(folder: Path) -> Iterator[TestClient]:
    with pages(Settings(data_dir=folder)) as client:
        yield client


def ask(client: TestClient, path: str, *, status: int = 200, **parameters: Any) -> str:
    answer = client.get(f"{path}?{urlencode(parameters)}" if parameters else path)
    assert answer.status_code == status, answer.text
    return answer.text


def figures(page: str) -> list[dict[str, Any]]:
    scripts = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    return [json.loads(script) for script in scripts]


# --- the leaderboard -------------------------------------------------------------------------------------------------


def test_it_is_one_click_away_and_begins_with_its_answer(year: TestClient) -> None:
    assert 'href="/models">Models</a>' in year.get("/").text
    text = text_of(ask(year, "/models"))
    assert text.index("Fastest here, without a certain difference: Qwen3-30B-A3B Q3_K_M on mac-studio") < text.index(
        "Best by"
    )
    assert "30 rows · 1 run left out, far off the others of the same configuration" in text


def test_an_update_that_cost_speed_is_said_and_compared(year: TestClient) -> None:
    page = ask(year, "/models", **UPDATED)
    assert len(re.findall(r'class="verdict verdict-worse" href="/compare\?run=\w+&(?:amp;)?run=\w+"', page)) == 12
    assert text_of(page).count("b7689 → b7841") == 12
    assert re.search(r"7\.\d\N{NO-BREAK SPACE}% slower", page)


def test_every_column_sorts_and_keeps_the_filters(year: TestClient) -> None:
    page = ask(year, "/models", machine="workstation", group="model")
    links = re.findall(r'<a href="(/models\?[^"]+)" hx-get', page)
    assert len(links) == 7
    for link in links:
        assert "machine=workstation" in link
        assert "group=model" in link
        assert year.get(link.replace("&amp;", "&")).status_code == 200


def test_problems_of_an_address_are_said_and_the_rest_is_shown(year: TestClient) -> None:
    text = text_of(ask(year, "/models", status=422, by="speed", machine="workstation"))
    assert "A leaderboard is about a metric such as" in text
    assert "Mistral-Small-24B Q4_K_M" in text
    assert "No result matches" in ask(year, "/models", machine="nowhere")


def test_the_number_of_runs_leads_to_their_history(year: TestClient) -> None:
    page = ask(year, "/models", machine="strix-halo", model="Gemma-3-27B")
    links = re.findall(r'href="(/history\?[^"]+)" title="[^"]+">(\d+)</a>', page)
    assert len(links) == 4
    for link, count in links:
        history = figures(ask(year, link.replace("&amp;", "&")))[0]
        shown = {run for trace in history["data"] for run in trace.get("customdata", ())}
        assert len(shown) == int(count)


def test_csv_and_json_have_the_rows_of_the_page(year: TestClient) -> None:
    parameters: dict[str, Any] = {"machine": "workstation", "by": "ttft"}
    rows = list(csv.DictReader(io.StringIO(ask(year, "/models.csv", **parameters))))
    document = year.get("/api/v1/best", params=parameters).json()
    assert [row["best_run"] for row in rows] == [row["best"]["run"] for row in document["rows"]]
    assert document["metric"] == "ttft_ms"
    assert document["wrong_runs"] == [WRONG]
    assert "is none" in year.get("/api/v1/best", params={"by": "speed"}).json()["error"]["message"]


def test_the_command_prints_the_same(folder: Path, year: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFMARK_DATA_DIR", str(folder))
    options = [part for name, value in UPDATED.items() for part in (f"--{name}", value)]
    result = CliRunner().invoke(app, ["best", *options])
    assert result.exception is None
    assert "Fastest here: Qwen3-30B-A3B Q3_K_M on strix-halo" in result.stdout
    assert len(re.findall(r"b7689 → b7841: \S+ % slower", result.stdout)) == 12
    printed = CliRunner().invoke(app, ["best", *options, "--json"])
    assert json.loads(printed.stdout) == year.get("/api/v1/best", params=UPDATED).json()


def test_what_an_address_narrows_down_to_stays_when_the_form_is_sent(year: TestClient) -> None:
    filters = {"machine": "strix-halo", "server": "strix-halo", "label": "fast", "engine": "llama.cpp", "text": "fans"}
    for path in ("/models", "/models/named"):
        page = year.get(path, params={**filters, "name": "Gemma-3-27B"}).text
        for parameter, value in filters.items():
            control = re.search(rf'<(select|input)[^>]* name="{parameter}"[^>]*>', page)
            assert control, (path, parameter)
            assert f'value="{value}"' in (control[0] if control[1] == "input" else page), (path, parameter)


def test_nothing_measured_yet(client: TestClient) -> None:
    assert "No model was measured yet" in ask(client, "/models")


# --- the page of a model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Qwen3-30B-A3B", "Gemma-3-27B", "Mistral-Small-24B"])
def test_two_clicks_lead_to_the_answer(year: TestClient, name: str) -> None:
    link = f'href="/models/named?{urlencode({"name": name})}"'
    assert link in ask(year, "/models")
    text = text_of(ask(year, "/models/named", name=name))
    assert re.search(r"is the fastest on|are not told apart by their runs on|are about equally fast on", text)


def test_the_fastest_and_what_it_costs(year: TestClient) -> None:
    text = text_of(ask(year, "/models/named", name="Gemma-3-27B"))
    assert re.search(
        r"Q3_K_M is the fastest on strix-halo: decode 8\d % faster than Q8_0, with 15\.5 GB less memory\.", text
    )
    assert re.search(r"\d+\.\d GB of 96\.0 GB, measured", text)
    assert "llama.cpp b7689 → b7841: decode " in text
    on_mac = text_of(ask(year, "/models/named", name="Mistral-Small-24B", machine="mac-studio"))
    assert re.search(r"Q3_K_M \([\d.]+ tok/s\) and Q4_K_M \([\d.]+ tok/s\) are not told apart", on_mac)
    assert re.search(r"GB of 192 GB, computed", on_mac)


def test_charts_never_mix_machines_or_builds(year: TestClient) -> None:
    """Two machines: one with a curve of contexts, both with a chart of builds, where a quantization looks the same."""
    page = ask(year, "/models/named", name="Qwen3-30B-A3B")
    by_build, by_context, also_by_build = figures(page)
    ceiling, curve = by_context["data"]
    assert ceiling["meta"]["role"] == "roof"
    assert re.fullmatch(r"Q4_K_M b\d{4}", curve["name"])
    assert curve["y"] == sorted(curve["y"], reverse=True)
    assert len(set(curve["customdata"])) == 1
    assert max(by_build["data"][0]["y"]) > 2 * max(also_by_build["data"][0]["y"])
    looks = {trace["name"]: trace["meta"]["series"] for trace in also_by_build["data"]}
    assert curve["meta"]["series"] == looks["Q4_K_M"]
    assert f"{curve['name']}: decode falls from" in text_of(page)


def test_a_model_that_there_is_not(year: TestClient) -> None:
    assert "There is no model called" in text_of(ask(year, "/models/named", status=404, name="GPT-9"))
    assert year.get("/models/named").status_code == 422


def test_a_model_without_a_result_says_so(year: TestClient) -> None:
    text = text_of(ask(year, "/models/named", name="Gemma-3-27B", machine="mac-studio"))
    assert "No result matches" in text
    assert "Gemma-3-27B Q8_0" in text  # its bytes per token are known all the same


def test_its_bytes_per_token_are_a_click_away(year: TestClient) -> None:
    page = ask(year, "/models/named", name="Gemma-3-27B")
    link = re.search(r'href="(/models/\d+)">Gemma-3-27B Q4_K_M', page)
    assert link
    assert "Weights read per token" in ask(year, link[1])
    assert 'href="/models/named?name=Gemma-3-27B"' in ask(year, link[1])
