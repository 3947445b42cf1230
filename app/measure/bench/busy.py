"""Whether other programs keep the server's machine busy: looked at before a run and, while nothing is timed, during it.

Between two rounds the server rests: what the processors do then is somebody else's work. While a round is played, it is
what neither the server's processes nor Roofmark's take; since work of the server may be hidden from us (in a
container, behind a proxy), only a difference between rounds of one workload counts.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from app.hardware.foreign_load import CpuMeter, CpuTimes, ForeignLoad, foreign_load
from app.measure.bench.stop import Stop
from app.metrics.sensors import BUSY_CPU_SHARE
from app.suites import Case

PAUSE_SAMPLE_S = 0.2
SECOND_SAMPLE_S = 0.5
"""What is high for a moment only is no disturbance."""
MIN_ROUND_S = 0.5
"""Of a shorter round, processor times are too coarse."""
DISTURBING_RISE = 0.2
"""Of all processors: so much more than at the calmest moment of the run is a disturbance."""

Workload = tuple[str, bool]
"""The key of a point, and whether its prompt is meant to be in the cache."""


class BusyCheck:
    """What one run sees of other programs."""

    def __init__(self, meter: CpuMeter) -> None:
        self.meter = meter
        self.before: ForeignLoad | None = None
        self.pauses: list[ForeignLoad] = []
        """Between rounds, before the first one and after the last one."""
        self.rounds: dict[Workload, list[float]] = defaultdict(list)
        self._began: tuple[CpuTimes, float] | None = None

    def look_before(self, stop: Stop) -> float | None:
        """What other programs take before the run; None where that cannot be known."""
        self.before = self._look(stop)
        return self.before.share if self.before else None

    def look_between(self, stop: Stop) -> None:
        if load := self._look(stop):
            self.pauses.append(load)

    def _look(self, stop: Stop) -> ForeignLoad | None:
        load = self._watched(PAUSE_SAMPLE_S, stop)
        if load is None or disturbance(self.before or load, [*self.pauses, load], {}) is None:
            return load
        again = self._watched(SECOND_SAMPLE_S, stop)
        return min(load, again, key=lambda each: each.share) if again else load

    def _watched(self, seconds: float, stop: Stop) -> ForeignLoad | None:
        before = self.meter.read()
        with stop.interruptible():
            time.sleep(seconds)
        return foreign_load(before, self.meter.read())

    def begin_round(self) -> None:
        self._began = self.meter.read(), time.monotonic()

    def end_round(self, case: Case, *, is_warmup: bool) -> None:
        """A warm-up may load a model: it is unlike the rounds that follow."""
        assert self._began is not None
        before, began_s = self._began
        self._began = None
        if is_warmup or time.monotonic() - began_s < MIN_ROUND_S:
            return
        load = foreign_load(before, self.meter.read())
        if load is not None and load.is_server_known:
            self.rounds[case.point.key, case.reuses_cache].append(load.share)

    def disturbance(self) -> float | None:
        return disturbance(self.before, self.pauses, self.rounds)


def disturbance(
    before: ForeignLoad | None, pauses: Sequence[ForeignLoad], rounds: Mapping[Workload, Sequence[float]]
) -> float | None:
    """The highest share of the processors that other programs took in a run that they disturbed; None if they did not.

    A pause counts when other programs are busy in it, or clearly busier than in the calmest one: a server whose
    processes are not known may spin while it rests, so of it only the latter counts.

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
    for of_workload in rounds.values():
        disturbed += [share for share in of_workload if share - min(of_workload) >= DISTURBING_RISE]
    return max(disturbed, default=None)
