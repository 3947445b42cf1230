"""Reading a streamed answer: a timed loop that does almost nothing, and a pure parser for what it collected.

The parser reads Server-Sent Events, and JSON lines among them; the same bytes give the same events however they arrive
in pieces.
"""

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from time import perf_counter_ns
from typing import NamedTuple

from app.core.errors import Cancelled
from app.engines.http import StreamingAnswer
from app.engines.http.problems import BodyError, BodyTimeout, BodyUndecodable
from app.engines.http.text import TextCleaner, parse_json

Row = tuple[int, bytes]
"""Arrival (`perf_counter_ns`) and bytes of one piece."""

DONE = b"[DONE]"
_DONE_LINE = re.compile(rb"(?<![^\r\n])data: ?\[DONE\][ \t]*(?:[\r\n]|$)")
_DONE_REACH = 32
_BOM = b"\xef\xbb\xbf"
# how long a server may take to end the response after its last line, so that the connection can be used again
_CLOSING_S = 0.25
# from this size on it is worth checking whether a stream has far more tokens than were asked for
_CHECK_BYTES_PER_TOKEN = 128
_CHECK_BYTES_BASE = 16 * 1024
_SCHEDULER_STATISTICS = "/proc/thread-self/schedstat"


class Frame(NamedTuple):
    """One event of the stream."""

    at_ns: int
    """Arrival of the byte that completed its data."""
    data: bytes
    """Empty for a comment."""
    event: bytes = b""
    """The event's name, where the server gives one."""
    comment: bytes = b""


class End(Enum):
    """Why reading stopped."""

    CLOSED = auto()
    """The response came to its end, or its last line had come."""
    LOST = auto()
    UNREADABLE = auto()
    """The body is not compressed in the way that its header says."""
    FIRST_TOKEN_TIMEOUT = auto()
    IDLE_TIMEOUT = auto()
    TOO_LARGE = auto()


@dataclass(frozen=True, slots=True)
class Recording:
    """The pieces of one response with their arrival times, before anything is parsed."""

    rows: Sequence[Row]
    end: End
    t0_ns: int
    end_ns: int
    connect_ms: float | None = None
    content_type: str = ""
    cleaner: TextCleaner = field(default_factory=TextCleaner)
    sched_delay_ms: float | None = None
    """Mean time that the reader waited for a processor after a wake-up; None where the system does not report it."""

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.rows)

    def ms(self, at_ns: int) -> float:
        """Milliseconds since t0."""
        return (at_ns - self.t0_ns) / 1e6


def record(
    answer: StreamingAnswer,
    is_token: Callable[[Frame], bool],
    is_alive: Callable[[Frame], bool],
    *,
    first_token_timeout_s: float,
    idle_timeout_s: float,
    max_tokens: int,
    max_bytes: int,
    on_start: Callable[[Sequence[Row]], None] | None = None,
) -> Recording:
    """Reads the body until it ends, breaks, pauses too long or grows too large: `Recording.end` says which.

    `on_start` gets, once, the list that the pieces are going to be put into: whoever wants to see them arrive looks at
    it from another thread, and the loop does nothing for that.

    Bytes are parsed while they arrive only until the first token. From then on pauses are limited more tightly, and
    only an event that `is_alive` ends a pause: a stream of keep-alives times out.
    """
    answer.limit.end_at(answer.sent_ns + int(first_token_timeout_s * 1e9))
    loop = _TimedLoop(answer, is_token, is_alive, idle_timeout_s, max_tokens, max_bytes)
    if on_start is not None:
        on_start(loop.rows)
    waits_before = _scheduler_waits()
    with _no_garbage_collection():
        end = loop.run()
    stopped_ns = perf_counter_ns()
    if loop.done_ns:
        end, stopped_ns = End.CLOSED, loop.done_ns
    return Recording(
        loop.rows,
        end,
        answer.sent_ns,
        stopped_ns,
        answer.connect_ms,
        answer.headers.get("content-type", ""),
        answer.cleaner,
        sched_delay_ms(waits_before, _scheduler_waits()),
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection would keep the reader from the socket for milliseconds."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()


class _TimedLoop:
    """Collects the pieces of one response until a limit is reached."""

    __slots__ = (
        "_active_ns",
        "_answer",
        "_check_at_size",
        "_idle_timeout_s",
        "_is_alive",
        "_is_token",
        "_is_waiting",
        "_max_bytes",
        "_max_tokens",
        "_parsed",
        "_size",
        "done_ns",
        "rows",
    )  # fmt: skip

    def __init__(
        self,
        answer: StreamingAnswer,
        is_token: Callable[[Frame], bool],
        is_alive: Callable[[Frame], bool],
        idle_timeout_s: float,
        max_tokens: int,
        max_bytes: int,
    ) -> None:
        self._answer, self._is_token, self._is_alive = answer, is_token, is_alive
        self._idle_timeout_s, self._max_tokens, self._max_bytes = idle_timeout_s, max_tokens, max_bytes
        self._check_at_size = min(max_bytes, _CHECK_BYTES_BASE + _CHECK_BYTES_PER_TOKEN * max_tokens)
        self._is_waiting, self._parsed, self._size, self._active_ns = True, 0, 0, 0
        self.rows: list[Row] = []
        self.done_ns = 0
        """Arrival of the line that ends the stream; 0 until it has come."""

    def run(self) -> End:
        """Reads until the response ends. Raises Cancelled before its first piece."""
        answer, add = self._answer, self._add
        try:
            for piece in answer.pieces():
                if (end := add(answer.received_ns, piece)) is not None:
                    return end
        except BodyTimeout:  # the recording says which timeout
            return End.FIRST_TOKEN_TIMEOUT if self._is_waiting else End.IDLE_TIMEOUT
        except BodyUndecodable:  # the recording says so
            return End.UNREADABLE
        except BodyError:  # the recording says that the stream broke
            return End.LOST
        except Cancelled:  # the caller knows; what has come is worth keeping
            if not self.rows:
                raise
            return End.LOST
        return End.CLOSED

    def _add(self, now: int, piece: bytes) -> End | None:
        """Stores a piece; says why to stop, where a limit is reached."""
        rows = self.rows
        rows.append((now, piece))
        self._size += len(piece)
        # the last line is short: where it was cut, its rest is a short piece
        if not self.done_ns and (DONE in piece or len(piece) < _DONE_REACH) and _is_done(rows):
            self.done_ns = now
            self._answer.limit.end_in(_CLOSING_S)
        elif self._is_waiting:
            self._look_for_token(now, piece)
        elif now - self._active_ns > self._idle_timeout_s * 1e9:
            self._active_ns = _last_alive_ns(rows, self._is_alive, self._active_ns)
            if now - self._active_ns > self._idle_timeout_s * 1e9:
                return End.IDLE_TIMEOUT
        if self._size > self._check_at_size:
            if self._size > self._max_bytes or _has_more_tokens(rows, self._is_token, self._max_tokens):
                return End.TOO_LARGE
            self._check_at_size = min(self._max_bytes, 2 * self._size)
        return None

    def _look_for_token(self, now: int, piece: bytes) -> None:
        """Ends the wait for the first token when the piece completes its event."""
        # an event is complete with its line, so that a piece without a line's end needs no parsing
        if (b"\n" in piece or b"\r" in piece) and any(map(self._is_token, frames(self.rows[self._parsed :]))):
            self._is_waiting, self._active_ns = False, now
            if not self.done_ns:
                self._answer.limit.pause_at_most(self._idle_timeout_s)
        if piece.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
            self._parsed = len(self.rows)


def _scheduler_waits() -> tuple[int, int] | None:
    """Nanoseconds that this thread was ready and waited for a processor, and how often it ran; None except on Linux."""
    try:
        with open(_SCHEDULER_STATISTICS, "rb") as file:  # noqa: PTH123  # takes microseconds, pathlib several of them
            _, waited_ns, runs = file.read().split()
        return int(waited_ns), int(runs)
    except (OSError, ValueError):  # another system than Linux
        return None


def sched_delay_ms(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """The mean wait for a processor per wake-up between two readings, in milliseconds.

    >>> sched_delay_ms((1_000_000, 5), (7_000_000, 8)), sched_delay_ms((5, 5), (5, 5)), sched_delay_ms(None, (1, 1))
    (2.0, 0.0, None)
    """
    if before is None or after is None:
        return None
    return (after[0] - before[0]) / max(1, after[1] - before[1]) / 1e6


def _last_alive_ns(rows: Sequence[Row], is_alive: Callable[[Frame], bool], since_ns: int) -> int:
    """Arrival of the last live event after `since_ns`, else `since_ns`; searches from the end, where it mostly is."""
    reach = 1
    while True:
        alive = [frame.at_ns for frame in frames(rows[-reach:]) if is_alive(frame)]
        if alive:
            return max(since_ns, alive[-1])
        if reach >= len(rows) or rows[-reach][0] <= since_ns:
            return since_ns
        reach *= 2


def _has_more_tokens(rows: Sequence[Row], is_token: Callable[[Frame], bool], max_tokens: int) -> bool:
    """Whether there are more than `max_tokens` token events; counts lines first, which costs next to nothing."""
    lines = sum(piece.count(b"\n") + piece.count(b"\r") for _, piece in rows)
    return lines > max_tokens and sum(map(is_token, frames(rows))) > max_tokens


def _is_done(rows: Sequence[Row]) -> bool:
    """Whether the last pieces hold the line that ends an OpenAI stream."""
    tail = rows[-1][1]
    for _, piece in rows[-2 : -_DONE_REACH - 2 : -1]:
        if len(tail) - len(rows[-1][1]) >= _DONE_REACH:
            break
        tail = piece + tail
    return _DONE_LINE.search(tail) is not None


def frames(rows: Sequence[Row]) -> list[Frame]:
    """The events in `rows`. The same bytes give the same events however they were cut, and none raise an error.

    A last line or event without its terminator counts as complete.
    """
    events: list[Frame] = []
    lines: list[tuple[int, bytes]] = []
    event = b""

    def dispatch() -> None:
        nonlocal event
        events.extend(_events(lines, event))
        lines.clear()
        event = b""

    for at_ns, line in _lines(rows):
        if not line:
            dispatch()
        elif line.startswith((b"{", b"[")):  # a JSON line by itself
            dispatch()
            events.append(Frame(at_ns, line))
        else:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                lines.append((at_ns, value))
            elif name == b"":
                events.append(Frame(at_ns, b"", comment=value))
            elif name == b"event":
                event = value
                if event == b"error":  # an error even without data
                    lines.append((at_ns, b""))
            elif name == b"error":  # some servers put the error in a field of its own
                lines.append((at_ns, value))
                event = name
    dispatch()
    return events


def _lines(rows: Sequence[Row]) -> list[tuple[int, bytes]]:
    """Each line without its terminator (LF, CRLF or CR), and when it was complete."""
    lines = []
    body = b"".join(data for _, data in rows)
    row = row_end = 0
    position = len(_BOM) if body.startswith(_BOM) else 0
    for line in body[position:].splitlines(keepends=True):
        position += len(line)
        complete = position - line.endswith(b"\r\n")
        while row_end < complete:
            row_end += len(rows[row][1])
            row += 1
        lines.append((rows[row - 1][0], line.rstrip(b"\r\n")))
    return lines


def _events(lines: Sequence[tuple[int, bytes]], event: bytes) -> list[Frame]:
    """The event of these data lines; or one event per line, of a server that ends events with a single line break."""
    lines = [line for line in lines if line[1].strip()] or (lines[-1:] if event == b"error" else [])
    if not lines:
        return []
    whole = Frame(lines[-1][0], b"\n".join(data for _, data in lines).strip(), event)
    if len(lines) > 1 and not _is_json(whole.data):
        return [Frame(at_ns, data.strip(), event) for at_ns, data in lines]
    return [whole]


def _is_json(data: bytes) -> bool:
    try:
        parse_json(data)
    except ValueError:  # several events in one frame, or garbage
        return False
    return True
