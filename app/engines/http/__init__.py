"""Talking to measured servers: one warm, guarded connection each, and every fault as one sentence."""

from app.engines.http.answer import Answer, StreamingAnswer
from app.engines.http.client import ServerClient
from app.engines.http.url import DEFAULT_API_PREFIX, is_loopback, normalise_base_url

__all__ = ["DEFAULT_API_PREFIX", "Answer", "ServerClient", "StreamingAnswer", "is_loopback", "normalise_base_url"]
