"""Talking to measured servers: one warm, guarded connection each, and every fault as one sentence."""

from app.http.client import Answer, Exchange, ServerClient
from app.http.url import is_loopback, normalise_base_url

__all__ = ["Answer", "Exchange", "ServerClient", "is_loopback", "normalise_base_url"]
