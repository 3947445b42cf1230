"""Small questions that tell one engine from another. Each raises ServerError only when nothing answers at all."""

from collections.abc import Mapping
from typing import Any

from app.engines.http import Answer, ServerClient
from app.engines.protocol.openai_chunk import mapping


def object_in(answer: Answer) -> Mapping[str, Any]:
    """The JSON object that an answer is, whatever its status; empty for anything else."""
    try:
        return mapping(answer.cleaner.load_json(answer.body))
    except ValueError:
        return {}


def object_at(client: ServerClient, path: str) -> Mapping[str, Any]:
    """The JSON object at a path; empty for an error status and for anything else."""
    answer = client.get(path)
    return object_in(answer) if answer.status < 300 else {}


def string(value: Any) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value.strip() else None
