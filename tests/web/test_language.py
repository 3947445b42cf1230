"""Pages speak the reader's language; programs and the database keep to English."""

import re

import pytest
from starlette.testclient import TestClient

from app.core import i18n
from app.db.database import Database
from tests.seed import seed

CHINESE = {"accept-language": "zh-TW,zh;q=0.9,en;q=0.8"}


def test_the_browser_chooses(client: TestClient) -> None:
    page = client.get("/", headers=CHINESE)
    assert '<html lang="zh-Hant">' in page.text
    assert "歡迎使用 Roofmark" in page.text
    assert {"accept-language", "cookie"} <= set(re.split(r", *", page.headers["vary"].lower()))
    assert page.headers["cache-control"] == "no-store"
    assert '<html lang="en">' in client.get("/", headers={"accept-language": "de"}).text


def test_a_choice_stands_before_the_browser_s_and_leads_back(client: TestClient) -> None:
    page = client.get("/runs?status=done", headers=CHINESE).text
    back = re.search(r'name="back" value="([^"]*)"', page)
    assert back is not None
    answer = client.post("/language", data={"language": "en", "back": back[1]}, headers=CHINESE, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?status=done")
    assert '<html lang="en">' in client.get("/", headers=CHINESE).text


@pytest.mark.parametrize("back", ["//elsewhere.example/", "https://elsewhere.example/", ""])
def test_it_never_leads_elsewhere(client: TestClient, back: str) -> None:
    answer = client.post("/language", data={"language": "zh-Hant", "back": back}, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_another_language_is_refused(client: TestClient) -> None:
    assert client.post("/language", data={"language": "tlh"}).status_code == 422


def test_what_answered_a_form_is_no_address_to_come_back_to(client: TestClient) -> None:
    page = client.post("/machines", data={"name": ""}, headers=CHINESE)
    assert page.status_code == 422
    assert 'name="back" value="/"' in page.text


def test_errors_are_said_in_it_too(client: TestClient) -> None:
    page = client.get("/nowhere", headers=CHINESE)
    assert page.status_code == 404
    assert "這個網址沒有內容。" in page.text


def test_programs_are_answered_in_english(client: TestClient) -> None:
    assert client.get("/api/v1/nowhere", headers=CHINESE).json()["error"]["message"].startswith("There is")


def test_pages_of_one_process_do_not_mix(client: TestClient, database: Database) -> None:
    with database.write() as session:
        newest = seed(session, runs=6, detailed=1)[-1]
    english = client.get(f"/runs/{newest}").text
    chinese = client.get(f"/runs/{newest}", headers=CHINESE).text
    assert "首 token 延遲" in chinese
    assert "前置處理" in chinese
    assert client.get(f"/runs/{newest}").text == english
    assert not re.search(r"[\u4e00-\u9fff]", english.replace(i18n.LANGUAGES["zh-Hant"], ""))


@pytest.mark.parametrize(
    ("header", "tag"),
    [
        ("zh-Hant-TW", "zh-Hant"),
        ("zh", "zh-Hant"),
        ("zh-CN, en;q=0.5", "en"),
        ("en;q=0.2, zh-TW;q=0.8", "zh-Hant"),
        ("zh-TW;q=0, en", "en"),
        ("*", "en"),
        (";;q=x, ,zh-HK", "zh-Hant"),
    ],
)
def test_what_a_browser_asks_for(header: str, tag: str) -> None:
    assert i18n.accepted(header) == tag
