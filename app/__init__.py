"""Roofmark: records TTFT, prefill and decode of language model servers, and keeps the history."""

__version__ = "0.1.0"
