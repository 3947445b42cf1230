"""What a server calls itself, read once per probe: it decides before the shape of any endpoint is judged.

An engine says by facts of its class (`owned_by`, `server_header`, `response_headers`, `health_service`) how its servers
introduce themselves. The list of models and its headers are asked for first; `/health` only where they name no engine
that Roofmark has, and where the server is none of those that generate a token for it (`has_costly_paths`). A server
that refuses the list without a key may be one of them, so that it is asked nothing more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.core.errors import ServerError, ServerErrorKind
from app.engines.base import Engine
from app.engines.http import Answer, ServerClient
from app.engines.protocol.answers import object_in, string
from app.engines.protocol.models import listed_models

_MODELS, _HEALTH = "/v1/models", "/health"
_REFUSED = (401, 403)


@dataclass(frozen=True)
class Identity:
    """A server's own words about what it is, in lower case; empty where it or a proxy leaves them out."""

    owners: frozenset[str] = frozenset()
    """`owned_by` of the models that it lists."""
    server: str = ""
    """The product that the `Server` header names first, without its version."""
    header_names: frozenset[str] = frozenset()
    health: Mapping[str, str] = field(default_factory=dict)
    """The texts in the answer to `/health`; empty where that was not asked."""
    is_refused: bool = False
    """The list of models wants another key than the client has, or one at all."""


def read_identity(client: ServerClient, engines: Sequence[Engine]) -> Identity:
    """What the server says of itself. Raises ServerError when nothing answers, or not in time."""
    models = _asked(client, _MODELS)
    identity = _identity(models, None)
    # with a key, SGLang's /health is open to everybody, and generates
    if identity.is_refused or named_engines(identity, engines):
        return identity
    if any(engine.has_costly_paths and engine.detect(client) is not None for engine in engines):
        return identity
    return _identity(models, _asked(client, _HEALTH))


def named_engines(identity: Identity, engines: Iterable[Engine]) -> list[Engine]:
    """The engines that most of these words fit, in the order given; none where no word is an engine's own.

    Several where they share all their words, as llama.cpp and its forks may behind a proxy that drops headers.
    """
    matches = {engine: _matches(engine, identity) for engine in engines}
    most = max(matches.values(), default=0)
    return [engine for engine, count in matches.items() if count == most > 0]


def _matches(engine: Engine, identity: Identity) -> int:
    """How many of the server's words are the engine's own.

    A list whose models have several owners is a gateway's: then each of them has to be the engine's.
    """
    return sum(
        (
            bool(identity.owners) and identity.owners <= _lower(engine.owned_by),
            identity.server in _lower(engine.server_header),
            bool(identity.header_names & _lower(engine.response_headers)),
            identity.health.get("service", "") in _lower(engine.health_service),
        )
    )


def _asked(client: ServerClient, path: str) -> Answer | None:
    """The answer, whatever its status; None for one that cannot be read."""
    try:
        return client.get(path)
    except ServerError as problem:
        if problem.trouble is not ServerErrorKind.NOT_LLM:
            raise
        return None


def _identity(models: Answer | None, health: Answer | None) -> Identity:
    headers = {} if models is None else models.headers
    listed = {} if models is None else listed_models(object_in(models)) or {}
    texts = {} if health is None else {key: string(value) for key, value in object_in(health).items()}
    return Identity(
        owners=_lower(owner for entry in listed.values() if (owner := string(entry.get("owned_by")))),
        server=headers.get("server", "").partition("/")[0].partition(" ")[0].lower(),
        header_names=_lower(headers),
        health={key: text.lower() for key, text in texts.items() if text is not None},
        is_refused=models is not None and models.status in _REFUSED,
    )


def _lower(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(text.lower() for text in texts)
