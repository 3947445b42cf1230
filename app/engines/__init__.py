"""The engines: every module here with an `ENGINE` is one."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from app.core.errors import NotFound, ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.settings import Settings
from app.engines.base import API_PREFIX, STATED_ENGINE, Engine, ServerInfo
from app.engines.http import ServerClient

# where servers listen that have no engine of their own here
_MORE_PORTS = (8081, 8888)
# on the own machine an answer takes milliseconds, and a person is waiting
_DISCOVERY_CONNECT_S = 0.5
_DISCOVERY_ANSWER_S = 1.5


@lru_cache(maxsize=1)
def all() -> tuple[Engine, ...]:
    """Every engine, in the order in which a probe tries them."""
    names = (module.name for module in iter_modules(__path__) if not module.ispkg)
    engines = (getattr(import_module(f"{__name__}.{name}"), "ENGINE", None) for name in names)
    found = [engine for engine in engines if isinstance(engine, Engine)]
    return tuple(sorted(found, key=lambda engine: (-engine.rank, engine.key)))


def titles() -> dict[str, str]:
    """By key, in the same order."""
    return {engine.key: engine.title for engine in all()}


def find(key: str) -> Engine:
    """By key or title, however it is spelled (`llamacpp`, `llama.cpp`). Raises NotFound."""
    wanted = _squashed(key)
    for engine in all():
        if wanted in (_squashed(engine.key), _squashed(engine.title)):
            return engine
    raise NotFound(
        _(
            "There is no engine {key!r}: choose one of {known}.",
            key=key,
            known=", ".join(engine.key for engine in all()),
        )
    )


def _squashed(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def open_client(
    url: str, api_key: str | None, settings: Settings, capabilities: Mapping[str, Any] | None = None
) -> ServerClient:
    """To a server at `url`, of which `capabilities` are known. Raises BadInput when the URL can be no server's."""
    prefix = (capabilities or {}).get(API_PREFIX)
    return ServerClient(url, api_key, settings, api_prefix=prefix if isinstance(prefix, str) else None)


def probe(client: ServerClient, engine: str | None = None, *, is_believed: bool = True) -> ServerInfo:
    """What answers there: one engine's view when it is named, else that of the first engine that knows it.

    A named engine is believed when its API answers, even where nothing else tells of it; not so when `is_believed` is
    false, because nobody but an earlier probe has named it. A server that lets one engine's question hang is asked only
    what any server is asked. Raises ServerError with what is wrong, NotFound for an unknown engine.
    """
    candidates = all() if engine is None else (find(engine),)
    above = _root_above(client.base_url, candidates)
    if above is not None:
        facts = _facts_above(client, above, candidates, is_believed and engine is not None)
        if facts is not None:
            return facts
    facts = _facts(client, candidates, is_believed and engine is not None)
    if facts is not None:
        return facts
    if engine is None:
        raise ServerError(_("{url} answers, but not like an LLM server.", url=client.base_url), ServerErrorKind.NOT_LLM)
    raise ServerError(
        _("{url} answers, but not like a {title} server.", url=client.base_url, title=find(engine).title),
        ServerErrorKind.NOT_LLM,
    )


def _root_above(base_url: str, candidates: Sequence[Engine]) -> str | None:
    """The address of a server whose API's address was given instead."""
    roots = sorted({root for engine in candidates for root in engine.api_roots}, key=len, reverse=True)
    return next((base_url.removesuffix(root) for root in roots if base_url.endswith(root)), None)


def _facts_above(
    client: ServerClient, base_url: str, candidates: Sequence[Engine], is_believed: bool
) -> ServerInfo | None:
    specific = [engine for engine in candidates if engine.rank > 0]
    try:
        with client.parent(base_url) as parent:
            facts = _facts(parent, specific, is_believed)
    except ServerError:  # what was typed may be right all the same
        return None
    return None if facts is None else replace(facts, base_url=base_url)


def _facts(client: ServerClient, candidates: Sequence[Engine], is_believed: bool) -> ServerInfo | None:
    with client.caching_gets():
        for candidate in candidates:
            try:
                facts = candidate.recognise(client)
            except ServerError as problem:
                if problem.trouble is not ServerErrorKind.TIMEOUT or candidate is candidates[-1]:
                    raise
                facts = candidates[-1].recognise(client)
            if facts is not None:
                return facts
        return _described(client, candidates[0]) if is_believed else None


def _described(client: ServerClient, engine: Engine) -> ServerInfo | None:
    try:
        facts = engine.describe(client)
    except ServerError as problem:
        if problem.trouble is not ServerErrorKind.NOT_LLM:
            raise
        return None
    return replace(facts, capabilities={**facts.capabilities, STATED_ENGINE: True})


def well_known_ports() -> list[int]:
    return list(dict.fromkeys((*(port for engine in all() for port in engine.default_ports), *_MORE_PORTS)))


def discover(settings: Settings) -> list[tuple[str, ServerInfo]]:
    """The servers on well-known ports of this machine: base URL and what was found, in a fixed order."""
    urls = [f"http://127.0.0.1:{port}" for port in well_known_ports() if port != settings.port]
    hasty = settings.model_copy(
        update={"connect_timeout_s": _DISCOVERY_CONNECT_S, "probe_timeout_s": _DISCOVERY_ANSWER_S}
    )

    def look(url: str) -> ServerInfo | None:
        try:
            with open_client(url, None, hasty) as client:
                return probe(client)
        except ServerError:  # nothing there, or no server of a model
            return None

    with ThreadPoolExecutor(max_workers=len(urls), thread_name_prefix="discover") as threads:
        return [(url, facts) for url, facts in zip(urls, threads.map(look, urls), strict=True) if facts is not None]
