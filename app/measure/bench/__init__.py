"""Plays a suite through an engine: suite x engine -> samples. Knows no database.

job     what to measure, and what of it fits
checks  before each round: the server is there, loaded and idle
others  whether the server worked for somebody else
busy    whether other programs keep its machine busy
round   as many requests at once as a point asks for
load    how busy the server is meanwhile, asked by another process
pauses  whether this machine slept meanwhile
play    warm-ups and repetitions of every point
"""

from app.measure.bench.busy import BusyCheck
from app.measure.bench.checks import WaitLimits, wait_until_ready
from app.measure.bench.interference import foreign_work, read_counters
from app.measure.bench.job import Job, Log, Prepared, exceeds_context, prepare, step_label
from app.measure.bench.play import failure_reason, run_suite
from app.measure.bench.progress import Phase, SampleProgress
from app.measure.bench.stop import Stop

__all__ = [
    "BusyCheck",
    "Job",
    "Log",
    "Phase",
    "Prepared",
    "SampleProgress",
    "Stop",
    "WaitLimits",
    "exceeds_context",
    "failure_reason",
    "foreign_work",
    "prepare",
    "read_counters",
    "run_suite",
    "step_label",
    "wait_until_ready",
]
