"""What other programs take of the processors, and when that disturbs a run."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

import pytest

from app.hardware.foreign_load import CpuMeter, CpuTimes, ForeignLoad, foreign_load
from app.measure.interference import BusyCheck, disturbance
from app.measure.waiting import Stop
from app.suites import BUILT_IN

CASE = BUILT_IN["triple"].cases[0]
ROOFMARK, SERVER, CHILD = (1, 0.0), (2, 0.0), (3, 0.0)


def times(
    total_s: float,
    busy_s: float,
    by_process: Mapping[tuple[int, float], float],
    roots: Sequence[tuple[int, float]] = (SERVER,),
) -> CpuTimes:
    return CpuTimes(total_s, busy_s, by_process, frozenset(roots), is_server_known=bool(roots))


BEFORE = times(100, 40, {ROOFMARK: 1, SERVER: 10})


def test_the_work_of_the_server_and_of_roofmark_is_not_foreign() -> None:
    assert foreign_load(BEFORE, times(110, 50, {ROOFMARK: 2, SERVER: 18})) == ForeignLoad(0.1, True)


def test_a_process_that_the_server_started_meanwhile_is_its_own() -> None:
    assert foreign_load(BEFORE, times(110, 50, {ROOFMARK: 1, SERVER: 11, CHILD: 9})) == ForeignLoad(0, True)


@pytest.mark.parametrize(
    "after",
    [
        times(100, 40, {ROOFMARK: 1, SERVER: 10}),  # no time has passed
        times(110, 50, {ROOFMARK: 2}, ()),  # the server ended
        times(110, 50, {ROOFMARK: 2, CHILD: 8}, (CHILD,)),  # another one listens now
    ],
)
def test_what_cannot_be_told_apart_is_unknown(after: CpuTimes) -> None:
    assert foreign_load(BEFORE, after) is None


def test_the_end_of_a_child_leaves_its_time_to_its_parent_on_linux_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = times(100, 40, {ROOFMARK: 1, SERVER: 10, CHILD: 5})
    after = times(110, 50, {ROOFMARK: 1, SERVER: 25})
    monkeypatch.setattr("psutil.LINUX", True)
    assert foreign_load(before, after) == ForeignLoad(0, True)
    monkeypatch.setattr("psutil.LINUX", False)
    assert foreign_load(before, after) is None


def test_a_server_that_nobody_knows_is_said_to_be_unknown() -> None:
    before, after = times(100, 40, {ROOFMARK: 1}, ()), times(110, 45, {ROOFMARK: 1}, ())
    assert foreign_load(before, after) == ForeignLoad(0.5, False)


def foreign_loads(*shares: float) -> list[ForeignLoad]:
    return [ForeignLoad(share, True) for share in shares]


@pytest.mark.parametrize(
    ("pauses", "share"),
    [
        (foreign_loads(0.02, 0.1, 0.05), None),
        (foreign_loads(0.02, 0.4, 0.05), 0.4),
        (foreign_loads(0.55, 0.5, 0.6), 0.6),  # busy all along
        (foreign_loads(0.3, 0.35, 0.4), None),  # as before the run
        ([ForeignLoad(0.6, False)] * 3, None),  # a server may spin while it rests
        ([ForeignLoad(0.1, False), ForeignLoad(0.4, False)], 0.4),
        ([], None),
    ],
)
def test_a_pause_counts_when_it_is_busy_or_busier_than_the_calmest(
    pauses: Sequence[ForeignLoad], share: float | None
) -> None:
    assert disturbance(pauses[0] if pauses else None, pauses, {}) == share


def test_what_was_there_before_the_run_only_is_no_disturbance_during_it() -> None:
    (before,) = foreign_loads(0.9)
    assert disturbance(before, foreign_loads(0.05, 0.1), {}) is None


@pytest.mark.parametrize(("rounds", "share"), [([0.4, 0.4, 0.45], None), ([0.02, 0.03, 0.3], 0.3), ([0.9], None)])
def test_of_the_rounds_of_one_workload_only_their_difference_counts(
    rounds: Sequence[float], share: float | None
) -> None:
    """Work of the server that is hidden from us is in all of them, and another workload has another share of it."""
    hidden = {("8000/128/1/0", False): [0.8, 0.8]}
    assert disturbance(None, [], {**hidden, ("512/128/1/0", False): rounds}) == share


class Metered(CpuMeter):
    """Every reading comes two seconds of processor time after the last; `shares` of them are foreign."""

    def __init__(self, shares: Sequence[float]) -> None:
        super().__init__(None)
        self._shares, self._total_s, self._busy_s = iter(shares), 0.0, 0.0

    def read(self) -> CpuTimes:
        self._total_s += 2
        self._busy_s += 2 * next(self._shares)
        return times(self._total_s, self._busy_s, {SERVER: 0})


def test_a_moment_of_load_is_looked_at_twice() -> None:
    """Each look reads before and after: what lies before it does not count."""
    busy = BusyCheck(Metered([0, 0.0, 0, 0.6, 0, 0.1, 0, 0.6, 0, 0.4]))
    assert busy.measure_before(Stop()) == 0
    busy.measure_between(Stop())
    assert disturbance(busy.before, busy.pauses, busy.rounds) is None
    busy.measure_between(Stop())
    assert [load.share for load in busy.pauses] == pytest.approx([0.1, 0.4])
    assert disturbance(busy.before, busy.pauses, busy.rounds) == pytest.approx(0.4)


def test_warm_ups_and_short_rounds_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = BusyCheck(Metered([0, 0, 0.9, 0, 0.9]))
    busy.begin_round()
    busy.end_round(CASE, is_warmup=True)
    busy.begin_round()
    busy.end_round(CASE, is_warmup=False)
    assert not busy.rounds
    monkeypatch.setattr("app.measure.interference.MIN_ROUND_S", 0.0)
    busy.begin_round()
    busy.end_round(CASE, is_warmup=False)
    assert list(busy.rounds.values()) == [[pytest.approx(0.0)]]


LISTENER = """
import socket
with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    server.listen()
    print(server.getsockname()[1], flush=True)
    while True:
        pass
"""


@pytest.fixture
def spinning_server() -> Iterator[int]:
    """The port of a process that listens and keeps a processor busy."""
    with subprocess.Popen([sys.executable, "-c", LISTENER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def test_the_process_that_listens_on_a_port_is_the_server(spinning_server: int) -> None:
    before = CpuMeter(spinning_server).read()
    assert before.is_server_known
    (server,) = before.roots
    assert server in before.by_process
    assert not CpuMeter(None).read().is_server_known


def test_a_server_that_spins_is_not_foreign(spinning_server: int) -> None:
    """All of its time is taken off: what is left of the machine's is less by as much, whatever else runs here."""
    meter, everything = CpuMeter(spinning_server), CpuMeter(None)
    before, all_before = meter.read(), everything.read()
    BusyCheck(meter)._load_during(0.5, Stop())
    all_after, after = everything.read(), meter.read()
    listener_load, whole_load = foreign_load(before, after), foreign_load(all_before, all_after)
    assert listener_load is not None
    assert whole_load is not None
    assert listener_load.share < whole_load.share
