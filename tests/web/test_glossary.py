"""Every metric and flag is explained, and pages lead to the explanation."""

import re

import pytest
from starlette.testclient import TestClient

from app.db.database import Database
from app.metrics import FLAGS, HEADLINE_METRICS, metrics
from app.web.terms import SECTIONS, entry
from tests.seed import seed

ENTRIES = [entry for entries in SECTIONS.values() for entry in entries]


@pytest.mark.parametrize("name", [*metrics(), *(f"flag-{key}" for key in FLAGS)])
def test_every_metric_and_flag_has_its_entry(name: str) -> None:
    assert entry(name) is not None


@pytest.mark.parametrize("word", ["better", "worse", "same", "inconclusive"])
def test_every_verdict_has_its_entry(word: str) -> None:
    assert entry(word) is not None


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.key)
def test_an_entry_is_one_short_paragraph(entry: object) -> None:
    text = getattr(entry, "text", "")
    assert 30 < len(text) < 400
    assert text.endswith(".")


def test_anchors_are_unique() -> None:
    keys = [entry.key for entry in ENTRIES]
    assert len(keys) == len(set(keys))


def test_every_term_of_a_page_leads_to_an_anchor(client: TestClient, database: Database) -> None:
    with database.write() as session:
        newest = seed(session, runs=24, detailed=2)[-1]
    anchors = set(re.findall(r'id="([^"]+)"', client.get("/glossary").text))
    for path in ("/", f"/runs/{newest}", "/history", "/ceiling", "/machines/strix-halo"):
        page = client.get(path).text
        led = set(re.findall(r'href="/glossary#([^"]+)"', page))
        assert led <= anchors, path
        headlines = {term.key for key in HEADLINE_METRICS if (term := entry(key))}
        assert headlines - led <= ({"ttft", "prefill"} if path == "/ceiling" else set()), path
        assert '<a href="/glossary">Glossary</a>' in page
