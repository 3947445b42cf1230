"""Captured streams with their exact times, as an engine reads them without a socket between."""

from app.core.samples import TOKEN_KINDS, CacheDefeat, Event, Trace
from app.engines import find
from app.engines.protocol.chat_engine import ChatEngine
from app.engines.protocol.sse import End, Recording
from tests.replay import Script, capture


def chat_engine(key: str) -> ChatEngine:
    engine = find(key)
    assert isinstance(engine, ChatEngine)
    return engine


def recorded(engine: str, folder: str, name: str, defeat: CacheDefeat = CacheDefeat.NONCE) -> Trace:
    return read(engine, capture(folder, name), defeat)


def read(engine: str, script: Script, defeat: CacheDefeat = CacheDefeat.NONCE) -> Trace:
    reading = chat_engine(engine)
    rows = [(round(ms * 1e6), data) for ms, data in script.rows]
    kind = next((value for name, value in script.headers.items() if name.lower() == "content-type"), "")
    recording = Recording(rows, End.CLOSED, 0, rows[-1][0], content_type=kind)
    return reading.read(recording, {}, defeat)


def tokens(trace: Trace) -> list[Event]:
    return [event for event in trace.events if event.kind in TOKEN_KINDS]
