"""From the recording of a streamed answer to its `Trace`, by a pure function.

All of it reads OpenAI's chunks; the `Dialect` of an engine whose chunks differ translates them first.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.i18n import _, ngettext
from app.core.samples import TOKEN_KINDS, CacheDefeat, Event, Kind, ServerFigures, Status, Trace
from app.engines.http.problems import HTML_PAGE
from app.engines.http.text import TextCleaner, is_html, parse_json
from app.engines.protocol import openai_chunk
from app.engines.protocol.answers import count, mapping
from app.engines.protocol.chatter import Origin, chatter_in, origin_of
from app.engines.protocol.openai_chunk import first_choice
from app.engines.protocol.server_timings import ReportedUsage, llamacpp_timings
from app.engines.protocol.sse import DONE, End, Frame, Recording, frames
from app.engines.protocol.think_tags import answer_span

_JSON_STARTS = (b"{", b"[")
_COUNTS = frozenset({"usage", "timings"})
_JSON_LINES = ("ndjson", "jsonl", "json-seq")


@dataclass(frozen=True)
class Dialect:
    """How to read an engine's own stream; the defaults read OpenAI's, with llama.cpp's `timings`."""

    chunk: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda value: value
    """One JSON object of the stream as OpenAI would have sent it; errors stay as they are."""
    figures: Callable[[ReportedUsage], ServerFigures | None] = llamacpp_timings
    """The server's own counts and durations, from the objects in its chunks; None where it reports none."""
    comment: Callable[[bytes], Mapping[str, Mapping[str, Any]]] = lambda _: {}
    """The objects in a comment of the stream, each with the name under which `figures` gets it."""
    is_named: bool = False
    """Each chunk of an answer is known to have an `id` or a `model`: text without either is a gateway's own."""


OPENAI_DIALECT = Dialect()


def is_token(frame: Frame, dialect: Dialect = OPENAI_DIALECT) -> bool:
    """Whether an event carries token text."""
    value = _parsed(frame.data)
    if not isinstance(value, dict):
        return False
    chunk = dialect.chunk(value)
    return openai_chunk.has_token(chunk) and (not dialect.is_named or origin_of(chunk, has_token=True).is_named)


def is_alive(frame: Frame, dialect: Dialect = OPENAI_DIALECT) -> bool:
    """Whether an event shows that the server works on the answer; any other only keeps the connection open."""
    value = _parsed(frame.data)
    return frame.data == DONE or (isinstance(value, dict) and openai_chunk.is_answer(dialect.chunk(value)))


def read_trace(
    recording: Recording,
    learned_capabilities: Mapping[str, Any],
    cache_defeat: CacheDefeat = CacheDefeat.NONE,
    dialect: Dialect = OPENAI_DIALECT,
) -> Trace:
    """The trace of a response with a status of success."""
    reader = _Reader(recording.cleaner, dialect)
    body = recording.body
    if (whole := _whole(recording, dialect)) is not None:
        reader.read_whole(whole)
    elif not is_html(recording.content_type, body):
        for frame in frames(recording.rows):
            reader.read(frame, recording.ms(frame.at_ns))
            if frame.data == DONE:
                break
    reader.retract_chatter()
    status, error = _verdict(recording, reader)
    events, answer = reader.events_and_answer()
    usage = ReportedUsage(reader.objects, cache_defeat, recording.cleaner, reader.tokens, _reasoning_share(events))
    output_tokens, count_source = usage.output
    text = answer.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return Trace(
        status=status,
        events=events,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=output_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        count_source=count_source,
        finish_reason=recording.cleaner.clean(reader.finish_reason),
        model=recording.cleaner.clean(reader.model),
        cache_defeat=cache_defeat,
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        end_ms=recording.ms(recording.end_ns),
        sent_ns=recording.t0_ns,
        connect_ms=recording.connect_ms,
        sched_delay_ms=recording.sched_delay_ms,
        not_streamed=reader.not_streamed,
        server=dialect.figures(usage),
        error=error,
        learned_capabilities=dict(learned_capabilities),
    )


class _Reader:
    """Collects the events of one answer, in order."""

    def __init__(self, cleaner: TextCleaner, dialect: Dialect) -> None:
        self.cleaner = cleaner
        self.dialect = dialect
        self.events: list[Event] = []
        self.texts: list[tuple[int | None, str]] = []
        """Pieces of the answer's text, each with the index of its event; None for an answer in one piece."""
        self.origins: list[tuple[int | None, Origin]] = []
        """What each chunk bears, with the index of its event as in `texts`."""
        self.objects: dict[str, Mapping[str, Any]] = {}
        """What came beside the text, by the server's names: usage, timings and others; of each name the last one."""
        self.finish_reason: str | None = None
        self.model: str | None = None
        self.error: str | None = None
        self.has_answer = False
        """An answer, or a part of one, has come."""
        self.has_stray = False
        """JSON has come that is neither a part of an answer nor an error."""
        self.has_garbage = False
        self.has_broken_json = False
        self.has_end = False
        self.not_streamed = False

    @property
    def tokens(self) -> int:
        return sum(event.kind in TOKEN_KINDS for event in self.events)

    @property
    def is_complete(self) -> bool:
        """Nothing that matters can be missing, however the connection ended."""
        return self.has_end and self.finish_reason is not None and not self.objects.keys().isdisjoint(_COUNTS)

    def events_and_answer(self) -> tuple[tuple[Event, ...], str]:
        """The events and the answer's text, where thinking within that text counts as reasoning."""
        events, text = list(self.events), "".join(text for _, text in self.texts)
        (start, answer_end), end = answer_span(text), 0
        for index, piece in self.texts:
            end += len(piece)
            if index is not None and events[index].kind is Kind.ANSWER and end <= start:
                events[index] = events[index]._replace(kind=Kind.REASONING)
        return tuple(events), text[start:answer_end]

    def retract_chatter(self) -> None:
        """Makes comments of events with text that is not the model's; once all has come, for a name may come late."""
        places = chatter_in([origin for _, origin in self.origins], is_named=self.dialect.is_named)
        chatter = {index for index in (self.origins[place][0] for place in places) if index is not None}
        for index in chatter:
            self.events[index] = Event(self.events[index].at_ms, Kind.COMMENT)
        self.texts = [(index, text) for index, text in self.texts if index not in chatter]
        if chatter:
            names = [origin.model for place, (_, origin) in enumerate(self.origins) if place not in places]
            self.model = next(filter(None, reversed(names)), None)

    def read(self, frame: Frame, at_ms: float) -> None:
        if frame.event == b"error":
            self._add_error(frame.data.decode("utf-8", "replace"), at_ms)
        elif not frame.data:
            self.objects.update(self.dialect.comment(frame.comment))
            self.events.append(Event(at_ms, Kind.COMMENT))
        elif frame.data == DONE:
            self.has_end = True
            self.events.append(Event(at_ms, Kind.DONE))
        else:
            try:
                value = parse_json(frame.data)
            except ValueError:  # counted as garbage, and the trace says so
                self.has_garbage = True
                self.has_broken_json |= frame.data.startswith(_JSON_STARTS)
                self.events.append(Event(at_ms, Kind.ERROR))
                return
            if isinstance(value, dict):
                value = self.dialect.chunk(value)
            if openai_chunk.is_error(value):
                self._add_error(value, at_ms)
            elif "message" in first_choice(mapping(value)) and mapping(value).get("object") == "chat.completion":
                self.read_whole(value)
            else:
                self._add_chunk(mapping(value), at_ms)

    def _add_error(self, value: Any, at_ms: float) -> None:
        self.error = self.error or self._message(value)
        self.events.append(Event(at_ms, Kind.ERROR))

    def _message(self, value: Any) -> str:
        fault = openai_chunk.fault_of(mapping(value))
        return self.cleaner.message(value) or self.cleaner.message(fault) or _("no message was given")

    def read_whole(self, value: Any) -> None:
        """Reads an answer in one piece: its text and counts are valid, but it is no token event."""
        if openai_chunk.is_error(value):
            self.error = self._message(value)
        elif openai_chunk.is_answer(value):
            self.texts.append((None, openai_chunk.Texts(value).answer))
            self.origins.append((None, origin_of(value, has_token=True)))
            self._read_figures(value)
            self.has_answer = self.not_streamed = self.has_end = True
        else:
            self.has_stray = True

    def _add_chunk(self, chunk: Mapping[str, Any], at_ms: float) -> None:
        texts = openai_chunk.Texts(chunk)
        output_tokens, is_finish = self._read_figures(chunk)
        kind = texts.kind
        if kind is Kind.EMPTY:
            if is_finish:
                kind = Kind.FINISH
            elif mapping(first_choice(chunk).get("delta")).get("role"):
                kind = Kind.ROLE
            elif "prompt_progress" in chunk:
                kind = Kind.PROGRESS
            elif output_tokens is not None:
                kind = Kind.USAGE
        if is_finish or kind is Kind.USAGE:
            self.has_end = True
        elif kind in TOKEN_KINDS:
            # a count before this token was a running total, not the end
            self.has_end = False
        if "delta" in first_choice(chunk) or kind is not Kind.EMPTY:
            self.has_answer = True
        else:
            self.has_stray = True
        self.texts.append((len(self.events), texts.answer))
        self.origins.append((len(self.events), origin_of(chunk, has_token=kind in TOKEN_KINDS)))
        self.events.append(Event(at_ms, kind, texts.size_bytes, output_tokens))

    def _read_figures(self, chunk: Mapping[str, Any]) -> tuple[int | None, bool]:
        """Keeps usage, timings, finish reason and model, of each the last one.

        Returns the output tokens counted so far, None where the chunk has no count, and whether it ends the answer.
        """
        output_tokens = None
        self.objects.update({key: v for key, v in chunk.items() if key not in _COUNTS and isinstance(v, dict) and v})
        if timings := openai_chunk.timings_of(chunk):
            self.objects["timings"] = timings
            output_tokens = count(timings.get("predicted_n"))
        if usage := openai_chunk.usage_of(chunk):
            self.objects["usage"] = usage
            output_tokens = count(usage.get("completion_tokens"))
        if isinstance(model := chunk.get("model"), str) and model:
            self.model = model
        reason = openai_chunk.finish_reason(chunk)
        self.finish_reason = reason or self.finish_reason
        return output_tokens, reason is not None or chunk.get("done") is True


def _reasoning_share(events: Sequence[Event]) -> float:
    """Reasoning's share of 1 of the visible token text, in bytes."""
    sizes = [event.size_bytes for event in events if event.kind is Kind.REASONING]
    return sum(sizes) / (sum(event.size_bytes for event in events) or 1)


def _verdict(recording: Recording, reader: _Reader) -> tuple[Status, str | None]:
    """How the answer ended, and one sentence where that is not well."""
    tokens = reader.tokens
    broken = Status.INCOMPLETE if tokens else Status.FAILED
    when = _("before the first token")
    if tokens:
        when = ngettext("after {n} token event", "after {n} token events", tokens)
    if reader.error is not None:
        return broken, _("The server reported an error {when}: {words}.", when=when, words=reader.error.rstrip("."))
    if openai_chunk.is_broken_off(reader.finish_reason):
        return broken, _(
            "The server broke the answer off {when} and gave no other reason than `{reason}`.",
            when=when,
            reason=reader.finish_reason,
        )
    if recording.end is End.TOO_LARGE or (recording.end is not End.CLOSED and not reader.is_complete):
        sentences = {
            End.LOST: _("The connection was lost {when}.", when=when),
            End.UNREADABLE: _("What came {when} is not compressed in the way that the server says.", when=when),
            End.FIRST_TOKEN_TIMEOUT: _("No token came within the time allowed for the first one."),
            End.IDLE_TIMEOUT: _("The stream stood still for too long {when}.", when=when),
            End.TOO_LARGE: _("The server sent far more than was asked for, so reading was stopped."),
        }
        return broken, sentences[recording.end]
    if is_html(recording.content_type, recording.body):
        return Status.FAILED, _(HTML_PAGE)
    # plain words may be a proxy's keep-alive, but broken JSON is a missing part of the answer
    is_harmless = reader.is_complete or (reader.has_answer and reader.has_end and not reader.has_broken_json)
    if reader.has_garbage and not is_harmless:
        return broken, _("The stream holds an event that is not JSON.")
    if reader.has_stray and not reader.has_answer:
        return Status.FAILED, _("The server sent JSON that holds no answer.")
    if not reader.events and not reader.not_streamed:
        if recording.body.strip():
            return Status.FAILED, _("The answer is neither an event stream nor JSON.")
        return Status.FAILED, _("The server sent an empty answer.")
    if not reader.has_end:
        return broken, _("The stream ended {when} and without a finish reason, usage or last line.", when=when)
    return Status.OK, None


def _whole(recording: Recording, dialect: Dialect) -> Any:
    """The JSON object or list that is the whole body; None for a stream."""
    body = recording.body
    if any(name in recording.content_type for name in _JSON_LINES):
        return None
    if not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_JSON_STARTS):
        return None
    value = _parsed(body)
    if not isinstance(value, dict):
        return value
    chunk = dialect.chunk(value)
    return None if "delta" in first_choice(chunk) else chunk


def _parsed(data: bytes) -> Any:
    """The JSON value of the data; None for what is not JSON."""
    try:
        return parse_json(data)
    except ValueError:  # the caller counts it as garbage
        return None
