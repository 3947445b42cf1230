"""Measures how fast this machine reads its memory: float32 matrix-vector products over more data than any cache holds.

Decoding reads, too, and nothing is written, so the cost of a written byte plays no part. The figure is a lower bound:
it lacks what another program, or a neighbour of a virtual machine, reads at the same time.
"""

import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil

from app.core.arrays import Floats32, np
from app.core.errors import Conflict
from app.core.i18n import _
from app.core.units import format_bytes, format_number
from app.hardware.host import available_ram_bytes, logical_cores, physical_cores

MIB = 1 << 20
DEFAULT_BUFFER_BYTES = 1024 * MIB
RELIABLE_BUFFER_BYTES = 512 * MIB
MIN_BUFFER_BYTES = 64 * MIB  # of a machine with little memory, where its cache is small enough
MIN_CACHE_MULTIPLE = 4  # a buffer of this many last-level caches is not read from them
COLUMNS = 4096  # the vector stays in the first-level cache
CHUNK_ROWS = 1024  # 16 MiB between two looks at the clock
SAMPLE_S = 0.1
SWEEP_SAMPLES = 3
FINAL_SAMPLES = 10
PLATEAU_RATIO = 1.15
STABLE_SHARE = 0.85
IDLE_S = 0.5
MAX_BUSY_CORES = 0.25  # the busy share from which on a remark says so
_BLAS = ("OPENBLAS", "OMP", "MKL", "BLIS", "VECLIB")

ReportPhase = Callable[[str], None]


@dataclass(frozen=True)
class SweepStep:
    """The samples with one number of threads."""

    threads: int
    rates_bytes_per_s: tuple[float, ...]

    @property
    def best_bytes_per_s(self) -> float:
        """The highest rate, in bytes per second."""
        return max(self.rates_bytes_per_s)


@dataclass(frozen=True)
class BandwidthResult:
    """The rates of one measurement."""

    best_bytes_per_s: float
    median_bytes_per_s: float
    threads: int
    samples: int
    buffer_bytes: int
    sweep: tuple[SweepStep, ...]
    plateau_ratio: float
    """The rate with half of the buffer over the rate with all of it: about 1, unless a cache holds part of the half."""
    busy_share: float
    """The busy share of all cores before the measurement began."""

    @property
    def is_stable(self) -> bool:
        """Whether most samples came near the best one."""
        return self.median_bytes_per_s >= STABLE_SHARE * self.best_bytes_per_s

    @property
    def was_idle(self) -> bool:
        """Whether the machine did nothing else when the measurement began."""
        return self.busy_share * logical_cores() < MAX_BUSY_CORES


def measure_bandwidth(llc_bytes: int | None, report: ReportPhase) -> BandwidthResult:
    """Measures for about three seconds. `report` gets a sentence at each step. Raises Conflict when there is too little
    memory.

    This runs in a process of its own, since it takes a buffer of 1 GiB and every core.
    """
    report(_("Checking that the machine is idle."))
    busy_share = _busy_share(IDLE_S)
    buffer_bytes = buffer_size(llc_bytes, available_ram_bytes())
    report(_("Filling {size} of memory.", size=format_bytes(buffer_bytes)))
    counts = thread_counts(physical_cores(), logical_cores())
    return run_benchmark(buffer_bytes, counts, report, busy_share=busy_share)


def buffer_size(llc_bytes: int | None, available_bytes: int) -> int:
    """The size in bytes of the larger of the two buffers, a power of two; half of it must be beyond the caches too.

    At most half of the available memory is taken. Raises Conflict when that is too little.
    """
    beyond_caches = MIN_CACHE_MULTIPLE * (llc_bytes or 0)
    size = _power_of_two(max(DEFAULT_BUFFER_BYTES, 2 * beyond_caches))
    minimum = _power_of_two(max(2 * MIN_BUFFER_BYTES, 2 * beyond_caches))
    while size > minimum and 2 * size > available_bytes:
        size //= 2
    if 2 * size > available_bytes:
        raise Conflict(
            _(
                "Measuring needs {needed} of free memory; this machine has {free}.",
                needed=format_bytes(2 * size),
                free=format_bytes(available_bytes),
            )
        )
    return size


def thread_counts(physical: int, logical: int) -> list[int]:
    """The numbers of threads to try on that many physical and logical cores.

    >>> thread_counts(8, 16), thread_counts(1, 1), thread_counts(64, 8)
    ([1, 4, 8, 16], [1], [1, 4, 8])
    """
    physical = min(physical, logical)
    return sorted({1, max(1, physical // 2), physical, logical})


def run_benchmark(
    buffer_bytes: int,
    counts: Sequence[int],
    report: ReportPhase,
    *,
    busy_share: float = 0.0,
    sample_s: float = SAMPLE_S,
) -> BandwidthResult:
    """Reads a buffer with each number of threads, then the whole and the half of it with the best.

    Samples take `sample_s` each; `busy_share` is passed on to the result.
    """
    matrix = _filled_matrix(buffer_bytes, max(counts))
    sweep = []
    for threads in counts:
        step = _sweep_step(matrix, threads, sample_s)
        sweep.append(step)
        report(
            _(
                "{threads}: {rate} GB/s.",
                threads=_thread_count_text(threads),
                rate=format_number(step.best_bytes_per_s / 1e9),
            )
        )
    best = max(sweep, key=lambda step: step.best_bytes_per_s)
    report(_("Reading with {threads}.", threads=_thread_count_text(best.threads)))
    whole, half = _readers(matrix, best.threads), _readers(matrix[: len(matrix) // 2], best.threads)
    rates = list(best.rates_bytes_per_s)
    half_rates = []
    for turn in range(FINAL_SAMPLES):  # in turns, so that what disturbs one disturbs both
        rates.append(_sample_rate(whole, sample_s))
        if turn % 2:
            half_rates.append(_sample_rate(half, sample_s))
    return BandwidthResult(
        best_bytes_per_s=max(rates),
        median_bytes_per_s=statistics.median(rates),
        threads=best.threads,
        samples=len(rates),
        buffer_bytes=matrix.nbytes,
        sweep=tuple(sweep),
        plateau_ratio=max(half_rates) / max(rates),
        busy_share=busy_share,
    )


def remarks(result: BandwidthResult) -> list[str]:
    """Sentences that say why the figure may be too low or too high; none for a sound measurement."""
    sentences = []
    if not result.was_idle:
        sentences.append(
            _(
                "The machine was not idle before the measurement ({share:.0f} % CPU load): other programs use "
                "bandwidth too, so measure again when they have finished.",
                share=100 * result.busy_share,
            )
        )
    if not result.is_stable:
        sentences.append(
            _("Unstable: the median is below 85 % of the best, so something else read memory at times; measure again.")
        )
    if result.plateau_ratio < 1 / PLATEAU_RATIO:
        sentences.append(
            _("Half of the buffer was read more slowly than all of it: something else read memory; measure again.")
        )
    if result.plateau_ratio > PLATEAU_RATIO:
        sentences.append(
            _(
                "Half of the buffer was read {ratio:.2g} times as fast as all of it: a cache larger than the "
                "system reports is involved, so the true bandwidth may be lower.",
                ratio=result.plateau_ratio,
            )
        )
    if result.buffer_bytes < RELIABLE_BUFFER_BYTES:
        sentences.append(_("Little memory was free, so only {size} was read.", size=format_bytes(result.buffer_bytes)))
    return sentences


def limit_blas_to_one_thread() -> None:
    """Limits numpy's BLAS to one thread. Must be called before numpy is first used: the library reads this once."""
    for library in _BLAS:
        os.environ[f"{library}_NUM_THREADS"] = "1"
    os.environ["VECLIB_MAXIMUM_THREADS"] = "1"


def _busy_share(seconds: float) -> float:
    """Returns the busy share of all cores. What the host of a virtual machine takes away counts as busy."""
    times = psutil.cpu_times_percent(interval=seconds)
    return min(1.0, max(0.0, (100 - times.idle - getattr(times, "iowait", 0.0)) / 100))


def _filled_matrix(buffer_bytes: int, threads: int) -> Floats32:
    """Returns a matrix with rows of COLUMNS float32. As many threads as will read it write it first: memory is placed
    near the thread that first writes it."""
    rows = max(2 * threads, buffer_bytes // (4 * COLUMNS))
    matrix = np.empty((rows, COLUMNS), dtype=np.float32)
    _in_threads([partial(part.fill, 1.0) for part in np.array_split(matrix, threads)])
    return matrix


def _sweep_step(matrix: Any, threads: int, sample_s: float) -> SweepStep:
    readers = _readers(matrix, threads)
    return SweepStep(threads, tuple(_sample_rate(readers, sample_s) for _ in range(SWEEP_SAMPLES)))


def _readers(matrix: Any, threads: int) -> list["_ReaderThread"]:
    return [_ReaderThread(part) for part in np.array_split(matrix, threads)]


def _sample_rate(readers: Sequence["_ReaderThread"], seconds: float) -> float:
    """Returns the bytes per second of all readers together; each reads for `seconds`, and all start at the same
    moment."""
    start = threading.Barrier(len(readers))
    rates = [0.0] * len(readers)

    def read(index: int) -> None:
        start.wait()
        rates[index] = readers[index].read(seconds)

    _in_threads([partial(read, index) for index in range(len(readers))])
    return sum(rates)


class _ReaderThread:
    """Reads its share of the matrix in one thread; each read continues where the last one stopped."""

    def __init__(self, rows: Any) -> None:
        self._chunks = [rows[first : first + CHUNK_ROWS] for first in range(0, len(rows), CHUNK_ROWS)]
        self._vector = np.ones(COLUMNS, dtype=np.float32)
        self._results = [np.empty(len(chunk), dtype=np.float32) for chunk in self._chunks]
        self._next = 0

    def read(self, seconds: float) -> float:
        """Reads for `seconds`; returns bytes per second."""
        bytes_read, started_s = 0, time.perf_counter()
        while True:
            index = self._next
            np.dot(self._chunks[index], self._vector, out=self._results[index])
            self._next = (index + 1) % len(self._chunks)
            bytes_read += self._chunks[index].nbytes
            elapsed = time.perf_counter() - started_s
            if elapsed >= seconds:
                return float(bytes_read / elapsed)


def _in_threads(tasks: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _power_of_two(n_bytes: int) -> int:
    """Returns the next power of two."""
    return 1 << math.ceil(math.log2(n_bytes))


def _thread_count_text(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
