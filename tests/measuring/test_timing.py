"""What belongs to whose time: a queue, a connection, our own reader; and streams that wait for one another."""

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest

from app import engines
from app.core.samples import Event, Kind, Sample, Status, Trace, Workload
from app.core.settings import Settings
from app.engines.base import CompletionRequest
from app.engines.http import network
from app.engines.protocol import sse
from app.measure import bench
from app.measure.bench import Job, Limits, SampleProgress, Stop
from app.measure.bench import concurrent as rounds
from app.metrics import compute_metrics, flags_of
from app.metrics.decode import read_decode
from app.metrics.token_times import first_token_ms
from app.suites import Case, Suite
from tests.replay import HERE
from tests.traces import sample, trace

CHAT = "/v1/chat/completions"
SLOT_S = 0.1
TOKENS = 4


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %s\n\n" % json.dumps({"choices": [choice], **more}).encode()


USAGE = {"prompt_tokens": 100, "completion_tokens": TOKENS}
WORDS = [event({"content": " word"})] * TOKENS
END = event({}, "length", usage=USAGE) + b"data: [DONE]\n\n"


class OneSlot(ThreadingHTTPServer):
    """A server that answers one request at a time and keeps its connections open."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.slot = threading.Lock()
        self.connections = 0

    def get_request(self) -> tuple[socket.socket, Any]:
        self.connections += 1
        return super().get_request()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OneSlot

    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "m"}]}).encode()
        self._begin("application/json", content_length=len(body))
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        with self.server.slot:
            time.sleep(SLOT_S)
            self._begin("text/event-stream", transfer_encoding="chunked")
            for piece in (*WORDS, END):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                time.sleep(SLOT_S / TOKENS)
            self.wfile.write(b"0\r\n\r\n")

    def _begin(self, content_type: str, **headers: Any) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass  # to nobody


@contextmanager
def one_slot() -> Iterator[OneSlot]:
    with OneSlot() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def url(server: OneSlot) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def taken(server: OneSlot, streams: int, repetitions: int) -> list[Sample]:
    cases = (Case(Workload(100, TOKENS, streams), "word " * 100),)
    with engines.open_client(url(server), None, Settings()) as client:
        suite = Suite("mine", "Mine", "", cases, repetitions, 0)
        job = Job(engines.find("openai"), client, suite, "m", None, limits=Limits(5, 5))
        steps = list(bench.run_suite(job, bench.prepare(job), Stop()))
    return [step.sample for step in steps if isinstance(step, SampleProgress)]


def test_four_at_once_on_a_server_with_one_slot() -> None:
    with one_slot() as server:
        found = taken(server, streams=4, repetitions=1)
    assert [each.trace.status for each in found] == [Status.OK] * 4
    in_turn = sorted(found, key=lambda each: first_token_ms(each.trace) or 0)
    for earlier, later in pairwise(in_turn):  # the queue is in TTFT
        end_ms = earlier.trace.events[-1].at_ms + earlier.sent_at_ms
        assert (first_token_ms(later.trace) or 0) + later.sent_at_ms > end_ms
    of_all = {each.metric: each.value for each in compute_metrics(found) if each.source == "client"}
    decode, together = of_all["decode_tokens_per_s"], of_all["output_tokens_per_s"]
    assert together is not None
    # the streams never ran at the same time, so that their speeds do not add up; a busy machine may read them late
    assert decode is None or together < decode
    assert of_all["prefill_tokens_per_s"] is None


def test_the_queue_of_a_server_with_one_slot_by_its_numbers() -> None:
    """Each of four answers decodes at 50 tok/s; together they are 84 tokens in 2.4 s."""
    told = json.loads((HERE / "cases" / "T15.concurrent.json").read_text())["requests"]
    expected = json.loads((HERE / "cases" / "T15.expected.json").read_text())["expect"]
    found = []
    for number, request in enumerate(told):
        n = request["completion_tokens"]
        step_ms = (request["last_token_ms"] - request["first_token_ms"]) / (n - 1)
        times = [request["first_token_ms"] + step_ms * place for place in range(n)]
        made = trace([Event(at_ms, Kind.ANSWER, 5) for at_ms in times], output_tokens=n)
        found.append(sample(made, ordinal=number, stream=number, point=Workload(512, n, len(told))))
    ttfts = [first_token_ms(each.trace) or 0 for each in found]
    assert (ttfts, fmean(ttfts)) == (expected["ttft_ms"], expected["ttft_mean_ms"])
    decodes = [reading.value for each in found for reading in read_decode(each)]
    assert decodes == [pytest.approx(expected["decode_tps_each"])] * len(told)
    (together,) = [each.value for each in compute_metrics(found) if each.metric == "output_tokens_per_s"]
    assert together == pytest.approx(expected["aggregate_output_tps"])


def test_all_samples_of_a_run_use_one_warm_connection() -> None:
    with one_slot() as server:
        found = taken(server, streams=1, repetitions=3)
        assert server.connections == 1  # made by the first look at the server, before any clock runs
    assert [each.trace.connect_ms for each in found] == [None] * 3


def test_the_time_to_connect_is_no_part_of_ttft(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection

    def slowly(*args: Any) -> socket.socket:
        time.sleep(0.5)
        return connect(*args)

    monkeypatch.setattr("app.engines.http.network.socket.create_connection", slowly)
    with one_slot() as server, engines.open_client(url(server), None, Settings()) as client:
        found = engines.find("openai").play(client, CompletionRequest("hello", TOKENS, "m"))
    assert found.connect_ms is not None
    assert found.connect_ms >= 500
    assert (first_token_ms(found) or 0) < found.connect_ms


def test_t0_is_when_the_first_byte_of_each_request_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its making, which other streams can delay, nor a later piece of it moves t0."""
    moments = iter(range(1, 100))
    monkeypatch.setattr(network, "perf_counter_ns", lambda: next(moments))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream, sent_ns = network.SocketStream(ours, network.Deadline()), []
        for _ in range(2):
            for piece in (b"POST / HTTP/1.1\r\n\r\n", b"{}"):
                stream.write(piece)
                sent_ns.append(stream.sent_ns)
            theirs.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            assert stream.read(100).endswith(b"\r\n\r\n")
            stream.end_head()
            assert stream.sent_ns < stream.received_ns
    assert sent_ns == [1, 1, 3, 3]


@pytest.mark.parametrize(("waited_ms", "is_late"), [(400, True), (2, False)])
def test_a_reader_that_had_to_wait_for_a_processor_is_flagged(
    monkeypatch: pytest.MonkeyPatch, waited_ms: int, is_late: bool
) -> None:
    accounts = iter([(0, 0), (waited_ms * 1_000_000, 10)])
    monkeypatch.setattr(sse, "account", lambda: next(accounts))
    with one_slot() as server, engines.open_client(url(server), None, Settings()) as client:
        found = engines.find("openai").play(client, CompletionRequest("hello", TOKENS, "m"))
    assert found.lag_ms == waited_ms / 10
    assert ("client_scheduling_delay" in flags_of(sample(found))) is is_late


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long a thread waited for a processor")
def test_each_reading_is_watched() -> None:
    with one_slot() as server:
        found = taken(server, streams=2, repetitions=1)
    assert all(each.trace.lag_ms is not None for each in found)


def test_several_readers_hand_the_interpreter_over_promptly(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, seen = sys.getswitchinterval(), []
    engine = engines.find("openai")

    def play(*_: Any) -> Trace:
        seen.append(sys.getswitchinterval())
        return trace()

    monkeypatch.setattr(type(engine), "play", play)
    with one_slot() as server, engines.open_client(url(server), None, Settings()) as client:
        rounds.run_concurrent_requests(engine, client, [CompletionRequest("hello", TOKENS, "m")] * 2, Stop())
    assert seen == [pytest.approx(rounds.HANDOVER_S)] * 2
    assert sys.getswitchinterval() == usual
