"""Decode against context: reached from the overview in two clicks, with a sentence first."""

import re
from collections.abc import Iterator
from html import unescape

import pytest
from fastapi.testclient import TestClient

from app.core.settings import Settings
from app.db.database import Database
from tests.web.notebook import pages
from tests.year import seed_year


@pytest.fixture
def client(settings: Settings, database: Database) -> Iterator[TestClient]:
    with pages(settings) as client:
        yield client


def test_it_is_two_clicks_from_the_overview(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed_year(session)
    assert 'href="/explore"' in client.get("/").text
    assert re.search(r'<a href="/explore/context">Decode against context</a>', client.get("/explore").text)
    page = client.get("/explore/context").text
    verdict = re.search(r'<p class="explore-verdict">(.*?)</p>', page)
    assert verdict is not None
    assert verdict[1].startswith("With a long context decode falls by ")
    assert page.index(verdict[0]) < page.index("context-figure")
    one = client.get("/explore/context?model=Gemma-3-27B").text
    assert re.search(r'<p class="explore-verdict">Decode falls from .* what the KV cache costs\.</p>', one)
    for path in re.findall(r'<td><a href="(/runs/[^"]+)"', page):
        assert client.get(path).status_code == 200
    assert page.count('<td class="why">') < client.get("/explore/context?builds=all").text.count('<td class="why">')


def test_without_such_runs_it_says_what_to_do(client: TestClient) -> None:
    page = client.get("/explore/context").text
    assert "No run measured several contexts" in page
    assert 'href="/runs/new?suite=depth"' in page
    bad = client.get("/explore/context?since=yesterday")
    assert bad.status_code == 422
    assert "A day is written like 2026-11-20; 'yesterday' is not." in unescape(bad.text)
