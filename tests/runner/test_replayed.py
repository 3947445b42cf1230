"""The whole way from a server's URL to a stored result, with every engine's replayed server; and Ollama's context."""

from dataclasses import replace
from typing import Any

import pytest

from app import engines
from app.ceiling.geometry import Geometry
from app.core.samples import Workload
from app.db import samples, servers
from app.db.database import Database
from app.db.tables import FULL_GEOMETRY
from app.engines.base import Engine, ModelInfo
from app.measure.config_snapshot import requested_context
from app.measure.runner import Runner
from app.suites import BUILT_IN, Case, Suite
from tests.engines.prompt_cache import CachedChat
from tests.engines.written import SERVERS
from tests.replay import Request, Script, capture, serve
from tests.runner.conftest import add_server, run_named
from tests.runner.listeners import silent


@pytest.mark.parametrize("engine", engines.all(), ids=lambda engine: engine.key)
def test_a_run_against_each_engine(database: Database, runner: Runner, short_suite: str, engine: Engine) -> None:
    server = SERVERS[engine.key]()
    # what its probe learns may choose another path than that of a request without a probe
    chats = {path: server.routes[server.path] for path, route in server.live.items() if isinstance(route, CachedChat)}
    with serve({**server.routes, **chats}, pace=0.01) as replay:
        slug = add_server(database, replay.url, engine.key)
        public_id = runner.perform(slug, short_suite, silent, repetitions=1, warmups=0)
    run = run_named(database, public_id)
    assert (run.status, run.error) == ("done", None)
    with database.read() as session:
        assert run.id is not None
        (sample_,) = samples.samples_of(session, run.id)
        stored_server, config, model = run.server, run.config, run.model
    assert config is not None
    assert (config.engine, config.engine_version) == (server.backend or (engine.key, server.version))
    assert stored_server.engine == engine.key
    assert sample_.trace.output_tokens == server.output_tokens
    if engine.key == "ollama":
        assert config.settings["context"] == 2048  # as it was loaded
        assert "num_ctx" not in replay.posted()[-1]["options"]
        assert model is not None
        assert Geometry.from_json(model.geometry[FULL_GEOMETRY]).architecture == "gemma3"


def test_what_a_refusal_teaches_is_remembered_for_the_server(
    database: Database, runner: Runner, short_suite: str
) -> None:
    server = SERVERS["vllm"]()
    good = server.routes[server.path]

    def answer(request: Request) -> Script:
        if "continuous_usage_stats" in request.json().get("stream_options", {}):
            return Script.json({"error": {"message": "unknown field continuous_usage_stats"}}, 400)
        assert isinstance(good, Script)
        return good

    routes = {**server.routes, server.path: answer}
    with serve(routes, pace=0.01) as replay:
        slug = add_server(database, replay.url, "vllm")
        request_counts = []
        for version in ("0.32.0", "0.32.0", "0.33.0"):
            routes["/version"] = Script.json({"version": version})
            before = len(replay.posted())
            runner.perform(slug, short_suite, silent, repetitions=2, warmups=0)
            request_counts.append(sum("stream" in body for body in replay.posted()[before:]))
        with database.read() as session:
            capabilities = servers.server(session, slug).capabilities
    assert request_counts == [3, 2, 3]  # one too many only for a version that was not yet asked
    assert capabilities == {"refused_fields": ["stream_options.continuous_usage_stats"], "cache_salt": True}


def test_a_server_that_tells_no_version_is_asked_again_after_a_person_has_probed_it(
    database: Database, runner: Runner, short_suite: str
) -> None:
    server = SERVERS["openai"]()
    good = server.routes[server.path]
    is_strict = True

    def answer(request: Request) -> Script:
        assert isinstance(good, Script)
        return Script.text("Bad Request", 400) if is_strict and "stream_options" in request.json() else good

    with serve({**server.routes, server.path: answer}, pace=0.01) as replay:
        slug = add_server(database, replay.url, "openai")
        request_counts = []
        for probes in (False, False, True):
            if probes:
                is_strict = False
                runner.refresh(slug)
            before = len(replay.posted())
            runner.perform(slug, short_suite, silent, repetitions=2, warmups=0)
            request_counts.append(len(replay.posted()) - before)
    assert request_counts == [3, 2, 2]
    assert "stream_options" not in replay.posted()[-3]
    assert "stream_options" in replay.posted()[-1]


def test_a_round_that_was_broken_off_accuses_nobody(database: Database, runner: Runner, short_suite: str) -> None:
    """The server has counted its prompt, but its answer is not among the samples."""
    server, request_count = SERVERS["llama.cpp"](), [0]
    good = server.routes[server.path]

    def answer(_: Request) -> Script:
        request_count[0] += 1
        assert isinstance(good, Script)
        return good if request_count[0] == 1 else Script.json({"error": {"message": "key", "code": 401}}, 401)

    def metrics(_: Request) -> Script:
        return Script.text(
            f"llamacpp:prompt_tokens_total {request_count[0] * 5000}\nllamacpp:prompt_tokens_cached_total 0\n"
        )

    with serve({**server.routes, server.path: answer, "/metrics": metrics}, pace=0.01) as replay:
        slug = add_server(database, replay.url, "llama.cpp")
        run = run_named(database, runner.perform(slug, short_suite, silent, repetitions=2, warmups=0))
    assert run.status == "failed"
    assert not [warning for warning in run.evidence["warnings"] if "somebody else" in warning]
    assert not [metric for metric in run.evidence["server"] if metric["statistic"] == "total"]


def test_where_a_model_went_is_known_only_after_it_was_loaded(
    database: Database, runner: Runner, short_suite: str
) -> None:
    server = SERVERS["ollama"]()
    half = {"name": "gemma3-270m:latest", "size": 200, "size_vram": 100, "context_length": 4096}

    def answer(_: Request) -> Script:
        routes["/api/ps"] = Script.json({"models": [half]})
        answered = server.routes["/api/chat"]
        assert isinstance(answered, Script)
        return answered

    routes = {**server.routes, "/api/chat": answer, "/api/ps": capture("ollama", "ps-empty")}
    with serve(routes, pace=0.01) as replay:
        slug = add_server(database, replay.url, "ollama")
        public_id = runner.perform(slug, short_suite, silent, repetitions=1, warmups=0)
    assert "context" not in " ".join(run_named(database, public_id).evidence["warnings"])
    sentence = "Ollama holds 50 % of gemma3-270m in GPU memory; the processor works on the rest."
    assert run_named(database, public_id).evidence["warnings"].count(sentence) == 1


def test_the_context_that_was_loaded_stands_beside_the_one_that_was_asked_for(
    database: Database, runner: Runner, short_suite: str
) -> None:
    """A server that ignores `num_ctx`, as Ollama's own /v1 does: it is never asked there."""
    with serve(SERVERS["ollama"]().routes, pace=0.01) as replay:
        slug = add_server(database, replay.url, "ollama")
        with database.write() as session:
            servers.edit_server(session, slug, settings={"context": 32_768})
        public_id = runner.perform(slug, short_suite, silent, repetitions=1, warmups=0)
        posts = [request for request in replay.requests if request.method == "POST"]
    assert {request.path for request in posts} == {"/api/chat", "/api/show"}
    assert [request.json()["options"]["num_ctx"] for request in posts if request.path == "/api/chat"] == [32_768]
    run = run_named(database, public_id)
    with database.read() as session:
        config = run.config
    assert config is not None
    assert config.settings["context"] == 2048
    loaded = [metric["value"] for metric in run.evidence["server"] if metric["name"] == "context"]
    assert loaded == [2048]
    sentence = "The server loaded the model with a context of 2,048 tokens instead of the requested 32,768."
    assert sentence in run.evidence["warnings"]


OLLAMA = engines.find("ollama")
MODEL = ModelInfo("m", "m", max_context_tokens=16_384)


def suite(prompt_tokens: int, output_tokens: int = 128) -> Suite:
    return replace(
        BUILT_IN["triple"], cases=(Case(Workload(prompt_tokens, output_tokens), "x" * round(4.95 * prompt_tokens)),)
    )


@pytest.mark.parametrize(
    ("played", "stated", "document", "context"),
    [
        (suite(512), None, {}, None),  # what every model gets is enough
        (suite(8000), None, {}, 10_240),  # 1.25 x 8000 + 128 in steps of 2048
        (suite(512), None, {"parameters": "num_ctx    512"}, 2048),
        (suite(8000), None, {"parameters": 'stop "num_ctx 9"\nnum_ctx    12000'}, None),
        (suite(3000), None, {"system": "x" * 4950}, 6144),  # which a thousand tokens of the model's own come before
        (suite(512), 2048, {}, 2048),
        (suite(60_000), None, {}, 16_384),
        (suite(512), 999_999, {}, 16_384),
        (suite(512), "much", {}, None),
    ],
)
def test_the_context_that_requests_ask_for(
    played: Suite, stated: object, document: dict[str, Any], context: int | None
) -> None:
    """Whatever happens to be loaded."""
    for loaded in (None, 2048, 16_384):
        model = replace(MODEL, context_tokens=loaded)
        assert requested_context(OLLAMA, model, stated, played, document) == context


def test_elsewhere_the_context_is_the_servers() -> None:
    assert requested_context(engines.find("vllm"), MODEL, 2048, suite(512), {}) is None
