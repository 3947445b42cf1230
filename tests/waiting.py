import time
from collections.abc import Callable

PATIENCE_S = 300.0


def until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Waits for something that another process does; how long it takes is never asserted."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
