"""Wrong runs on pages, in documents and commands, with what can be done about them."""

import re
from html import unescape

import pytest
from sqlmodel import select
from starlette.testclient import TestClient

from app.db.database import Database
from app.db.tables import Run
from app.results.compare.soundness import machine_busy
from tests.compare.runs import place, run, timed
from tests.web.notebook import read, text_of

SENTENCE = "Decode 45 % below the other runs of this configuration."


@pytest.fixture
def wrong_id(database: Database) -> str:
    """A run that is 45 % slower than the six others of its configuration, on a busy machine."""
    config, _ = place(database)
    for hour, speed in enumerate((50, 50.4, 49.7, 50.1, 49.9, 50.2)):
        run(database, config, timed(500, speed), hours=hour)
    busy = {"unsound": [machine_busy("during", 0.53)]}
    return run(database, config, timed(500, 27.5), hours=9, evidence=busy)


def test_the_page_of_a_wrong_run_says_so_first(client: TestClient, wrong_id: str) -> None:
    page = client.get(f"/runs/{wrong_id}").text
    text = text_of(page)
    assert text.index(SENTENCE) < text.index("Prefill")
    assert "Likely cause: other programs used this machine during the run (53 % of its processor)." in text
    assert f'action="/runs/{wrong_id}/hide"' in page
    assert f'action="/runs/{wrong_id}/again"' in page


def test_lists_mark_it_with_both_buttons(client: TestClient, wrong_id: str) -> None:
    (mark,) = re.findall(r'<details class="wrong-mark">.*?</details>', client.get("/runs").text, re.DOTALL)
    assert "decode 45 % below" in text_of(mark)
    assert f'action="/runs/{wrong_id}/hide"' in mark
    assert f'action="/runs/{wrong_id}/again"' in mark


def test_hide_takes_the_sentence_for_its_reason(client: TestClient, wrong_id: str) -> None:
    page = client.get(f"/runs/{wrong_id}").text
    fields = dict(re.findall(r'<input type="hidden" name="(reason|is_wrong)" value="([^"]*)"', page))
    answer = client.post(f"/runs/{wrong_id}/hide", data={key: unescape(value) for key, value in fields.items()})
    assert answer.status_code == 200
    hidden = read(client, wrong_id)
    assert SENTENCE in hidden
    assert "Show in statistics again" in hidden
    assert 'id="wrong"' not in client.get(f"/runs/{wrong_id}").text
    assert "wrong-mark" not in client.get("/runs").text


def test_run_again_queues_the_same(client: TestClient, database: Database, wrong_id: str) -> None:
    answer = client.post(f"/runs/{wrong_id}/again", follow_redirects=False)
    assert answer.status_code == 303
    with database.read() as session:
        queued = session.exec(select(Run).where(Run.status == "queued")).one()
        wrong = session.exec(select(Run).where(Run.public_id == wrong_id)).one()
    assert answer.headers["location"] == f"/runs/{queued.public_id}"
    assert (queued.server_id, queued.suite_key) == (wrong.server_id, wrong.suite_key)
    assert client.post("/runs/nonesuch/again").status_code == 404


def test_the_api_has_it(client: TestClient, wrong_id: str) -> None:
    wrong = client.get(f"/api/v1/runs/{wrong_id}").json()["run"]["wrong"]
    assert wrong["sentence"] == SENTENCE
    assert [(metric["key"], metric["others"]) for metric in wrong["metrics"]] == [("decode_tokens_per_s", 6)]
    assert wrong["metrics"][0]["change"] == pytest.approx(-0.45, abs=0.01)
    assert wrong["causes"] == ["other programs used this machine during the run (53 % of its processor)"]
    listed = {row["id"]: row["wrong"] for row in client.get("/api/v1/runs").json()["runs"]}
    assert listed.pop(wrong_id) == wrong
    assert set(listed.values()) == {None}
