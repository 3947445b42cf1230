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
from app.engines.protocol import sse
from app.measure import play as rounds
from app.measure.job import Job, TimedSample, prepare
from app.measure.play import run_suite
from app.measure.waiting import Stop, WaitLimits
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


def run_samples(server: OneSlot, streams: int, repetitions: int) -> list[Sample]:
    cases = (Case(Workload(100, TOKENS, streams), "word " * 100),)
    with engines.open_client(url(server), None, Settings()) as client:
        suite = Suite("mine", "Mine", "", cases, repetitions, 0)
        job = Job(engines.find("openai"), client, suite, "m", None, limits=WaitLimits(5, 5))
        steps = list(run_suite(job, prepare(job), Stop()))
    return [step.sample for step in steps if isinstance(step, TimedSample)]


def test_four_at_once_on_a_server_with_one_slot() -> None:
    with one_slot() as server:
        samples_ = run_samples(server, streams=4, repetitions=1)
    assert [sample_.trace.status for sample_ in samples_] == [Status.OK] * 4
    in_turn = sorted(samples_, key=lambda sample_: first_token_ms(sample_.trace) or 0)
    for earlier, later in pairwise(in_turn):  # the queue is in TTFT
        end_ms = earlier.trace.events[-1].at_ms + earlier.sent_at_ms
        assert (first_token_ms(later.trace) or 0) + later.sent_at_ms > end_ms
    of_all = {metric.metric: metric.value for metric in compute_metrics(samples_) if metric.source == "client"}
    decode, together = of_all["decode_tokens_per_s"], of_all["output_tokens_per_s"]
    assert together is not None
    # the streams never ran at the same time, so that their speeds do not add up; a busy machine may read them late
    assert decode is None or together < decode
    assert of_all["prefill_tokens_per_s"] is None


def test_the_queue_of_a_server_with_one_slot_by_its_numbers() -> None:
    """Each of four answers decodes at 50 tok/s; together they are 84 tokens in 2.4 s."""
    requests = json.loads((HERE / "cases" / "T15.concurrent.json").read_text())["requests"]
    expected = json.loads((HERE / "cases" / "T15.expected.json").read_text())["expect"]
    samples_ = []
    for number, request in enumerate(requests):
        n = request["completion_tokens"]
        step_ms = (request["last_token_ms"] - request["first_token_ms"]) / (n - 1)
        times = [request["first_token_ms"] + step_ms * place for place in range(n)]
        made = trace([Event(at_ms, Kind.ANSWER, 5) for at_ms in times], output_tokens=n)
        samples_.append(sample(made, ordinal=number, stream=number, point=Workload(512, n, len(requests))))
    ttfts = [first_token_ms(sample_.trace) or 0 for sample_ in samples_]
    assert (ttfts, fmean(ttfts)) == (expected["ttft_ms"], expected["ttft_mean_ms"])
    decodes = [reading.value for sample_ in samples_ for reading in read_decode(sample_)]
    assert decodes == [pytest.approx(expected["decode_tps_each"])] * len(requests)
    (together,) = [metric.value for metric in compute_metrics(samples_) if metric.metric == "output_tokens_per_s"]
    assert together == pytest.approx(expected["aggregate_output_tps"])


def test_all_samples_of_a_run_use_one_warm_connection() -> None:
    with one_slot() as server:
        samples_ = run_samples(server, streams=1, repetitions=3)
        assert server.connections == 1  # made by the first look at the server, before any clock runs
    assert [sample_.trace.connect_ms for sample_ in samples_] == [None] * 3


def test_the_time_to_connect_is_no_part_of_ttft(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection

    def slowly(*args: Any, **options: Any) -> socket.socket:
        time.sleep(0.5)
        return connect(*args, **options)

    monkeypatch.setattr(socket, "create_connection", slowly)
    with one_slot() as server, engines.open_client(url(server), None, Settings()) as client:
        measured = engines.find("openai").stream_completion(client, CompletionRequest("hello", TOKENS, "m"))
    assert measured.connect_ms is not None
    assert measured.connect_ms >= 500
    assert (first_token_ms(measured) or 0) < measured.connect_ms


@pytest.mark.parametrize(("waited_ms", "is_late"), [(400, True), (2, False)])
def test_a_reader_that_had_to_wait_for_a_processor_is_flagged(
    monkeypatch: pytest.MonkeyPatch, waited_ms: int, is_late: bool
) -> None:
    waits = iter([(0, 0), (waited_ms * 1_000_000, 10)])
    monkeypatch.setattr(sse, "_scheduler_waits", lambda: next(waits))
    with one_slot() as server, engines.open_client(url(server), None, Settings()) as client:
        trace_ = engines.find("openai").stream_completion(client, CompletionRequest("hello", TOKENS, "m"))
    assert trace_.sched_delay_ms == waited_ms / 10
    assert ("client_scheduling_delay" in flags_of(sample(trace_))) is is_late


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long a thread waited for a processor")
def test_each_reading_is_watched() -> None:
    with one_slot() as server:
        samples_ = run_samples(server, streams=2, repetitions=1)
    assert all(sample_.trace.sched_delay_ms is not None for sample_ in samples_)


def test_several_readers_hand_the_interpreter_over_promptly(monkeypatch: pytest.MonkeyPatch) -> None:
    default_interval, intervals = sys.getswitchinterval(), []
    engine = engines.find("openai")

    def play(*_: Any) -> Trace:
        intervals.append(sys.getswitchinterval())
        return trace()

    monkeypatch.setattr(type(engine), "stream_completion", play)
    with one_slot() as server, engines.open_client(url(server), None, Settings()) as client:
        rounds.run_concurrent_requests(engine, client, [CompletionRequest("hello", TOKENS, "m")] * 2, Stop())
    assert intervals == [pytest.approx(rounds.THREAD_SWITCH_S)] * 2
    assert sys.getswitchinterval() == default_interval
