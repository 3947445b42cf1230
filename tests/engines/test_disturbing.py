"""Nothing that is asked between samples makes a server work, or takes away what others want to read."""

from dataclasses import dataclass, field

import pytest

from app import engines
from app.core.errors import ServerError
from app.engines.base import Engine
from tests.engines.conftest import Connect
from tests.engines.servers import Route, models
from tests.engines.written import SERVERS
from tests.replay import Request, Script

GENERATES = {
    "sglang": {"/health", "/health_generate"},
    "litellm": {"/health", "/health/services", "/health/test_connection"},
    "tgi": {"/health", "/ping", "/"},
    "trtllm": {"/health_generate"},
}
"""Paths whose answer costs the server a request of its own."""
HANDS_OUT_ONCE = {"trtllm": {"/metrics", "/perf_metrics", "/kv_cache_events"}}
"""Paths that give each entry to whoever asks first."""


@dataclass
class Counting:
    """Counts what would make a server work: its paths that do, and anything sent to it."""

    engine: str
    work: list[str] = field(default_factory=list)

    def answer(self, request: Request) -> Script:
        path = request.path.partition("?")[0]
        if (
            path in GENERATES.get(self.engine, set()) | HANDS_OUT_ONCE.get(self.engine, set())
            or request.method != "GET"
        ):
            self.work.append(f"{request.method} {path}")
        server = SERVERS[self.engine]()
        script = server.routes.get(path) or server.routes.get("/")
        if script is None:
            return Script.json({"detail": "Not Found"}, 404)
        return script if isinstance(script, Script) else script(request)


@pytest.mark.parametrize("engine", engines.all(), ids=lambda engine: engine.key)
def test_no_question_between_samples_makes_the_server_work(engine: Engine, connect: Connect) -> None:
    counting = Counting(engine.key)
    replay, client = connect({"/": counting.answer}, pace=0.01)
    for _ in range(3):
        engine.health(client)
        engine.load(client)
        engine.counters(client)
    assert replay.requests
    assert counting.work == []


@pytest.mark.parametrize("key", sorted(GENERATES))
def test_a_probe_finds_the_engine_without_making_it_work(key: str, connect: Connect) -> None:
    counting = Counting(key)
    _, client = connect({"/": counting.answer}, pace=0.01)
    assert engines.probe(client).engine == key
    assert counting.work == []


@pytest.mark.parametrize("key", ["litellm", "sglang", "trtllm"])
def test_a_server_that_wants_a_key_is_not_made_to_work(key: str, connect: Connect) -> None:
    """What checks its health is open to everybody."""
    counting = Counting(key)

    def answer(request: Request) -> Script:
        script = counting.answer(request)
        return script if "health" in request.path else Script.json({"error": "Unauthorized"}, 401)

    _, client = connect({"/": answer}, pace=0.01)
    with pytest.raises(ServerError, match="wants an API key"):
        engines.probe(client)
    assert counting.work == []


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_litellm_is_never_asked_for_the_health_of_its_models(status: int, connect: Connect) -> None:
    """Nor where a proxy, or the server itself, refuses the path that names it."""
    counting = Counting("litellm")
    routes: dict[str, Route] = {"/": counting.answer, "/health/liveliness": Script.json({"error": "x"}, status)}
    _, client = connect(routes, pace=0.01)
    assert engines.probe(client).engine == "litellm"
    assert counting.work == []
    _, client = connect({**routes, "/v1/models": models("gpt-4o", created=1715367049, owned_by="openai")}, pace=0.01)
    assert engines.probe(client).engine == "openai"
