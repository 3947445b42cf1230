"""Whether this machine slept meanwhile: its clocks that count sleep and those that do not then drift apart."""

import time


def suspended_seconds() -> float:
    """Seconds of sleep since the machine started; always 0 where the system has no such clock."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:
        return 0.0
    return time.clock_gettime(boottime) - time.clock_gettime(time.CLOCK_MONOTONIC)
