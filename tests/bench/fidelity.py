"""Does our reader see what a bare socket sees, and at what price? One replayed stream, read by both in turn."""

import json
import socket
import time
from collections.abc import Iterator

from app.core.settings import Settings
from app.engines import find
from app.engines.base import CompletionRequest
from app.engines.http import ServerClient
from app.engines.protocol.sse import record
from app.engines.protocol.trace_builder import is_alive, is_token, read_trace
from app.metrics.token_times import first_token_ms, span_ms
from tests.bench.replayed import is_faithful, server
from tests.bench.table import Figure, at_most, medians

ROUNDS = 5
RATES = {50: 100, 500: 1000, 2000: 4000}
"""Events per second, and how many events."""


def bare(port: int, count: int) -> tuple[float, float, float, float]:
    """TTFT in ms, decode in tok/s, CPU per event in us: a socket, recv and the clock; then the JSON of each line.

    The third figure is of the reading alone, the fourth of the whole way from the socket to TTFT and decode.
    """
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = b"{}"
        rows: list[tuple[int, bytes]] = []
        began = time.thread_time()
        t0 = time.perf_counter_ns()
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        while piece := connection.recv(65536):
            rows.append((time.perf_counter_ns(), piece))
        read = time.thread_time()
        tokens = []
        for at, piece in rows:
            for line in piece.split(b"\n"):
                if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
                    tokens += [at] * bool(choices[0]["delta"].get("content"))
        done = time.thread_time()
    decode = (count - 1) / (tokens[-1] - tokens[0]) * 1e9
    return (tokens[0] - t0) / 1e6, decode, (read - began) / count * 1e6, (done - began) / count * 1e6


def ours(port: int, count: int) -> tuple[float, float]:
    """TTFT in ms and decode in tok/s, by the very call that measures a server."""
    with ServerClient(f"http://127.0.0.1:{port}", None, Settings()) as client:
        trace = find("openai").stream_completion(client, CompletionRequest("hello", count, "gemma-3-270m"))
    first, span = first_token_ms(trace), span_ms(trace)
    assert first is not None, trace.error
    assert span, trace.error
    return first, (count - 1) / span * 1000


def our_cpu_us(port: int, count: int) -> tuple[float, float]:
    """CPU per event of the timed loop, the part that could disturb the clock, and of the whole way to the numbers."""
    with (
        ServerClient(f"http://127.0.0.1:{port}", None, Settings()) as client,
        client.stream("/v1/chat/completions", {}, first_byte_timeout_s=10) as exchange,
    ):
        began = time.thread_time()
        recording = record(
            exchange,
            is_token,
            is_alive,
            first_token_timeout_s=10,
            idle_timeout_s=10,
            max_tokens=10**6,
            max_bytes=10**9,
        )
        read = time.thread_time()
        trace = read_trace(recording, {})
        assert first_token_ms(trace)
        assert span_ms(trace)
        return (read - began) / count * 1e6, (time.thread_time() - began) / count * 1e6


def run() -> Iterator[Figure]:
    for rate, count in RATES.items():
        with server(rate, count) as port:
            bare(port, count), ours(port, count)
            rows = [(*bare(port, count), *ours(port, count), *our_cpu_us(port, count)) for _ in range(ROUNDS)]
        ttft, decode, reading, whole, our_ttft, our_decode, our_reading, our_whole = medians(rows)
        what = f"at {rate:,} events/s: "
        yield Figure(f"{what}TTFT", our_ttft, ttft, "ms", "at most 1 ms later", is_faithful(our_ttft, ttft))
        close = abs(our_decode / decode - 1) <= 0.005
        yield Figure(f"{what}decode", our_decode, decode, "tok/s", "within 0.5 %", close)
        yield at_most(f"{what}CPU per event, to the numbers", our_whole, whole, "us", 5)
        yield at_most(f"{what}CPU per event, reading alone", our_reading, reading, "us", 5)
