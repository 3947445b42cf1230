"""Watching a run and ending it."""

import json
import re
import threading
import time

import pytest
from starlette.testclient import TestClient

from app.core.configuration import Snapshot
from app.core.samples import Workload
from app.core.settings import Settings
from app.db import configs, runs
from app.db.database import Database
from app.measure import workers
from app.measure.live import LiveWriter
from tests.waiting import until


@pytest.fixture
def queued(client: TestClient, server: str) -> str:
    answer = client.post("/runs", data={"server": server, "suite": "triple"}, follow_redirects=False)
    return answer.headers["location"].rpartition("/")[2]


def start(database: Database, public_id: str, **progress: object) -> int:
    with database.write() as session:
        run = runs.run(session, public_id)
        assert run.id is not None
        assert runs.claim(session, run.id, 1, "elsewhere")
        runs.record_progress(session, run.id, samples_done=2, progress=progress)
        return run.id


def end(database: Database, run_id: int) -> None:
    with database.write() as session:
        runs.finish(session, run_id, "done")


def messages(stream: str) -> list[tuple[str, str]]:
    """Event name and text of each message."""
    events = []
    for block in filter(None, stream.split("\n\n")):
        lines = block.split("\n")
        name = next((line.removeprefix("event: ") for line in lines if line.startswith("event:")), "")
        events.append((name, "\n".join(line.removeprefix("data: ") for line in lines if line.startswith("data:"))))
    return events


def test_a_running_run_says_where_it_is(client: TestClient, database: Database, queued: str) -> None:
    last = {"ttft_ms": 512.3, "prefill_tokens_per_s": 998.7, "decode_tokens_per_s": None}
    start(database, queued, phase="Measuring.", step="sample 2 of 5", last=last, remaining_s=75.0, at=time.time())
    page = client.get(f"/runs/{queued}/progress").text
    assert '<progress max="6" value="2"' in page
    for text in ("sample 2 of 5", "Measuring.", "TTFT 512 ms", "decode – tok/s", "1 min 1", "so far"):
        assert text in page
    assert f'action="/runs/{queued}/cancel"' in page
    assert queued in client.get("/").text
    assert "sample 2 of 5" in client.get("/runs").text


def test_a_worker_that_names_no_step_is_counted(client: TestClient, database: Database, queued: str) -> None:
    start(database, queued, phase="The server is working on 1 other request. Waiting for 3 s.")
    assert "2 of 6 samples taken" in client.get(f"/runs/{queued}/progress").text


def test_a_running_run_is_not_said_to_wait(client: TestClient, database: Database, queued: str) -> None:
    page = f"/runs/{queued}/progress"
    assert "Waiting for its turn." in client.get(page).text
    with database.write() as session:
        run = runs.run(session, queued)
        assert run.id is not None
        runs.claim(session, run.id, 1, "elsewhere")
    assert "Waiting for its turn." not in client.get(page).text


def test_the_page_learns_when_the_configuration_is_frozen(
    client: TestClient, database: Database, server: str, queued: str
) -> None:
    assert "frozen from:#progress" in client.get(f"/runs/{queued}").text
    run_id = start(database, queued, phase="Measuring.")
    with database.write() as session:
        run = runs.run(session, queued)
        snapshot = Snapshot("llama.cpp", "b1", "Qwen3-8B", "Q4_K_M", {})
        runs.record_progress(session, run_id, config_id=configs.freeze(session, run.server_id, snapshot, {}, "").id)
    page = client.get(f"/runs/{queued}").text
    assert "Qwen3-8B" in page
    assert "frozen from:#progress" not in page
    ending = threading.Timer(1, end, (database, run_id))
    ending.start()
    names = [name for name, _ in messages(client.get(f"/runs/{queued}/events").text)]
    assert names.count("frozen") == 1
    assert names[-1] == "done"
    ending.join()


def test_a_queued_run_says_how_many_come_before(client: TestClient, server: str, queued: str) -> None:
    second = client.post("/runs", data={"server": server, "suite": "triple"}, follow_redirects=False)
    page = client.get(f"{second.headers['location']}/progress").text
    assert "Waiting for 1 other run on this machine." in page


def test_the_stream_of_an_ended_run_is_its_last_state_and_done(
    client: TestClient, database: Database, queued: str
) -> None:
    client.post(f"/runs/{queued}/cancel")
    answer = client.get(f"/runs/{queued}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    snapshot, done = messages(answer.text)
    assert "state-cancelled" in snapshot[1]
    assert "<form" not in snapshot[1]
    assert done == ("done", "cancelled")


def test_the_stream_follows_a_run_to_its_end(client: TestClient, database: Database, queued: str) -> None:
    run_id = start(database, queued, phase="Warming up.")
    seen: list[str] = []
    watcher = threading.Thread(target=lambda: seen.append(client.get(f"/runs/{queued}/events").text))
    watcher.start()
    end(database, run_id)
    until(lambda: seen)
    watcher.join()
    *_, snapshot, done = messages(seen[0])
    assert "state-done" in snapshot[1]
    assert done == ("done", "done")
    assert len(re.findall("event: done", seen[0])) == 1


def test_a_page_that_polls_is_loaded_anew_at_the_end(client: TestClient, database: Database, queued: str) -> None:
    path, htmx = f"/runs/{queued}/progress", {"hx-request": "true", "hx-request-type": "partial"}
    assert "hx-refresh" not in client.get(path, headers=htmx).headers
    end(database, start(database, queued))
    assert client.get(path, headers=htmx).headers["hx-refresh"] == "true"
    assert "hx-refresh" not in client.get(path).headers


def test_a_run_is_cancelled_once(client: TestClient, queued: str) -> None:
    answer = client.post(f"/runs/{queued}/cancel", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{queued}")
    again = client.post(f"/runs/{queued}/cancel")
    assert again.status_code == 409
    assert "The run has ended already: it is cancelled." in again.text


def test_a_running_run_is_asked_to_stop(client: TestClient, database: Database, queued: str) -> None:
    start(database, queued)
    client.post(f"/runs/{queued}/cancel")
    assert "Stopping; finished samples stay." in client.get(f"/runs/{queued}/progress").text


def test_a_note_is_edited(client: TestClient, database: Database, queued: str) -> None:
    answer = client.post(f"/runs/{queued}/note", data={"note": "after the new driver"})
    assert "after the new driver" in answer.text
    assert client.post(f"/runs/{queued}/note", data={"note": "x" * 10_001}).status_code == 422


@pytest.mark.parametrize("path", ["/runs/nonesuch/progress", "/runs/nonesuch/events"])
def test_an_unknown_run_is_no_stream(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_dot_for_each_sample(client: TestClient, database: Database, queued: str) -> None:
    marks = [["512/128/1/0", "d", "dfp"], ["2000/128/2/0", "pp", "pppp"]]
    start(database, queued, phase="Measuring.", marks=marks)
    page = client.get(f"/runs/{queued}/progress").text
    states = re.findall(r'class="dot dot-(\w+)( dot-warmup)?"', page)
    assert [state for state, _ in states] == ["done", "done", "flagged", "running", *["planned"] * 6]
    assert [bool(warmup) for _, warmup in states] == [True, *[False] * 3, True, True, *[False] * 4]
    assert "2,000 prompt tokens, 2 streams" in page


def test_the_stream_brings_what_is_arriving(
    client: TestClient, database: Database, settings: Settings, queued: str
) -> None:
    run_id = start(database, queued, phase="Measuring.")
    text = "<b>Once</b> upon a time"
    chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]})
    with LiveWriter(workers.live_path(settings, queued)) as writer:
        writer.begin_round("llama.cpp", Workload(512, 128), is_warmup=False)
        writer.add_stream([(1, f"data: {chunk}\n\n".encode())])
        ending = threading.Timer(2, end, (database, run_id))
        ending.start()
        events = messages(client.get(f"/runs/{queued}/events").text)
        ending.join()
    live = [json.loads(data) for name, data in events if name == "live"]
    assert "".join(state["text"] for state in live) == text
    assert live[-1]["words"] == "1 of 128 tokens so far"
    assert live[0]["is_new"]
    assert events[-1][0] == "done"
