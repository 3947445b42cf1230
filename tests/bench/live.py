"""Does watching a run disturb it? The same replayed stream, measured with nobody looking and with its page open."""

import contextlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from app.core.samples import Workload
from app.core.settings import Settings
from app.db import machines, servers
from app.db.database import Database
from app.engines import find
from app.engines.base import STATED_ENGINE, CompletionRequest
from app.engines.http import ServerClient
from app.measure.live import LiveWriter
from app.metrics.token_times import first_token_ms, span_ms
from tests.bench.replayed import server
from tests.bench.table import Figure, at_most, in_turn
from tests.browser.dashboard import running_dashboard

ROUNDS = 5
RATES = {50: 100, 500: 1000, 2000: 4000}
"""Events per second, and how many events."""
PAGE_RATE, PAGE_COUNT, PAGE_ROUNDS, REPETITIONS = 100, 128, 3, 5
"""Of whole runs that a worker measures while a page watches."""

WATCHER = """
import sys, time
from pathlib import Path
from app.measure.live import LiveReader
reader = LiveReader(Path(sys.argv[1]))
while True:
    reader.look()
    time.sleep(0.25)
"""
"""Twice as eager as a page."""

Seen = tuple[float, float, float]
"""TTFT in ms, decode in tok/s, and processor time of the reading thread per event in us."""


def run() -> Iterator[Figure]:
    for rate, count in RATES.items():
        with server(rate, count) as port:
            yield from _of_reader(rate, count, port)
    yield from _of_runs()


# --- one stream, followed by a writer and a watcher ------------------------------------------------------------------


def _of_reader(rate: int, count: int, port: int) -> Iterator[Figure]:
    with ServerClient(f"http://127.0.0.1:{port}", None, Settings()) as client, _watched() as writer:

        def measured(*, is_watched: bool) -> Seen:
            client.on_stream = writer.add_stream if is_watched else None
            if is_watched:
                writer.begin_round("openai", Workload(512, count), is_warmup=False)
            began = time.thread_time()
            trace = find("openai").stream_completion(client, CompletionRequest("hello", count, "gemma-3-270m"))
            spent = time.thread_time() - began
            first, span = first_token_ms(trace), span_ms(trace)
            assert first is not None, trace.error
            assert span, trace.error
            return first, (count - 1) / span * 1000, spent / count * 1e6

        measured(is_watched=False), measured(is_watched=True)
        rows = [(*measured(is_watched=False), *measured(is_watched=True)) for _ in range(ROUNDS)]
    what = f"watched, at {rate:,} events/s: "
    ttft, decode, cpu, live_ttft, live_decode, live_cpu = (list(column) for column in zip(*rows, strict=True))
    yield _within_noise(f"{what}TTFT", live_ttft, ttft, "ms", 1)
    yield _within_noise(f"{what}decode", live_decode, decode, "tok/s", 0.005 * rate)
    yield at_most(f"{what}CPU per event", statistics.median(live_cpu), statistics.median(cpu), "us", 1.25)


def _within_noise(
    what: str, watched: Sequence[float], unwatched: Sequence[float], unit: str, at_least: float
) -> Figure:
    """Medians of both; they may differ by as much as unwatched rounds differ among themselves, or by `at_least`."""
    measured, yardstick = statistics.median(watched), statistics.median(unwatched)
    noise = max(at_least, max(unwatched) - min(unwatched))
    return Figure(what, measured, yardstick, unit, f"within {noise:.3g} {unit}", abs(measured - yardstick) <= noise)


@contextmanager
def _watched() -> Iterator[LiveWriter]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.live"
        watcher = subprocess.Popen([sys.executable, "-c", WATCHER, str(path)])
        try:
            with LiveWriter(path) as writer:
                yield writer
        finally:
            watcher.kill()
            watcher.wait()


# --- whole runs, with their page open --------------------------------------------------------------------------------


def _of_runs() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, server(PAGE_RATE, PAGE_COUNT) as port:
        data_dir = Path(folder) / "data"
        with running_dashboard(data_dir) as address:
            _add_server(data_dir, port)
            seen: dict[bool, list[tuple[float, float]]] = {False: [], True: []}

            def measured(*, is_open: bool) -> float:
                seen[is_open].append(_measured_run(address, is_open=is_open))
                return seen[is_open][-1][0]

            in_turn(lambda: measured(is_open=False), lambda: measured(is_open=True), PAGE_ROUNDS)
    (ttft, decode), (open_ttft, open_decode) = (zip(*seen[is_open][1:], strict=True) for is_open in (False, True))
    yield _within_noise("a run with its page open: TTFT", open_ttft, ttft, "ms", 1)
    yield _within_noise("a run with its page open: decode", open_decode, decode, "tok/s", 0.005 * PAGE_RATE)


def _add_server(data_dir: Path, port: int) -> None:
    database = Database(Settings(data_dir=data_dir).effective_database_url)
    with database.write() as session:
        machine = machines.ensure_local_machine(session)
        assert machine.id is not None
        url = f"http://127.0.0.1:{port}"
        servers.add_server(session, machine.id, "replayed", "openai", url, capabilities={STATED_ENGINE: True})


def _measured_run(address: str, *, is_open: bool) -> tuple[float, float]:
    """TTFT in ms and decode in tok/s of a run that the dashboard's worker measures."""
    form = {"server": "replayed", "suite": "triple", "repetitions": str(REPETITIONS)}
    with httpx.Client(base_url=address, headers={"origin": address}, timeout=60) as client:
        page = client.post("/runs", data=form).headers["location"]
        is_over = threading.Event()
        watching = threading.Thread(target=_watch, args=(f"{address}{page}/events", is_over))
        if is_open:
            watching.start()
        while (run := client.get(f"/api/v1{page}").json())["run"]["status"] in ("queued", "running"):
            time.sleep(1)
        is_over.set()
        if is_open:
            watching.join()
    assert run["run"]["status"] == "done", run["run"]
    (point,) = run["points"]
    values = {metric["key"]: metric["value"] for metric in point["metrics"] if metric["source"] == "client"}
    return values["ttft_ms"], values["decode_tokens_per_s"]


def _watch(url: str, is_over: threading.Event) -> None:
    """Reads the progress stream to its end, as a page does."""
    with contextlib.suppress(httpx.HTTPError), httpx.stream("GET", url, timeout=60) as stream:  # it may end first
        for _line in stream.iter_lines():
            if is_over.is_set():
                return
