"""How late the reading thread was: what the kernel says of its waits for a processor, read outside the timed loop."""

_ACCOUNT = "/proc/thread-self/schedstat"


def account() -> tuple[int, int] | None:
    """Nanoseconds that this thread was ready and had to wait, and how often it came to run; None where not told."""
    try:
        with open(_ACCOUNT, "rb") as file:  # noqa: PTH123  # in microseconds, which pathlib takes several of
            _, waited_ns, runs = file.read().split()
        return int(waited_ns), int(runs)
    except (OSError, ValueError):  # another system than Linux
        return None


def lag_ms(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """Mean wait after a wake-up in between.

    >>> lag_ms((1_000_000, 5), (7_000_000, 8)), lag_ms((5, 5), (5, 5)), lag_ms(None, (1, 1))
    (2.0, 0.0, None)
    """
    if before is None or after is None:
        return None
    return (after[0] - before[0]) / max(1, after[1] - before[1]) / 1e6
