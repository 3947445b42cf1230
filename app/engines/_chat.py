"""The answer of an OpenAI-style endpoint as a `Trace`: a pure function of a recording."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from app.engines._stream import DONE, End, Frame, Recording, frames
from app.http.problems import HTML_PAGE, error_message, is_html, load_json
from app.samples import TOKEN_KINDS, CountSource, Event, Kind, ServerFigures, Status, Trace

_ANSWER_FIELDS = ("content", "text", "response")
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")


def is_token(frame: Frame) -> bool:
    """Whether this event carries token text."""
    chunk = _object(frame.data)
    return chunk is not None and _Texts(chunk).kind in TOKEN_KINDS


def read_trace(recording: Recording, learned: Mapping[str, Any]) -> Trace:
    """What a response with status 200 says."""
    reader = _Reader()
    body = recording.body
    if (whole := _whole(body)) is not None:
        reader.take_whole(whole)
    elif not is_html(recording.content_type, body):
        for frame in frames(recording.rows):
            reader.take(frame, recording.ms(frame.at_ns))
    status, error = _verdict(recording, reader)
    usage, timings = reader.usage, reader.timings
    output_tokens, count_source = _output_tokens(reader)
    text = "".join(reader.answer).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return Trace(
        status=status,
        events=tuple(reader.events),
        prompt_tokens=_first(
            count(usage.get("prompt_tokens")), _sum(count(timings.get("prompt_n")), count(timings.get("cache_n")))
        ),
        cached_tokens=_first(
            count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
            count(usage.get("cached_tokens")),
            count(timings.get("cache_n")),
        ),
        output_tokens=output_tokens,
        count_source=count_source,
        finish_reason=reader.finish_reason,
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        text_chars=len(text),
        headers_ms=recording.ms(recording.headers_ns),
        end_ms=recording.ms(recording.end_ns),
        connect_ms=recording.connect_ms,
        reads=len({at_ns for at_ns, _ in recording.rows}),
        not_streamed=reader.not_streamed,
        server=_figures(timings) if timings else None,
        error=error,
        learned=dict(learned),
    )


class _Texts:
    """Token text of one chunk, and what kind of event that makes it."""

    __slots__ = ("answer", "chars", "kind")

    def __init__(self, chunk: Mapping[str, Any]) -> None:
        choice = _first_choice(chunk)
        source = choice or chunk
        for key in ("delta", "message"):
            if isinstance(source.get(key), dict):
                source = source[key]
                break
        self.answer = next(filter(None, (_text(source.get(key)) for key in _ANSWER_FIELDS)), "")
        reasoning = next(filter(None, (_text(source.get(key)) for key in _REASONING_FIELDS)), "")
        tool = _tool_text(source.get("tool_calls"))
        self.chars = len(self.answer) + len(reasoning) + len(tool)
        self.kind = Kind.ANSWER if self.answer else Kind.REASONING if reasoning else Kind.TOOL if tool else Kind.EMPTY


class _Reader:
    """Takes the events of one answer, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.answer: list[str] = []
        self.usage: Mapping[str, Any] = {}
        self.timings: Mapping[str, Any] = {}
        self.finish_reason: str | None = None
        self.error: str | None = None
        self.has_garbage = False
        self.has_end = False
        self.not_streamed = False

    @property
    def tokens(self) -> int:
        return sum(event.kind in TOKEN_KINDS for event in self.events)

    def take(self, frame: Frame, at_ms: float) -> None:
        if not frame.data:
            self.events.append(Event(at_ms, Kind.COMMENT))
        elif frame.data == DONE:
            self.has_end = True
            self.events.append(Event(at_ms, Kind.DONE))
        elif frame.event == b"error":
            self._take_error(error_message(frame.data.decode("utf-8", "replace")), at_ms)
        elif (chunk := _object(frame.data)) is None:
            self.has_garbage = True
            self.events.append(Event(at_ms, Kind.ERROR))
        elif _is_error(chunk):
            self._take_error(error_message(chunk), at_ms)
        elif chunk.get("object") == "chat.completion":
            self.take_whole(chunk)
        else:
            self._take_chunk(chunk, at_ms)

    def _take_error(self, message: str | None, at_ms: float) -> None:
        self.error = self.error or message or "no message was given"
        self.events.append(Event(at_ms, Kind.ERROR))

    def take_whole(self, body: Mapping[str, Any]) -> None:
        """An answer in one piece: its text and counts hold, but it is no token event."""
        if _is_error(body):
            self.error = error_message(body) or "no message was given"
            return
        self.answer.append(_Texts(body).answer)
        self._take_figures(body)
        self.not_streamed = self.has_end = True

    def _take_chunk(self, chunk: Mapping[str, Any], at_ms: float) -> None:
        texts = _Texts(chunk)
        stated, is_finish = self._take_figures(chunk)
        kind = texts.kind
        if kind is Kind.EMPTY:
            if is_finish:
                kind = Kind.FINISH
            elif _mapping(_first_choice(chunk).get("delta")).get("role"):
                kind = Kind.ROLE
            elif "prompt_progress" in chunk:
                kind = Kind.PROGRESS
            elif stated is not None:
                kind = Kind.USAGE
        if is_finish or kind is Kind.USAGE:
            self.has_end = True
        elif kind in TOKEN_KINDS:
            # what was stated before this token was a running total, not the end
            self.has_end = False
        self.answer.append(texts.answer)
        self.events.append(Event(at_ms, kind, texts.chars, stated))

    def _take_figures(self, chunk: Mapping[str, Any]) -> tuple[int | None, bool]:
        """Keeps usage, timings and finish reason: the last ones count.

        Gives the output tokens stated so far, and whether a finish reason came.
        """
        stated = None
        usage, timings = _mapping(chunk.get("usage")), _mapping(chunk.get("timings"))
        if timings:
            self.timings = timings
            stated = count(timings.get("predicted_n"))
        # a usage of zeros only is a placeholder
        if count(usage.get("prompt_tokens")) or count(usage.get("completion_tokens")):
            self.usage = usage
            stated = count(usage.get("completion_tokens"))
        reason = _first_choice(chunk).get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
            return stated, True
        return stated, False


def _verdict(recording: Recording, reader: _Reader) -> tuple[Status, str | None]:
    """How the answer ended, and what to say about it."""
    tokens = reader.tokens
    broken = Status.INCOMPLETE if tokens else Status.FAILED
    when = f"after {tokens} token event{'s' * (tokens != 1)}" if tokens else "before the first token"
    if reader.error is not None:
        return broken, f"The server reported an error {when}: {reader.error.rstrip('.')}."
    if recording.end is not End.CLOSED:
        sentences = {
            End.LOST: f"The connection was lost {when}.",
            End.FIRST_TOKEN_TIMEOUT: "No token came within the time allowed for the first one.",
            End.IDLE_TIMEOUT: f"The stream stood still for too long {when}.",
            End.TOO_LARGE: "The server sent far more than was asked for, so reading was stopped.",
        }
        return broken, sentences[recording.end]
    if is_html(recording.content_type, recording.body):
        return Status.FAILED, HTML_PAGE
    if reader.has_garbage:
        return broken, "The stream holds an event that is not JSON."
    if not reader.events and not reader.not_streamed:
        if recording.body.strip():
            return Status.FAILED, "The answer is neither an event stream nor JSON."
        return Status.FAILED, "The server sent an empty answer."
    if not reader.has_end:
        return broken, f"The stream ended {when} and without a finish reason, usage or last line."
    return Status.OK, None


def _output_tokens(reader: _Reader) -> tuple[int | None, CountSource | None]:
    seen = reader.tokens
    for value, source in (
        (reader.usage.get("completion_tokens"), CountSource.USAGE),
        (reader.timings.get("predicted_n"), CountSource.TIMINGS),
    ):
        stated = count(value)
        # zero tokens beside token text: the server did not count them
        if stated or (stated == 0 and not seen):
            return stated, source
    return (seen, CountSource.EVENTS) if seen else (None, None)


def _figures(timings: Mapping[str, Any]) -> ServerFigures:
    """llama.cpp's `timings`: `prompt_n` without cached tokens, `predicted_ms` from the first to the last token."""
    return ServerFigures(
        prompt_tokens=count(timings.get("prompt_n")),
        prompt_ms=milliseconds(timings.get("prompt_ms")),
        output_tokens=count(timings.get("predicted_n")),
        decode_ms=milliseconds(timings.get("predicted_ms")),
        draft_tokens=count(timings.get("draft_n")),
        draft_accepted_tokens=count(timings.get("draft_n_accepted")),
        raw={key: value for key, value in timings.items() if _is_plain(value)},
    )


def _whole(body: bytes) -> Mapping[str, Any] | None:
    """The one JSON object that the body is, when it is no stream."""
    if not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    value = _object(body)
    return None if value is None or "delta" in _first_choice(value) else value


def _is_error(value: Mapping[str, Any]) -> bool:
    if value.get("error") or value.get("object") == "error":
        return True
    return "choices" not in value and bool(value.get("detail"))


def _object(data: bytes) -> Mapping[str, Any] | None:
    try:
        value = load_json(data)
    except ValueError:
        return None
    # JSON that is no object (`null`, a number) carries nothing, but is no garbage either
    return value if isinstance(value, dict) else {}


def _first_choice(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = chunk.get("choices")
    return _mapping(choices[0]) if isinstance(choices, list) and choices else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """A text field: a string, or a list of parts with a `text` each."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(_mapping(part).get("text")) for part in value)
    return ""


def _tool_text(calls: Any) -> str:
    if not isinstance(calls, list):
        return ""
    functions = [_mapping(_mapping(call).get("function")) for call in calls]
    return "".join(_text(function.get("name")) + _text(function.get("arguments")) for function in functions)


def count(value: Any) -> int | None:
    """A count as servers send it; whatever is none is None."""
    number = milliseconds(value)
    return None if number is None else int(number)


def milliseconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return float(value)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _sum(fresh: int | None, cached: int | None) -> int | None:
    return None if fresh is None else fresh + (cached or 0)
