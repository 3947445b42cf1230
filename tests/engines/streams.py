"""Streams made by hand, and how they are read."""

import hashlib
import json
from typing import Any

from hypothesis import strategies as st

from app.core.samples import Trace
from app.engines.protocol.sse import End, Recording
from app.engines.protocol.trace_builder import read_trace
from tests.replay import Script


def chunk(text: str | None = None, *, finish: str | None = None, **more: Any) -> bytes:
    delta = {} if text is None else {"content": text}
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}).encode()


def sse(*data: bytes) -> bytes:
    return b"".join(b"data: " + piece + b"\n\n" for piece in data)


def read(*pieces: bytes, end: End = End.CLOSED, content_type: str = "text/event-stream") -> Trace:
    rows = [((position + 1) * 1_000_000, piece) for position, piece in enumerate(pieces)]
    return read_trace(Recording(rows, end, 0, len(rows) * 1_000_000, content_type=content_type), {})


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


KEYS = [
    "choices", "delta", "message", "content", "text", "usage", "timings", "completion_tokens", "prompt_tokens", "error",
    "detail", "prompt_tokens_details", "tool_calls", "function", "name", "finish_reason", "predicted_n", "object",
]  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


GOOD = (sse(chunk("one")), sse(chunk(" two")), sse(chunk(finish="stop", **usage(5, 2)), b"[DONE]"))
GOOD_STREAM = Script.sse(*GOOD)
