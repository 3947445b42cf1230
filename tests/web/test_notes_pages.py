"""Notes, labels, hiding, deleting and undoing in a browser without scripts."""

import re

import pytest
from sqlmodel import select
from starlette.testclient import TestClient

from app.db import runs
from app.db.database import Database
from app.db.tables import Baseline, Config, Run
from tests.seed import seed
from tests.web.notebook import listed


@pytest.fixture
def ids(database: Database) -> list[str]:
    with database.write() as session:
        return seed(session, runs=24, detailed=2)


def undo_of(page: str) -> str | None:
    match = re.search(r'<div class="notice good done".*?action="([^"]+)".*?Undo', page, re.DOTALL)
    return match[1] if match else None


def test_note_and_labels_stand_on_the_page_and_in_the_list(client: TestClient, ids: list[str]) -> None:
    page = client.post(f"/runs/{ids[3]}/note", data={"note": "Fans at 80 %", "labels": " night, second card,, night "})
    assert "Fans at 80 %" in page.text
    assert 'value="night, second card"' in page.text
    assert listed(client.get("/runs?label=second+card").text) == [ids[3]]
    row = client.get("/runs?text=fans+second").text
    assert listed(row) == [ids[3]]
    assert '<a class="label-tag" href="/runs?label=second+card">second card</a>' in row.replace("%20", "+")


@pytest.mark.parametrize("labels", ["x" * 61, ",".join(str(n) for n in range(21))])
def test_too_much_is_one_sentence_and_changes_nothing(client: TestClient, ids: list[str], labels: str) -> None:
    answer = client.post(f"/runs/{ids[0]}/note", data={"note": "kept out", "labels": labels})
    assert answer.status_code == 422
    assert "label" in answer.text
    assert "kept out" not in client.get(f"/runs/{ids[0]}").text


def test_a_hidden_run_says_why_and_one_press_takes_it_back(client: TestClient, ids: list[str]) -> None:
    newest = ids[-1]
    assert newest in client.get("/").text
    page = client.post(f"/runs/{newest}/hide", data={"reason": "Something <b>else</b> was running."})
    assert "The run is hidden" in page.text
    assert "Something &lt;b&gt;else&lt;/b&gt; was running." in page.text
    undo = undo_of(page.text)
    assert undo == f"/runs/{newest}/unhide"
    assert undo_of(client.get(f"/runs/{newest}").text) is None, "it is said once"
    assert newest not in client.get("/").text
    assert newest not in client.get("/history?suite=triple").text
    row = client.get("/runs?hidden=only").text
    assert listed(row) == [newest]
    assert "is-hidden" in row
    assert "was running." in row
    assert newest not in listed(client.get("/runs?hidden=without").text)
    assert undo_of(client.post(undo).text) is None
    assert newest in client.get("/").text


def test_hiding_without_a_reason_is_refused(client: TestClient, ids: list[str]) -> None:
    answer = client.post(f"/runs/{ids[0]}/hide", data={"reason": " "})
    assert answer.status_code == 422
    assert "Enter the reason" in answer.text


@pytest.mark.parametrize(
    ("path", "restored"),
    [
        ("/machines/strix-halo", "/machines/strix-halo/restore"),
        ("/servers/m3-ultra-8000", "/servers/m3-ultra-8000/restore"),
    ],
)
def test_archiving_can_be_undone_at_once(client: TestClient, ids: list[str], path: str, restored: str) -> None:
    page = client.post(f"{path}/archive")
    assert "Archived" in page.text
    assert undo_of(page.text) == restored
    assert "Archived" not in client.post(restored).text


def test_archiving_a_suite_can_be_undone_at_once(client: TestClient) -> None:
    suite = {"title": "Mine", "prompt": "Say something.", "output_tokens": "8", "repetitions": "1", "warmups": "0"}
    client.post("/suites", data=suite)
    assert undo_of(client.post("/suites/mine/archive").text) == "/suites/mine/restore"


@pytest.mark.parametrize("cookie", ["hide_run", "nonesuch.x", "hide_run.../../x", "archive_suite.a b", "."])
def test_a_foreign_cookie_says_nothing(client: TestClient, cookie: str) -> None:
    assert 'class="notice good done"' not in client.get("/", headers={"cookie": f"roofmark_done={cookie}"}).text


def test_deleting_a_run_asks_first_and_says_what_goes(client: TestClient, database: Database, ids: list[str]) -> None:
    newest = ids[-1]
    with database.write() as session:
        run = runs.run(session, newest)
        assert run.id is not None
        session.add(Baseline(machine_id=run.machine_id, model_name="Qwen3", suite_key="triple", run_id=run.id))
    asked = client.get(f"/runs/{newest}/delete").text
    assert re.search(r"6 samples and \d+ measurements", asked)
    assert "the baseline of Qwen3, triple" in asked
    assert client.get(f"/runs/{newest}").status_code == 200, "asking deletes nothing"
    page = client.post(f"/runs/{newest}/delete")
    assert page.url.path == "/runs"
    assert "The run is deleted." in page.text
    assert undo_of(page.text) is None
    assert newest not in listed(page.text)
    assert client.get(f"/runs/{newest}").status_code == 404


@pytest.mark.parametrize("status", ["queued", "running"])
def test_what_is_measured_cannot_be_deleted(
    client: TestClient, database: Database, ids: list[str], status: str
) -> None:
    with database.write() as session:
        runs.run(session, ids[0]).status = status
    for answer in (client.get(f"/runs/{ids[0]}/delete"), client.post(f"/runs/{ids[0]}/delete")):
        assert answer.status_code == 409
        assert "cancel" in answer.text
    assert client.get(f"/runs/{ids[0]}").status_code == 200


@pytest.mark.parametrize("path", ["/servers/strix-halo-8080", "/machines/strix-halo"])
def test_a_server_or_machine_is_deleted_from_the_archive(
    client: TestClient, database: Database, ids: list[str], path: str
) -> None:
    for answer in (client.get(f"{path}/delete"), client.post(f"{path}/delete")):
        assert answer.status_code == 409
        assert "archive it" in answer.text
    client.post(f"{path}/archive")
    n_runs = int(re.search(r"(\d+) runs", client.get(f"{path}/delete").text)[1])  # type: ignore[index]  # or it fails
    page = client.post(f"{path}/delete")
    assert "is deleted" in page.text
    assert client.get(path).status_code == 404
    with database.read() as session:
        assert len(session.exec(select(Run.id)).all()) == len(ids) - n_runs


def test_a_configuration_has_a_page_with_its_runs_and_a_note(
    client: TestClient, database: Database, ids: list[str]
) -> None:
    with database.read() as session:
        config = session.exec(select(Config).join(Run).where(Run.public_id == ids[-1])).one()
        same = set(session.exec(select(Run.public_id).where(Run.config_id == config.id)).all())
    page = client.get(f"/runs/{ids[-1]}").text
    link = re.search(r'href="(/configs/\w{64}\?server=[^"]+)"', page)
    assert link is not None
    config_page = client.get(link[1]).text
    assert {*re.findall(r"/runs/(seed\d+)", config_page)} >= same
    assert config.fingerprint[:12] in config_page
    assert "What changed" in config_page
    server = re.search(r'name="server" value="([^"]+)"', config_page)
    assert server is not None
    form = {"server": server[1], "note": "the new kernels"}
    noted = client.post(f"/configs/{config.fingerprint}/note", data=form)
    assert "the new kernels" in noted.text
    assert set(listed(client.get("/runs?text=kernels").text)) == same
    with database.read() as session:
        again = session.get_one(Config, config.id)
        assert (again.fingerprint, again.note) == (config.fingerprint, "the new kernels")
    assert client.get(f"/configs/{config.fingerprint[:12]}").status_code == 200
    assert client.get("/configs/nonesuch").status_code == 404
    assert client.get("/configs/").status_code == 404


def test_programs_annotate_hide_and_delete(client: TestClient, ids: list[str]) -> None:
    path = f"/api/v1/runs/{ids[0]}"
    changed = client.patch(path, json={"labels": ["night"], "hidden": "A try."}).json()["run"]
    assert (changed["labels"], changed["hidden"]["reason"], changed["note"]) == (["night"], "A try.", "")
    assert client.get("/api/v1/runs?hidden=only&label=night").json()["total"] == 1
    changed = client.patch(path, json={"note": "kept", "hidden": ""}).json()["run"]
    assert (changed["labels"], changed["hidden"], changed["note"]) == (["night"], None, "kept")
    assert client.patch(path, json={"speed": 9}).status_code == 422
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404
