"""Detects what disturbs a run: other clients of the server, other programs on its machine, and a suspended machine.

Other clients show in the server's own counters. Other programs are looked for before a run and, while nothing is timed,
during it. Between two rounds the server rests: whatever the processors do then is other work. While a round is played,
it is what neither the server's processes nor Roofmark's take; since work of the server may be hidden (in a container,
behind a proxy), only a difference between rounds of one workload counts.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from app.core.errors import ServerError
from app.core.i18n import noun
from app.core.samples import CountSource, Status, Trace
from app.core.units import plural
from app.engines.base import Counters, Engine
from app.engines.http import ServerClient
from app.hardware.foreign_load import CpuMeter, CpuTimes, ForeignLoad, foreign_load
from app.measure.waiting import Stop
from app.metrics.sensors import BUSY_CPU_SHARE
from app.suites import Case

# --- other clients of the server -------------------------------------------------------------------------------------

MISCOUNT_TOKENS = 4
"""The tokens per request that a server may count in addition to its usage, such as a start token. No other client's
prompt is as short."""
GRACE_S = 0.1
"""How long a server may still work on what it has just answered."""
BUSY_CHECKS = 3


def read_counters(engine: Engine, client: ServerClient) -> Counters | None:
    """Returns the server's counters; None when it has none, or has just failed."""
    try:
        return engine.counters(client)
    except ServerError:  # its run fails by itself
        return None


def foreign_work(traces: Sequence[Trace], before: Counters | None, after: Counters | None) -> str | None:
    """Returns the work that the server did beyond that of `traces`: `3 requests`, `612 prompt tokens` or `200 output
    tokens`.

    Empty for none, None when it is unknown.
    """
    if before is None or after is None or any(trace.status is not Status.OK for trace in traces):
        return None
    if after.was_reset(before):
        return None
    if before.requests is not None and after.requests is not None:
        if after.requests < before.requests:
            return None
        excess_requests = round(after.requests - before.requests) - len(traces)
        return plural(excess_requests, "request") if excess_requests > 0 else ""
    # a prompt that the server finds in its cache may have next to no tokens to count, but not so its answer
    candidates = (_excess_prompt_tokens(traces, before, after), _excess_output_tokens(traces, before, after))
    excesses = [excess for excess in candidates if excess]
    if not excesses:
        return None
    return next((plural(tokens, kind) for tokens, kind in excesses if tokens > MISCOUNT_TOKENS * len(traces)), "")


def _excess_prompt_tokens(traces: Sequence[Trace], before: Counters, after: Counters) -> tuple[int, str] | None:
    """Returns the excess of fresh prompt tokens, with cached ones when the server counts those too."""
    tokens = [trace.prompt_tokens for trace in traces]
    start, end = before.prompt_tokens, after.prompt_tokens
    if before.cached_prompt_tokens is None or after.cached_prompt_tokens is None:
        tokens = [
            None if count is None else count - (trace.cached_tokens or 0)
            for count, trace in zip(tokens, traces, strict=True)
        ]
    elif start is not None and end is not None:
        start, end = start + before.cached_prompt_tokens, end + after.cached_prompt_tokens
    return _excess(tokens, start, end, noun("prompt token"))


def _excess_output_tokens(traces: Sequence[Trace], before: Counters, after: Counters) -> tuple[int, str] | None:
    tokens = [None if trace.count_source is CountSource.EVENTS else trace.output_tokens for trace in traces]
    return _excess(tokens, before.output_tokens, after.output_tokens, noun("output token"))


def _excess(tokens: Sequence[int | None], start: float | None, end: float | None, kind: str) -> tuple[int, str] | None:
    """Returns by how much the counter rose beyond `tokens`; None when either is unknown, or the counter rose by less:
    then the server counts something else."""
    if start is None or end is None or None in tokens:
        return None
    excess = round(end - start) - sum(count or 0 for count in tokens)
    return None if excess < -MISCOUNT_TOKENS * len(tokens) else (excess, kind)


def is_still_busy(engine: Engine, client: ServerClient) -> bool:
    """Whether the server goes on working after its answer: then it works for another client."""
    for check in range(BUSY_CHECKS):
        try:
            if not engine.health(client).busy:
                return False
        except ServerError:  # it has broken down, which the next request says
            return False
        if check < BUSY_CHECKS - 1:
            time.sleep(GRACE_S / (BUSY_CHECKS - 1))
    return True


# --- other programs on the server's machine --------------------------------------------------------------------------

PAUSE_SAMPLE_S = 0.2
SECOND_SAMPLE_S = 0.5
"""The pause before a second reading: a load that is high for a moment only is no disturbance."""
MIN_ROUND_S = 0.5
"""The shortest round whose processor times are precise enough."""
DISTURBING_RISE = 0.2
"""A share of all processors: a rise of more than this over the calmest moment of the run is a disturbance."""

WorkloadKey = tuple[str, bool]
"""The key of a point, and whether its prompt should be in the cache."""


class BusyCheck:
    """Measures the load of other programs during one run."""

    def __init__(self, meter: CpuMeter) -> None:
        self.meter = meter
        self.before: ForeignLoad | None = None
        self.pauses: list[ForeignLoad] = []
        """The load between rounds, before the first one and after the last one."""
        self.rounds: dict[WorkloadKey, list[float]] = defaultdict(list)
        self._round_start: tuple[CpuTimes, float] | None = None

    def measure_before(self, stop: Stop) -> float | None:
        """Returns the share of the processors that other programs take before the run; None when it is unknown."""
        self.before = self._measure_pause(stop)
        return self.before.share if self.before else None

    def measure_between(self, stop: Stop) -> None:
        """Measures the load of other programs while the server rests. Raises Cancelled."""
        if load := self._measure_pause(stop):
            self.pauses.append(load)

    def _measure_pause(self, stop: Stop) -> ForeignLoad | None:
        load = self._load_during(PAUSE_SAMPLE_S, stop)
        if load is None or disturbance(self.before or load, [*self.pauses, load], {}) is None:
            return load
        second_load = self._load_during(SECOND_SAMPLE_S, stop)
        return min(load, second_load, key=lambda load: load.share) if second_load else load

    def _load_during(self, seconds: float, stop: Stop) -> ForeignLoad | None:
        before = self.meter.read()
        stop.sleep(seconds)
        return foreign_load(before, self.meter.read())

    def begin_round(self) -> None:
        """Reads processor times before the requests of a round are sent."""
        self._round_start = self.meter.read(), time.monotonic()

    def end_round(self, case: Case, *, is_warmup: bool) -> None:
        """Stores the load of this round, unless it was a warm-up, which may load a model, unlike later rounds."""
        assert self._round_start is not None
        before, started_s = self._round_start
        self._round_start = None
        if is_warmup or time.monotonic() - started_s < MIN_ROUND_S:
            return
        load = foreign_load(before, self.meter.read())
        if load is not None and load.is_server_known:
            self.rounds[case.point.key, case.reuses_cache].append(load.share)


def disturbance(
    before: ForeignLoad | None, pauses: Sequence[ForeignLoad], rounds: Mapping[WorkloadKey, Sequence[float]]
) -> float | None:
    """Returns the highest share of the processors that other programs took in a run that they disturbed; None when they
    did not.

    A pause counts when other programs are busy in it, or clearly busier than in the calmest pause. When the server's
    processes are unknown, only the latter counts, since the server may spin while it rests.

    >>> calm, busy = ForeignLoad(0.03, True), ForeignLoad(0.48, True)
    >>> disturbance(calm, [calm, busy], {}), disturbance(calm, [calm, calm], {})
    (0.48, None)
    """
    calmest = min((load.share for load in [*pauses, *([before] if before else [])]), default=0.0)
    disturbed = [
        load.share
        for load in pauses
        if load.share - calmest >= DISTURBING_RISE or (load.is_server_known and load.share >= BUSY_CPU_SHARE)
    ]
    for shares in rounds.values():
        disturbed += [share for share in shares if share - min(shares) >= DISTURBING_RISE]
    return max(disturbed, default=None)


# --- a machine that was suspended ------------------------------------------------------------------------------------


def suspended_seconds() -> float:
    """Returns the seconds that this machine was suspended since it started; always 0 when the system has no such
    clock."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)  # counts them, unlike CLOCK_MONOTONIC
    if boottime is None:
        return 0.0
    return time.clock_gettime(boottime) - time.clock_gettime(time.CLOCK_MONOTONIC)
