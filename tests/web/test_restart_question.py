"""The question about a restart, on the pages of the run and of its server."""

from starlette.testclient import TestClient

from app.db import runs
from app.db.database import Database

QUESTION = "The engine was restarted: what did you change?"


def ask(database: Database, public_id: str) -> str:
    """Opens the question on a run; returns its server's slug."""
    with database.write() as session:
        run = runs.run(session, public_id)
        run.evidence = {**run.evidence, "restart": {"unknown": ["threads", "kv_type_k"], "answered": None}}
        session.add(run)
        return run.server.slug


def test_it_is_on_both_pages_until_it_is_answered(client: TestClient, database: Database, run: str) -> None:
    assert QUESTION not in client.get(f"/runs/{run}").text
    slug = ask(database, run)
    for path in (f"/runs/{run}", f"/servers/{slug}"):
        page = client.get(path).text
        assert QUESTION in page
        assert ('name="setting_threads"' in page, 'name="setting_batch"' in page) == (True, False)
    answer = client.post(f"/runs/{run}/restart", data={"setting_threads": "6", "server": slug}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/servers/{slug}")
    for path in (f"/runs/{run}", f"/servers/{slug}"):
        assert QUESTION not in client.get(path).text
    with database.read() as session:
        config = runs.run(session, run).config
        assert config is not None
        assert config.settings["threads"] == 6


def test_nothing_ends_it_too(client: TestClient, database: Database, run: str) -> None:
    ask(database, run)
    answer = client.post(f"/runs/{run}/restart", data={"answer": "nothing", "setting_threads": ""})
    assert (answer.status_code, QUESTION in answer.text) == (200, False)


def test_an_empty_or_a_wrong_answer_is_refused(client: TestClient, database: Database, run: str) -> None:
    ask(database, run)
    assert client.post(f"/runs/{run}/restart", data={"setting_threads": ""}).status_code == 422
    wrong = client.post(f"/runs/{run}/restart", data={"setting_threads": "many"})
    assert (wrong.status_code, "must be a whole number" in wrong.text) == (422, True)
    assert QUESTION in client.get(f"/runs/{run}").text


def test_settings_of_the_process_are_shown_and_not_asked_for(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        server = runs.run(session, run).server
        settings = {"kv_type_k": "q8_0", "threads": "default"}
        server.facts = {**server.facts, "process": {"pid": 1, "started_at": 1.0, "settings": settings}}
        server.settings = {}
        session.add(server)
        slug = server.slug
    page = client.get(f"/servers/{slug}").text
    assert "from its command line" in page
    assert "Left to the engine" in page
    assert 'name="setting_kv_type_k"' not in client.get(f"/servers/{slug}/edit").text


def test_what_was_left_to_the_engine_is_no_value_of_a_form(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        measured = runs.run(session, run)
        assert measured.config is not None
        measured.config.settings = {**measured.config.settings, "threads": "default"}
        session.add(measured.config)
        slug = measured.server.slug
    page = client.get(f"/runs/new?server={slug}&like={run}")
    assert (page.status_code, 'value="default"' in page.text) == (200, False)
