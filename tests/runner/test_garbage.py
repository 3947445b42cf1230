"""Whatever a server sends in the middle of a run: the run ends failed with one sentence, and earlier samples stay."""

from itertools import count

import pytest

from app.db import measurements, samples
from app.db.database import Database
from app.measure.runner import Runner
from tests.engines.streams import GOOD_STREAM
from tests.replay import Request, Script, serve
from tests.runner.conftest import add_server, run_named
from tests.runner.listeners import silent

SSE = {"content-type": "text/event-stream"}
GARBAGE = {
    "bytes": Script([(1, bytes(range(256)) * 8)], headers=SSE),
    "nothing": Script(headers=SSE),
    "zeros": Script([(1, b"\0" * 5000)], headers=SSE),
    "not gzip": Script([(1, b"not gzip at all")], headers={**SSE, "content-encoding": "gzip"}),
    "no chunks": Script([(1, b"zz\r\nno size")], headers={**SSE, "transfer-encoding": "chunked"}, framing="close"),
    "no length": Script([(1, b"x")], headers={**SSE, "content-length": "many"}, framing="close"),
    "html": Script.text("<!doctype html><p>Log in", content_type="text/html"),
    "json of another kind": Script.json([[[{"a": None}]]]),
    "deep json": Script([(1, b"data: " + b"[" * 50_000 + b"\n\n")], headers=SSE),
    "half an event": Script([(1, b'data: {"choices": [{"delta": {"cont')], headers=SSE, end="rst"),
    "lone surrogates in an error": Script([(1, b'data: {"error": {"message": "\\ud800\\u0000"}}\n\n')], headers=SSE),
    "an odd status": Script.text("\x00\x01", status=599),
    "a redirect": Script(status=308, headers={"location": "http://169.254.169.254/"}),
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_a_run_that_meets_garbage(database: Database, runner: Runner, short_suite: str, name: str) -> None:
    turn = count()

    def answer(_: Request) -> Script:
        return GOOD_STREAM if next(turn) < 2 else GARBAGE[name]

    with serve({"/v1/models": Script.json({"data": [{"id": "m"}]}), "/v1/chat/completions": answer}) as replay:
        slug = add_server(database, replay.url, "openai")
        public_id = runner.perform(slug, short_suite, silent, repetitions=4, warmups=0)
    run = run_named(database, public_id)
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.endswith(".")
    assert "\n" not in run.error
    with database.read() as session:
        assert run.id is not None
        stored = samples.samples_of(session, run.id)
        metrics = {
            (measurement.metric, measurement.source): measurement
            for measurement in measurements.measurements_of(session, run.id)
        }
    assert [sample.trace.status for sample in stored[:2]] == ["ok", "ok"]
    assert metrics["ttft_ms", "client"].value is not None
