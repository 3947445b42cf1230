"""Many streams at once: does each of them see what a bare socket in its own thread sees, and at what price?"""

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from app.core.settings import Settings
from app.engines import find
from app.engines.base import CompletionRequest
from app.engines.http import ServerClient
from app.measure.play import run_concurrent_requests
from app.measure.waiting import Stop
from app.metrics.token_times import first_token_ms, span_ms
from tests.bench.fidelity import bare
from tests.bench.replayed import is_faithful, server
from tests.bench.table import Figure, at_most, medians

STREAMS = 32
RATE, COUNT = 50, 100
"""Of each stream: as fast as a home lab's server is for so many."""
ROUNDS = 5

Seen = tuple[float, float, float]
"""Medians over the streams of TTFT in ms and decode in tok/s; CPU per event in us, threads and all."""


def bare_streams(port: int) -> Seen:
    start = threading.Barrier(STREAMS)

    def read_one(_: int) -> tuple[float, float, float, float]:
        start.wait()
        return bare(port, COUNT)

    began = time.process_time()
    with ThreadPoolExecutor(STREAMS) as threads:
        rows = list(threads.map(read_one, range(STREAMS)))
    spent = time.process_time() - began
    return _seen([(ttft, decode) for ttft, decode, _, _ in rows], spent)


def our_streams(port: int) -> Seen:
    """By the very call that measures a point of several streams."""
    asks = [CompletionRequest("hello", COUNT, "gemma-3-270m") for _ in range(STREAMS)]
    with ServerClient(f"http://127.0.0.1:{port}", None, Settings()) as client:
        began = time.process_time()
        traces = run_concurrent_requests(find("openai"), client, asks, Stop())
        spent = time.process_time() - began
    rows = []
    for trace in traces:
        first, span = first_token_ms(trace), span_ms(trace)
        assert first is not None, trace.error
        assert span, trace.error
        rows.append((first, (COUNT - 1) / span * 1000))
    return _seen(rows, spent)


def _seen(rows: Sequence[tuple[float, float]], spent_s: float) -> Seen:
    ttft, decode = (statistics.median(column) for column in zip(*rows, strict=True))
    return ttft, decode, spent_s / (STREAMS * COUNT) * 1e6


def run() -> Iterator[Figure]:
    with server(RATE, COUNT) as port:
        bare_streams(port), our_streams(port)
        rows = [(*bare_streams(port), *our_streams(port)) for _ in range(ROUNDS)]
    ttft, decode, cpu, our_ttft, our_decode, our_cpu = medians(rows)
    what = f"{STREAMS} streams of {RATE} events/s: "
    yield Figure(f"{what}TTFT", our_ttft, ttft, "ms", "at most 1 ms later", is_faithful(our_ttft, ttft))
    close = abs(our_decode / decode - 1) <= 0.005
    yield Figure(f"{what}decode", our_decode, decode, "tok/s", "within 0.5 %", close)
    yield at_most(f"{what}CPU per event", our_cpu, cpu, "us", 5)
