"""The registry of engines, and finding out which one answers at an address.

An engine is a module of this package with an `ENGINE`; modules without one hold parts of an engine that has several.
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from app.core.config_settings import DEFAULT
from app.core.errors import NotFound, ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.settings import Settings
from app.engines.base import API_PREFIX, STATED_ENGINE, Engine, ServerInfo
from app.engines.flags import COMMON, CommandLine, FlagTable, merge_tables, parse_text
from app.engines.http import ServerClient
from app.engines.identity import named_engines, read_identity
from app.engines.openai import ENGINE as GENERIC
from app.engines.openai import OpenAI

log = logging.getLogger(__name__)

# usual ports of servers that have no engine of their own here
_MORE_PORTS = (8081, 8888)
# on the same machine an answer takes milliseconds, and a person is waiting
_DISCOVERY_CONNECT_S = 0.5
_DISCOVERY_ANSWER_S = 1.5


@lru_cache(maxsize=1)
def all() -> tuple[Engine, ...]:
    """Every engine, in the order in which a probe tries them: touchy ones and imitators first, the generic one last."""
    names = (module.name for module in iter_modules(__path__) if not module.ispkg)
    instances = (getattr(import_module(f"{__name__}.{name}"), "ENGINE", None) for name in names)
    engines = sorted(
        (engine for engine in instances if isinstance(engine, Engine)),
        key=lambda engine: (not engine.has_costly_paths, engine.key),
    )
    order: list[Engine] = []
    for engine in engines:
        if engine is not GENERIC:
            _place(engine, engines, order)
    return (*order, GENERIC)


def _place(engine: Engine, engines: Sequence[Engine], order: list[Engine]) -> None:
    """Puts an engine at the end of the order, and in front of it all that imitate it."""
    if engine in order:
        return
    for imitator in engines:
        if engine.key in imitator.imitates:
            _place(imitator, engines, order)
    order.append(engine)


def titles() -> dict[str, str]:
    """The title of each engine by its key, in the order of `all`."""
    return {engine.key: engine.title for engine in all()}


def log_titles() -> list[str]:
    """The titles of the engines whose log Roofmark reads."""
    return [engine.title for engine in all() if engine.has_log]


def get(key: str) -> Engine | None:
    """The engine with exactly this key; None for one that Roofmark does not have, as in an import."""
    return next((engine for engine in all() if engine.key == key), None)


def of_build(key: str, version: str | None) -> Engine | None:
    """The engine of a stored run: the one with this key, unless its version names another one."""
    by_name = (engine for engine in all() if engine.build_name and (version or "").startswith(engine.build_name))
    return next(by_name, None) or get(key)


def find(name: str) -> Engine:
    """The engine with this key or title, however it is spelled (`llamacpp`, `llama.cpp`). Raises NotFound."""
    normalized = _normalized(name)
    for engine in all():
        if normalized in (_normalized(engine.key), _normalized(engine.title)):
            return engine
    raise NotFound(
        _(
            "There is no engine {key!r}: choose one of {known}.",
            key=name,
            known=", ".join(engine.key for engine in all()),
        )
    )


def _normalized(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


@lru_cache(maxsize=1)
def flag_table() -> FlagTable:
    """The flags of all engines: a typed command line need not say which engine it is for."""
    return merge_tables([COMMON, *(engine.flags for engine in all())])


@lru_cache(maxsize=256)
def parse_flags(text: str) -> CommandLine:
    """The settings in a typed command line of any engine.

    >>> command = parse_flags("-ngl 99 --n-cpu-moe=20 --port 8080 --mlock --rpc host:50052")
    >>> command.settings, command.not_understood
    ({'gpu_layers': 99, 'n_cpu_moe': 20}, ('--rpc host:50052',))
    >>> command.unmapped
    ('--mlock', '--rpc host:50052')
    """
    return parse_text(text, flag_table())


def with_flags(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings and those that only their typed `flags` state; a setting of its own has priority over its flag. One
    that was left to the engine has no value."""
    flags = settings.get("flags")
    flag_settings: Mapping[str, object] = parse_flags(flags).settings if isinstance(flags, str) else {}
    return {**flag_settings, **{key: value for key, value in settings.items() if value != DEFAULT}}


def open_client(
    url: str, api_key: str | None, settings: Settings, capabilities: Mapping[str, Any] | None = None
) -> ServerClient:
    """A client of the server at `url`; `capabilities` are those that an earlier probe learned.

    Raises BadInput when the URL cannot be a server's.
    """
    prefix = (capabilities or {}).get(API_PREFIX)
    return ServerClient(url, api_key, settings, api_prefix=prefix if isinstance(prefix, str) else None)


def probe(client: ServerClient, engine: str | None = None, *, is_believed: bool = True) -> ServerInfo:
    """A description of the server by the engine that it says it is, else by the first one that detects it.

    Where `engine` is named, by that one alone: it is believed when its API answers, even where nothing identifies it;
    not so when `is_believed` is false, because only an earlier probe named it. A server that lets one engine's question
    time out is then asked only what any server is asked. Raises ServerError with what is wrong, NotFound for an unknown
    engine.
    """
    candidates = all() if engine is None else (find(engine),)
    is_stated = is_believed and engine is not None
    root = _root_above(client.base_url, candidates)
    info = None if root is None else _probe_root(client, root, candidates, is_stated)
    if info is None:
        info = _probe(client, candidates, is_stated)
    if info is not None:
        return info
    if engine is None:
        raise ServerError(_("{url} answers, but not like an LLM server.", url=client.base_url), ServerErrorKind.NOT_LLM)
    raise ServerError(
        _("{url} answers, but not like a {title} server.", url=client.base_url, title=find(engine).title),
        ServerErrorKind.NOT_LLM,
    )


def _root_above(base_url: str, candidates: Sequence[Engine]) -> str | None:
    """The server's address where the address of its API was given instead; None where it was not."""
    roots = sorted({root for engine in candidates for root in engine.api_roots}, key=len, reverse=True)
    return next((base_url.removesuffix(root) for root in roots if base_url.endswith(root)), None)


def _probe_root(
    client: ServerClient, base_url: str, candidates: Sequence[Engine], is_stated: bool
) -> ServerInfo | None:
    specific = [engine for engine in candidates if engine is not GENERIC]
    try:
        with client.parent(base_url) as parent:
            info = _probe(parent, specific, is_stated)
    except ServerError:  # the address may be right as it was typed
        return None
    return None if info is None else replace(info, base_url=base_url)


def _probe(client: ServerClient, candidates: Sequence[Engine], is_stated: bool) -> ServerInfo | None:
    with client.caching_gets():
        try:
            identity = read_identity(client, all())
            named = named_engines(identity, all())
            if identity.is_refused and GENERIC in candidates:
                candidates = [engine for engine in candidates if engine is GENERIC or _lists_elsewhere(engine)]
        except ServerError as problem:
            if problem.trouble is not ServerErrorKind.TIMEOUT:
                raise
            named, candidates = [], candidates[-1:]
        by_name = [engine for engine in candidates if engine in named]
        if named and not by_name and not is_stated and GENERIC not in candidates:
            raise _is_another(client, candidates[0], named[0])
        # what the server says it is, no shape of an endpoint can contradict; only a person can
        by_shape = candidates if is_stated or not named else [engine for engine in candidates if engine is GENERIC]
        if (info := _detect(client, by_name, candidates[-1], is_named=True)) is not None:
            return info
        if by_name and (info := _describe_named(client, by_name[-1])) is not None:
            return info
        if (info := _detect(client, by_shape, candidates[-1])) is not None:
            return info
        info = _describe(client, candidates[0]) if is_stated else None
        return None if info is None else replace(info, capabilities={**info.capabilities, STATED_ENGINE: True})


def _lists_elsewhere(engine: Engine) -> bool:
    """Whether a server of the engine may be of use where `/v1/models` is refused."""
    return engine.has_costly_paths or not isinstance(engine, OpenAI) or engine.chat_path != GENERIC.chat_path


def _is_another(client: ServerClient, expected: Engine, named: Engine) -> ServerError:
    return ServerError(
        _(
            "{url} says that it is {title}, not {expected}: choose that engine in the server's form or with --engine.",
            url=client.base_url,
            title=named.title,
            expected=expected.title,
        ),
        ServerErrorKind.NOT_LLM,
    )


def _detect(
    client: ServerClient, engines: Sequence[Engine], last_resort: Engine, *, is_named: bool = False
) -> ServerInfo | None:
    """The description by the first of the engines that detects the server.

    `is_named`: the server says that it is one of them. Then it is, as its list of models describes it, even where one
    of the engine's questions gets no answer in time: some answer between two steps only.
    """
    for engine in engines:
        try:
            info = engine.detect(client)
        except ServerError as problem:
            if problem.trouble is not ServerErrorKind.TIMEOUT:
                raise
            if is_named and isinstance(engines[-1], OpenAI) and engines[-1].chat_path == GENERIC.chat_path:
                info = GENERIC.detect(client)
                return None if info is None else replace(info, engine=engines[-1].key)
            if engine is last_resort:
                raise
            info = last_resort.detect(client)
        if info is not None:
            return info
    return None


def _describe_named(client: ServerClient, engine: Engine) -> ServerInfo | None:
    """The description by an engine that the server names, of several with the same words the one that the others are
    made after; None where a proxy hides the engine's own API, or refuses it."""
    try:
        return engine.describe(client)
    except ServerError as problem:
        log.info("%s does not describe itself as %s: %s", client.base_url, engine.title, problem)
        return None


def _describe(client: ServerClient, engine: Engine) -> ServerInfo | None:
    try:
        return engine.describe(client)
    except ServerError as problem:
        if problem.trouble is not ServerErrorKind.NOT_LLM:
            raise
        return None


def well_known_ports() -> list[int]:
    """The default ports of every engine and of similar servers, each once."""
    return list(dict.fromkeys((*(port for engine in all() for port in engine.default_ports), *_MORE_PORTS)))


def discover(settings: Settings) -> list[tuple[str, ServerInfo]]:
    """The servers on well-known ports of this machine: base URL and description of each, in the order of the ports."""
    urls = [f"http://127.0.0.1:{port}" for port in well_known_ports() if port != settings.port]
    short_timeouts = settings.model_copy(
        update={"connect_timeout_s": _DISCOVERY_CONNECT_S, "probe_timeout_s": _DISCOVERY_ANSWER_S}
    )

    def probe_url(url: str) -> ServerInfo | None:
        try:
            with open_client(url, None, short_timeouts) as client:
                return probe(client)
        except ServerError:  # nothing answers, or no LLM server
            return None

    with ThreadPoolExecutor(max_workers=len(urls), thread_name_prefix="discover") as threads:
        return [(url, info) for url, info in zip(urls, threads.map(probe_url, urls), strict=True) if info is not None]
