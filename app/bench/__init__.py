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

from app.bench.busy import BusyCheck
from app.bench.checks import Limits, wait_until_ready
from app.bench.job import Job, Log, Prepared, exceeds_context, prepare, step
from app.bench.others import counters, work_of_others
from app.bench.play import play, verdict
from app.bench.progress import Phase, Taken
from app.bench.stop import Stop

__all__ = [
    "BusyCheck",
    "Job",
    "Limits",
    "Log",
    "Phase",
    "Prepared",
    "Stop",
    "Taken",
    "counters",
    "exceeds_context",
    "play",
    "prepare",
    "step",
    "verdict",
    "wait_until_ready",
    "work_of_others",
]
