"""A view of the answer that is arriving: a small file beside the worker's lock, for whoever watches the run.

The reader of the stream does nothing for it: no system call, no copy, no lock. Four times a second a thread of the
worker takes what has come since and appends it. It holds the interpreter for some ten microseconds each time, and
Linux states when data arrived at the socket however late it is read, so no figure can tell whether it ran. Decoding is
left to the process that shows the page. Nothing is lost with the file: samples are stored from the recording.

The file of a round is a line of JSON (`LiveRound`), then records: a line `STREAM NANOSECONDS EVENTS BYTES`, and so many
bytes of the body as they came. The next round replaces the file as a whole.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from app import engines
from app.core.samples import Workload
from app.engines.protocol.chat_engine import ChatEngine
from app.engines.protocol.live_text import LiveText
from app.engines.protocol.trace_builder import OPENAI_DIALECT

log = logging.getLogger(__name__)

INTERVAL_S = 0.25
NOTICE_S = 1.0
MAX_ROUND_BYTES = 1 << 20
"""Of a round's text: what comes after it is counted only."""
RATE_SPAN_NS = 3_000_000_000
"""The rate is that of so many last nanoseconds."""
MIN_RATE_MOMENTS = 4
"""However long ago they were: a slow stream has few in that time."""
MIN_RATE_SPAN_NS = 500_000_000
"""Over less, pieces that came together look like a burst."""

Rows = Sequence[tuple[int, bytes]]


@dataclass(frozen=True)
class LiveRound:
    """What a round asks for."""

    number: int
    engine: str
    """Key of the engine whose dialect the answer has."""
    prompt_tokens: int
    output_tokens: int
    """Of each stream."""
    streams: int
    is_warmup: bool
    sent_at: float
    """Seconds since the epoch."""


# --- the worker's side -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrived:
    """How many events of a round have come by a moment (`time.monotonic`): about as many as tokens."""

    round: int
    events: int
    at_s: float
    per_s: float | None = None
    """Since the notice before; None for the first one of a round."""

    def rate_since(self, before: "Arrived") -> float | None:
        """Events per second since an earlier moment of the same round; None where it was of another."""
        is_later = before.round == self.round and before.at_s < self.at_s
        return (self.events - before.events) / (self.at_s - before.at_s) if is_later else None


Notice = Callable[[Arrived], None]


@dataclass(eq=False)
class _Stream:
    rows: Rows
    written: int = 0
    events: int = 0


@dataclass(eq=False)
class _Round:
    about: LiveRound
    streams: list[_Stream] = field(default_factory=list)
    is_created: bool = False
    size_bytes: int = 0


class LiveWriter:
    """Writes what arrives while its block runs. A file that cannot be written is given up; measuring goes on."""

    def __init__(self, path: Path, notice: Notice | None = None) -> None:
        """`notice` is told once a second what has arrived, if there is more; on the thread that writes."""
        self._path = path
        self._notice, self._noticed = notice, Arrived(0, 0, time.monotonic())
        self._file: IO[bytes] | None = None
        self._round: _Round | None = None
        self._numbers = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="roofmark-live", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)

    def begin_round(self, engine: str, point: Workload, *, is_warmup: bool) -> None:
        """Announces the next requests, of an engine by its key. Writes nothing yet."""
        self._numbers += 1
        lengths = point.prompt_tokens, point.output_tokens, point.concurrency
        self._round = _Round(LiveRound(self._numbers, engine, *lengths, is_warmup, time.time()))

    def add_stream(self, rows: Rows) -> None:
        """Follows a body that is about to arrive, in the list that its reader puts the pieces into."""
        if self._round is not None:
            self._round.streams.append(_Stream(rows))

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL_S):
            if (current := self._round) is None:
                continue
            try:
                self._append(current)
            except OSError:  # a full disk: the run matters, the view of it does not
                log.warning("what is arriving cannot be shown", exc_info=True)
                return
            self._tell(
                Arrived(current.about.number, sum(stream.events for stream in current.streams), time.monotonic())
            )

    def _tell(self, arrived: "Arrived") -> None:
        before = self._noticed
        is_news = arrived.events and (arrived.round, arrived.events) != (before.round, before.events)
        if not is_news or arrived.at_s - before.at_s < NOTICE_S:
            return
        self._noticed = arrived
        if self._notice is not None:
            self._notice(replace(arrived, per_s=arrived.rate_since(before)))

    def _append(self, current: _Round) -> None:
        if not current.is_created:
            self._create(current)
        records = b"".join(
            _record(current, index, stream)
            for index, stream in enumerate(tuple(current.streams))
            if len(stream.rows) > stream.written
        )
        if records and self._file is not None:
            self._file.write(records)

    def _create(self, current: _Round) -> None:
        if self._file is not None:
            self._file.close()
        new_path = self._path.with_suffix(".live-new")
        new_path.unlink(missing_ok=True)
        self._file = os.fdopen(os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        self._file.write(json.dumps(asdict(current.about)).encode() + b"\n")
        new_path.replace(self._path)
        current.is_created = True


def _record(current: _Round, index: int, stream: _Stream) -> bytes:
    """What has come of a stream since the last time; the text of the first one only."""
    rows, start = stream.rows, stream.written
    stream.written = end = len(rows)
    body = b"".join([piece for _, piece in rows[start:end]])
    events = body.count(b"data:") or body.count(b"\n")
    stream.events += events
    if index == 0:
        current.size_bytes += len(body)
    if index or current.size_bytes > MAX_ROUND_BYTES:
        body = b""
    return b"%d %d %d %d\n%b" % (index, rows[end - 1][0], events, len(body), body)


# --- the watcher's side ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiveState:
    """What has arrived of a round. Tokens are those of all streams, counted by events where the server states none."""

    about: LiveRound
    tokens: int
    tokens_per_s: float | None
    """Of the last seconds; None before there are two moments to compare."""
    text: str
    """What the first stream's answer has gained since the last look; all of it at the first look at a round."""
    is_new_round: bool
    waited_s: float
    """Since the requests were announced."""


class LiveReader:
    """Reads what a worker writes of its run, as often as it is asked; each watcher has one of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._about: LiveRound | None = None
        self._position = 0
        self._text = LiveText()
        self._tokens: dict[int, int] = {}
        self._moments: list[tuple[int, int]] = []
        """Arrival in nanoseconds, and the tokens of all streams then."""

    def look(self) -> LiveState | None:
        """Returns what has arrived, None where no round has begun or the run has ended."""
        try:
            with self._path.open("rb") as file:
                about = LiveRound(**json.loads(file.readline()))
                is_new_round = about != self._about
                if is_new_round:
                    self._begin(about, file.tell())
                file.seek(self._position)
                text = self._read(file)
        except (OSError, ValueError, TypeError):  # there is no file, or not yet a whole one: nothing to see
            return None
        waited_s = max(0.0, time.time() - about.sent_at)
        return LiveState(about, sum(self._tokens.values()), self._rate(), text, is_new_round, waited_s)

    def _begin(self, about: LiveRound, position: int) -> None:
        engine = engines.get(about.engine)
        self._about, self._position = about, position
        self._text = LiveText(engine.dialect if isinstance(engine, ChatEngine) else OPENAI_DIALECT)
        self._tokens, self._moments = {}, []

    def _read(self, file: IO[bytes]) -> str:
        texts = []
        while (line := file.readline()).endswith(b"\n"):
            stream, at_ns, events, size = map(int, line.split())
            body = file.read(size)
            if len(body) < size:  # it is being written: the next look reads the record
                break
            self._position = file.tell()
            if body:
                texts.append(self._text.feed(body))
                self._tokens[stream] = self._text.tokens
            else:
                self._tokens[stream] = self._tokens.get(stream, 0) + events
            self._moments.append((at_ns, sum(self._tokens.values())))
        return "".join(texts)

    def _rate(self) -> float | None:
        """Tokens per second, from the arrival times of the last seconds."""
        if not self._moments:
            return None
        end_ns = max(at_ns for at_ns, _ in self._moments)
        recent = [moment for moment in self._moments if moment[0] >= end_ns - RATE_SPAN_NS]
        self._moments = recent if len(recent) >= MIN_RATE_MOMENTS else self._moments[-MIN_RATE_MOMENTS:]
        (start_ns, start), (stop_ns, stop) = self._moments[0], self._moments[-1]
        span_ns = stop_ns - start_ns
        return (stop - start) / span_ns * 1e9 if span_ns >= MIN_RATE_SPAN_NS else None
