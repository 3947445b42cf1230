"""No engine's server is taken for another's, whatever a proxy hides; and a prompt cache is defeated."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app import engines
from app.core.samples import Status
from app.engines.base import STATED_ENGINE, CompletionRequest, Engine
from app.engines.identity import Identity, named_engines, read_identity
from tests.engines.conftest import Connect
from tests.engines.prompt_cache import LEAD_TOKENS, CachedChat
from tests.engines.servers import CHAT, Route, models
from tests.engines.written import SERVERS
from tests.replay import Answerer, Request, Script

NAMED_BY_LIST = [engine.key for engine in engines.all() if engine.owned_by]
PROMPT = " ".join(f"word{position}" for position in range(200))


def without_server_header(route: Route) -> Answerer:
    def answer(request: Request) -> Script:
        script = route if isinstance(route, Script) else route(request)
        headers = {name: value for name, value in script.headers.items() if name.lower() != "server"}
        return replace(script, headers=headers)

    return answer


def bare(routes: Mapping[str, Route], path: str) -> dict[str, Route]:
    """The list of models and the answers alone: a server started without anything optional, or a strict proxy."""
    return {name: route for name, route in routes.items() if name in ("/v1/models", path)}


@pytest.mark.parametrize("key", SERVERS)
def test_a_proxy_that_hides_headers(key: str, connect: Connect) -> None:
    server = SERVERS[key]()
    _, client = connect({path: without_server_header(route) for path, route in server.routes.items()}, pace=0.01)
    assert engines.probe(client).engine == (key if server.is_known_without_headers else "openai")


@pytest.mark.parametrize("key", SERVERS)
@pytest.mark.parametrize("has_headers", [True, False])
def test_a_server_without_its_optional_endpoints(key: str, has_headers: bool, connect: Connect) -> None:
    server = SERVERS[key]()
    routes = bare(server.routes, server.path)
    if "/v1/models" not in routes:
        routes["/v1/models"] = models("m")
    if not has_headers:
        routes = {path: without_server_header(route) for path, route in routes.items()}
    _, client = connect(routes, pace=0.01)
    info = engines.probe(client)
    assert info.engine in (key, "openai", *server.twins)
    assert STATED_ENGINE not in info.capabilities


@pytest.mark.parametrize("key", NAMED_BY_LIST)
def test_an_engine_that_its_list_names_needs_nothing_else(key: str, connect: Connect) -> None:
    engine = engines.find(key)
    _, client = connect({"/v1/models": models("m", owned_by=engine.owned_by[0])})
    server = SERVERS[key]()
    # one that answers at a path of its own can be used only by that of OpenAI, where nothing else is let through
    expected = (key, *server.twins) if server.path == CHAT else ("openai",)
    assert engines.probe(client).engine in expected


@pytest.mark.parametrize("key", NAMED_BY_LIST)
@pytest.mark.parametrize("is_stored", [False, True])
def test_an_engine_that_its_list_names_may_leave_a_question_unanswered(
    key: str, is_stored: bool, connect: Connect
) -> None:
    """As one does that answers between two steps only."""
    server, owner = SERVERS[key](), engines.find(key).owned_by[0]
    routes: dict[str, Route] = {path: Script(end="mute") for path in server.routes if path != server.path}
    _, client = connect(
        {**routes, "/v1/models": models("m", owned_by=owner), "/": Script(end="mute")}, probe_timeout_s=0.2
    )
    if server.path != CHAT:
        assert engines.probe(client).engine == "openai"
        return
    info = engines.probe(client, key if is_stored and not server.twins else None, is_believed=False)
    assert info.engine in (key, *server.twins)
    assert [model.id for model in info.models] == ["m"]


@pytest.mark.parametrize("key", SERVERS)
@pytest.mark.parametrize("owner", ["llama-swap", "vllm", "sglang"])
def test_what_the_list_says_no_shape_contradicts(key: str, owner: str, connect: Connect) -> None:
    """A gateway in front of another server, or an engine that answers what others answer, too."""
    routes = {path: without_server_header(route) for path, route in SERVERS[key]().routes.items()}
    _, client = connect({**routes, "/v1/models": models("m", owned_by=owner)}, pace=0.01)
    claimants = {engine.key for engine in engines.all() if owner in engine.owned_by}
    if claimants:
        assert engines.probe(client).engine in claimants


def test_a_list_with_several_owners_is_nobodys() -> None:
    assert named_engines(Identity(frozenset({"vllm"})), engines.all()) == [engines.find("vllm")]
    assert named_engines(Identity(frozenset({"vllm", "sglang"})), engines.all()) == []
    assert named_engines(Identity(), engines.all()) == []


def test_a_named_server_is_not_asked_for_its_health(connect: Connect) -> None:
    replay, client = connect(SERVERS["sglang"]().routes)
    assert engines.probe(client).engine == "sglang"
    assert "/health" not in [request.path for request in replay.requests]


@pytest.mark.parametrize("key", NAMED_BY_LIST)
def test_a_named_server_is_asked_few_questions(key: str, connect: Connect) -> None:
    replay, client = connect(SERVERS[key]().routes, pace=0.01)
    if named_engines(read_identity(client, engines.all()), engines.all()):
        replay.requests.clear()
        engines.probe(client)
        assert len(replay.requests) <= 6, [request.path for request in replay.requests]


def test_a_person_may_contradict_what_a_server_says(connect: Connect) -> None:
    _, client = connect({"/v1/models": models("m", owned_by="vllm")})
    info = engines.probe(client, "sglang")
    assert (info.engine, info.capabilities[STATED_ENGINE]) == ("sglang", True)
    assert STATED_ENGINE not in engines.probe(client, "vllm").capabilities


@pytest.mark.parametrize("key", [key for key, make in SERVERS.items() if make().live])
def test_five_samples_miss_a_prompt_cache(key: str, connect: Connect) -> None:
    server, engine = SERVERS[key](), engines.find(key)
    chat = next(route for route in server.live.values() if isinstance(route, CachedChat))
    _, client = connect({**server.routes, **server.live}, pace=0.01)
    capabilities = engines.probe(client).capabilities
    for ordinal in range(5):
        trace = engine.stream_completion(client, _request(server.models[0][0], capabilities, nonce=f"{ordinal:08x}"))
        assert trace.status is Status.OK, trace.error
    assert len(chat.turns) == 5
    assert max(turn.cached_tokens for turn in chat.turns) <= LEAD_TOKENS
    reused = replace(_request(server.models[0][0], capabilities), reuse_cache=True)
    traces = [engine.stream_completion(client, reused) for _ in range(2)]
    # and it is a cache: where it reports what it found, that was read
    assert chat.turns[-1].cached_tokens >= len(PROMPT.split())
    assert traces[-1].cached_tokens in (None, chat.turns[-1].cached_tokens)


def _request(model: str, capabilities: Mapping[str, Any], nonce: str | None = None) -> CompletionRequest:
    return CompletionRequest(PROMPT, 8, model, nonce=nonce, capabilities=capabilities)


@pytest.mark.parametrize("engine", engines.all(), ids=lambda engine: engine.key)
def test_imitators_are_tried_before_what_they_imitate(engine: Engine) -> None:
    order = [candidate.key for candidate in engines.all()]
    assert all(order.index(engine.key) < order.index(key) for key in engine.imitates)
