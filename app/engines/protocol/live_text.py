"""The text of an answer while it arrives: for the eye only, nothing is measured with it."""

import re
from collections.abc import Mapping

from app.core.samples import TOKEN_KINDS
from app.engines.http.text import parse_json
from app.engines.protocol import openai_chunk
from app.engines.protocol.answers import count, mapping
from app.engines.protocol.sse import DONE, frames
from app.engines.protocol.trace_builder import OPENAI_DIALECT, Dialect

_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")
MAX_PENDING_BYTES = 256 * 1024
"""Of an event that does not end: what is longer is no token."""


class LiveText:
    """Reads pieces of a stream as they come; an event that is cut is read when its rest has come."""

    def __init__(self, dialect: Dialect = OPENAI_DIALECT) -> None:
        self._dialect = dialect
        self._pending = b""
        self.tokens = 0
        """Output tokens so far: the server's count where it states one, else one for each event with token text."""

    def feed(self, piece: bytes) -> str:
        """Returns the text, reasoning included, of the events that this piece completes."""
        data = self._pending + piece
        end = _complete_bytes(data)
        self._pending = data[end:][-MAX_PENDING_BYTES:]
        return "".join(self._read(frame.data) for frame in frames([(0, data[:end])])) if end else ""

    def _read(self, data: bytes) -> str:
        if not data or data == DONE:
            return ""
        try:
            value = parse_json(data)
        except ValueError:  # the recording is judged at its end, not here
            return ""
        if not isinstance(value, dict):
            return ""
        chunk = self._dialect.chunk(value)
        texts = openai_chunk.Texts(chunk)
        self.tokens += texts.kind in TOKEN_KINDS
        self.tokens = max(self.tokens, _stated_tokens(chunk))
        return texts.reasoning + texts.answer


def _complete_bytes(data: bytes) -> int:
    """How many bytes hold whole events. Some servers end one with a single line break: each of JSON lines, and a data
    line that is followed by another."""
    if data.lstrip().startswith(b"{"):
        return data.rfind(b"\n") + 1
    ends = [blank.end() for blank in _BLANK_LINE.finditer(data)]
    return ends[-1] if ends else data.rfind(b"\ndata:") + 1


def _stated_tokens(chunk: Mapping[str, object]) -> int:
    usage = count(openai_chunk.usage_of(chunk).get("completion_tokens"))
    timings = count(mapping(openai_chunk.timings_of(chunk)).get("predicted_n"))
    return max(usage or 0, timings or 0)
