import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.db import Database
from app.settings import Settings
from tests.seed import seed
from tests.web.notebook import pages


@pytest.fixture
def client(settings: Settings, database: Database) -> Iterator[TestClient]:
    with pages(settings) as client:
        yield client


@pytest.fixture
def ids(database: Database) -> list[str]:
    with database.write() as session:
        return seed(session, runs=24, detailed=2)


def figure(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    parsed: dict[str, Any] = json.loads(found[1])
    return parsed


def shown_runs(page: str) -> set[str]:
    return {path.rsplit("/", 1)[1] for trace in figure(page)["data"] for path in trace.get("customdata", ())}


def test_an_empty_notebook_says_what_to_do_next(client: TestClient) -> None:
    page = client.get("/history")
    assert page.status_code == 200
    assert "No history yet" in page.text
    assert 'href="/runs/new"' in page.text
    assert "application/json" not in page.text


def test_the_usual_suite_is_shown_and_another_only_when_chosen(client: TestClient, ids: list[str]) -> None:
    every_eleventh = {ids[10], ids[21]}
    assert shown_runs(client.get("/history").text) == set(ids) - every_eleventh
    assert shown_runs(client.get("/history?suite=lengths").text) == every_eleventh


def test_the_figure_has_a_summary_a_legend_and_a_data_table(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history").text
    assert "22 runs of " in page
    assert 'class="legend"' in page
    assert "<summary>Data table</summary>" in page
    assert f'<a href="/runs/{ids[-1]}">' in page


@pytest.mark.parametrize("query", ["machine=m3-ultra", "server=m3-ultra-8000", "model=gpt-oss-120b"])
def test_filters_in_the_address(client: TestClient, ids: list[str], query: str) -> None:
    page = client.get(f"/history?{query}&machine2=").text
    runs = shown_runs(page)
    assert runs
    assert runs < set(ids)
    assert {trace["name"].split(" ")[0] for trace in figure(page)["data"]} == {"gpt-oss-120b"}
    assert " selected>" in page


def test_one_configuration_alone(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history").text
    link = re.search(r'href="(/history\?[^"]*config=[^"]*)"', page)
    assert link is not None
    alone = client.get(link[1].replace("&amp;", "&")).text
    assert len(figure(alone)["data"]) == 4  # the triple and a decode ceiling
    assert "Only the configuration" in alone


def test_nothing_that_matches_leads_back(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history?model=nonesuch").text
    assert "No finished run matches" in page
    assert 'href="/history"' in page


def test_empty_choices_mean_all(client: TestClient, ids: list[str]) -> None:
    page = client.get("/history?machine=&server=&model=&suite=")
    assert shown_runs(page.text) == shown_runs(client.get("/history").text)
    assert page.headers["hx-push-url"] == "/history?suite=triple"
