"""A run through a gateway: its configuration is one of the engine behind, reached through the gateway."""

from app.core.samples import CacheDefeat
from app.core.settings import Settings
from app.db import samples
from app.db.database import Database
from app.db.tables import Config, Run
from app.measure.runner import Runner
from tests.engines.prompt_cache import LEAD_TOKENS
from tests.engines.written import llamaswap
from tests.replay import serve
from tests.runner.conftest import add_server, run_named
from tests.runner.listeners import silent


def perform(
    database: Database, runner: Runner, suite: str, gateway: llamaswap.Gateway, name: str, *, repetitions: int = 5
) -> tuple[Run, Config]:
    with serve(gateway.routes, pace=0.1) as replay:
        slug = add_server(database, replay.url, "llama-swap", name=name)
        run = run_named(database, runner.perform(slug, suite, silent, repetitions=repetitions, model="qwen"))
    with database.read() as session:
        session.add(run)
        config = run.config
        assert config is not None
        session.refresh(config)
    assert (run.status, run.error) == ("done", None)
    return run, config


def test_a_model_that_the_first_request_loads(
    database: Database, settings: Settings, runner: Runner, short_suite: str
) -> None:
    gateway = llamaswap.gateway(sends_loading_state=True)
    gateway.backends["qwen"].state = "stopped"
    run, config = perform(database, runner, short_suite, gateway, "cold")
    assert gateway.loads == ["qwen"]
    assert (config.engine, config.engine_version) == ("llama.cpp", "b10068-abc")
    assert config.settings == {
        "context": 8192, "flags": "--mlock", "gateway": "llama-swap 250", "gpu_layers": 99, "kv_type_k": "q8_0",
        "kv_type_v": "q8_0", "model_bytes": 5027783488, "model_file": "/models/Qwen3-8B-Q4_K_M.gguf",
        "model_id": "qwen", "parallel": 2,
    }  # fmt: skip
    with database.read() as session:
        assert run.id is not None
        warm_up, *measured = samples.samples_of(session, run.id)
    # what llama-swap says while it loads is no token: the first one comes after all of it
    assert warm_up.trace.events[0].kind.value == "comment"
    assert warm_up.trace.reasoning_tokens is None
    assert [(sample.trace.cache_defeat, sample.trace.cached_tokens) for sample in measured] == [
        (CacheDefeat.SWITCH, 0)
    ] * 5
    assert {sample.trace.server.decode_ms for sample in measured if sample.trace.server} == {110.0}
    assert [turn.cached_tokens for turn in gateway.backends["qwen"].chat.turns] == [0] * 6
    assert all(turn.prompt_tokens > LEAD_TOKENS for turn in gateway.backends["qwen"].chat.turns)
    totals = {metric["name"]: metric["value"] for metric in run.evidence["server"]}
    assert totals.get("output_tokens") is None  # before the run nothing could be counted
    stored = b"".join(path.read_bytes() for path in settings.data_dir.rglob("*") if path.is_file())
    assert b"llama-swap 250" in stored
    assert not [secret for secret in (b"hf_abcdefghijkl", b"not-for-others") if secret in stored]


def test_a_model_that_runs_is_the_same_configuration(database: Database, runner: Runner, short_suite: str) -> None:
    cold = llamaswap.gateway()
    cold.backends["qwen"].state = "stopped"
    _, first = perform(database, runner, short_suite, cold, "box", repetitions=1)
    run, second = perform(database, runner, short_suite, llamaswap.gateway(), "again", repetitions=2)
    assert first.fingerprint == second.fingerprint
    totals = {metric["name"]: metric["value"] for metric in run.evidence["server"] if metric["statistic"] == "total"}
    assert totals["output_tokens"] == 36.0
