"""Stopping: a signal may come at any moment, but must not tear a database write apart."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from app.core.errors import Cancelled
from app.core.i18n import _


class Stop:
    """Remembers that somebody wants to stop; interrupts only where the code says that it may be interrupted."""

    def __init__(self) -> None:
        self.requested = False
        self._may_interrupt = False

    def request(self) -> None:
        self.requested = True
        if self._may_interrupt:
            raise Cancelled(_("Cancelled."))

    def check(self) -> None:
        """Raises Cancelled when stopping was requested."""
        if self.requested:
            raise Cancelled(_("Cancelled."))

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside, a request raises Cancelled at once, even out of a blocking read."""
        self.check()
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM request a stop; only in the main thread."""

        def handle(_number: int, _frame: FrameType | None) -> None:
            self.request()

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
