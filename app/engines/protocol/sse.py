"""Reading a streamed answer: a timed loop that does almost nothing, and a pure parser for what it collected.

The parser reads Server-Sent Events, and JSON lines among them, from any cutting of the same bytes.
"""

import gc
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from time import perf_counter_ns
from typing import NamedTuple

import httpcore
import httpx

from app.core.errors import Cancelled
from app.engines.http import StreamingAnswer
from app.engines.http.text import TextCleaner, parse_json
from app.engines.protocol.sched_delay import account, lag_ms

Row = tuple[int, bytes]
"""Arrival (`perf_counter_ns`) and bytes of one piece."""

DONE = b"[DONE]"
_DONE_LINE = re.compile(rb"(?<![^\r\n])data: ?\[DONE\][ \t]*(?:[\r\n]|$)")
_DONE_REACH = 32
_BOM = b"\xef\xbb\xbf"
# how long a server may take to end the response after its last line, so that the connection can be used again
_CLOSING_S = 0.25
# from this size on it is worth a look whether a stream holds far more tokens than were asked for
_LOOK_BYTES_PER_TOKEN = 128
_LOOK_BYTES_BESIDE = 16 * 1024


class Frame(NamedTuple):
    """One event of the stream."""

    at_ns: int
    """Arrival of the byte that completed its data."""
    data: bytes
    """Empty for a comment."""
    event: bytes = b""
    """The event's name, where the server gives one."""


class End(Enum):
    """Why reading stopped."""

    CLOSED = auto()
    """The response came to its end, or its last line had come."""
    LOST = auto()
    UNREADABLE = auto()
    """It is not compressed in the way that it says."""
    FIRST_TOKEN_TIMEOUT = auto()
    IDLE_TIMEOUT = auto()
    TOO_LARGE = auto()


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything that one response gave, not yet understood."""

    rows: Sequence[Row]
    end: End
    t0_ns: int
    end_ns: int
    connect_ms: float | None = None
    content_type: str = ""
    cleaner: TextCleaner = field(default_factory=TextCleaner)
    lag_ms: float | None = None
    """How long the reader had to wait for a processor after a wake-up, on average; None where the system hides it."""

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
) -> Recording:
    """Reads the body until it ends, breaks, pauses too long or grows too large: `Recording.end` says which.

    Only until the first token the bytes are parsed while they arrive. From then on a pause is bounded more tightly, and
    nothing but an event that `is_alive` ends it: the clock of a stream of keep-alives runs out.
    """
    rows: list[Row] = []
    answer.limit.end_at(answer.sent_ns + int(first_token_timeout_s * 1e9))
    idle_ns = int(idle_timeout_s * 1e9)
    is_waiting, parsed, size, active_ns, done_ns = True, 0, 0, 0, 0
    look_at_size = min(max_bytes, _LOOK_BYTES_BESIDE + _LOOK_BYTES_PER_TOKEN * max_tokens)
    end = End.CLOSED
    before = account()
    collects = gc.isenabled()
    gc.disable()  # a collection would keep the reader from the socket for milliseconds
    try:
        for piece in answer.pieces():
            now = answer.received_ns
            rows.append((now, piece))
            size += len(piece)
            # the last line is short: where it was cut, its rest is a short piece
            if not done_ns and (DONE in piece or len(piece) < _DONE_REACH) and _is_done(rows):
                done_ns = now
                answer.limit.end_in(_CLOSING_S)
            elif is_waiting:
                # an event is complete with its line, so that a piece without a line's end needs no look
                if (b"\n" in piece or b"\r" in piece) and any(map(is_token, frames(rows[parsed:]))):
                    is_waiting, active_ns = False, now
                    if not done_ns:
                        answer.limit.pause_at_most(idle_timeout_s)
                if piece.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
                    parsed = len(rows)
            elif now - active_ns > idle_ns:
                active_ns = _last_alive_ns(rows, is_alive, active_ns)
                if now - active_ns > idle_ns:
                    end = End.IDLE_TIMEOUT
                    break
            if size > look_at_size:
                if size > max_bytes or _are_more_tokens(rows, is_token, max_tokens):
                    end = End.TOO_LARGE
                    break
                look_at_size = min(max_bytes, 2 * size)
    except httpcore.ReadTimeout:
        end = End.FIRST_TOKEN_TIMEOUT if is_waiting else End.IDLE_TIMEOUT
    except (httpcore.NetworkError, httpcore.ProtocolError):
        end = End.LOST
    except httpx.DecodingError:
        end = End.UNREADABLE
    except Cancelled:  # whoever asked for that knows; what has come is worth keeping
        if not rows:
            raise
        end = End.LOST
    finally:
        if collects:
            gc.enable()
    stopped_ns = perf_counter_ns()
    if done_ns:
        end, stopped_ns = End.CLOSED, done_ns
    return Recording(
        rows,
        end,
        answer.sent_ns,
        stopped_ns,
        answer.connect_ms,
        answer.headers.get("content-type", ""),
        answer.cleaner,
        lag_ms(before, account()),
    )


def _last_alive_ns(rows: Sequence[Row], is_alive: Callable[[Frame], bool], since_ns: int) -> int:
    """When the last live event after `since_ns` came, else `since_ns`; looks from the end, where it mostly is."""
    reach = 1
    while True:
        alive = [frame.at_ns for frame in frames(rows[-reach:]) if is_alive(frame)]
        if alive:
            return max(since_ns, alive[-1])
        if reach >= len(rows) or rows[-reach][0] <= since_ns:
            return since_ns
        reach *= 2


def _are_more_tokens(rows: Sequence[Row], is_token: Callable[[Frame], bool], max_tokens: int) -> bool:
    """Whether there are more token events; counts lines first, which costs next to nothing."""
    lines = sum(piece.count(b"\n") + piece.count(b"\r") for _, piece in rows)
    return lines > max_tokens and sum(map(is_token, frames(rows))) > max_tokens


def _is_done(rows: Sequence[Row]) -> bool:
    tail = rows[-1][1]
    for _, piece in rows[-2 : -_DONE_REACH - 2 : -1]:
        if len(tail) - len(rows[-1][1]) >= _DONE_REACH:
            break
        tail = piece + tail
    return _DONE_LINE.search(tail) is not None


def frames(rows: Sequence[Row]) -> list[Frame]:
    """The events in `rows`. The same bytes give the same events however they were cut; no bytes are an error.

    A last line or event without its terminator counts as complete.
    """
    found: list[Frame] = []
    lines: list[tuple[int, bytes]] = []
    event = b""

    def dispatch() -> None:
        nonlocal event
        found.extend(_events(lines, event))
        lines.clear()
        event = b""

    for at_ns, line in _lines(rows):
        if not line:
            dispatch()
        elif line.startswith((b"{", b"[")):  # a JSON line by itself
            dispatch()
            found.append(Frame(at_ns, line))
        else:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                lines.append((at_ns, value))
            elif name == b"":
                found.append(Frame(at_ns, b""))
            elif name == b"event":
                event = value
                if event == b"error":  # which is one even without a word
                    lines.append((at_ns, b""))
            elif name == b"error":  # some servers put the error in a field of its own
                lines.append((at_ns, value))
                event = name
    dispatch()
    return found


def _lines(rows: Sequence[Row]) -> list[tuple[int, bytes]]:
    """Each line without its terminator (LF, CRLF or CR), and when it was complete."""
    found = []
    body = b"".join(data for _, data in rows)
    row = row_end = 0
    position = len(_BOM) if body.startswith(_BOM) else 0
    for line in body[position:].splitlines(keepends=True):
        position += len(line)
        complete = position - line.endswith(b"\r\n")
        while row_end < complete:
            row_end += len(rows[row][1])
            row += 1
        found.append((rows[row - 1][0], line.rstrip(b"\r\n")))
    return found


def _events(lines: Sequence[tuple[int, bytes]], event: bytes) -> list[Frame]:
    """The event of these data lines; or one each, from a server that ends its events with a single line break."""
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
    except ValueError:  # that is the answer
        return False
    return True
