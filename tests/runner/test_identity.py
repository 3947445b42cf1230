"""Ways in which two different things could get one configuration, or one thing two: from a server to a snapshot."""

import json
from typing import Any

import pytest

from app.core.configuration import Snapshot, describe_changes, distinguishing_weights, model_names
from app.core.errors import ServerError
from app.core.settings import Settings
from app.db.database import Database
from app.db.tables import Server
from app.engines import probe
from app.engines.base import ModelInfo, ServerInfo
from app.engines.http import ServerClient
from app.measure.config_snapshot import build_snapshot, choose_model, namesakes
from app.measure.runner import Runner
from app.schemas.run_document import run_document
from tests import model_servers
from tests.replay import Script, serve
from tests.runner.conftest import add_server, run_named
from tests.runner.listeners import silent

SERVER = Server(machine_id=1, slug="s", name="s", engine="openai", base_url="http://s")


def frozen(routes: Any, model_name: str | None = None) -> Snapshot:
    with serve(routes) as replay, ServerClient(replay.url, None, Settings()) as client:
        facts = probe(client)
    return build_snapshot(SERVER, facts, choose_model(facts, model_name))


def llamacpp(path: str, n_bytes: int) -> dict[str, Script]:
    meta = {"size": n_bytes, "n_params": 8_000_000_000}
    return {
        "/props": Script.json({"build_info": "b1", "model_path": path, "model_ftype": "Q4_K - Medium"}),
        "/v1/models": Script.json({"data": [{"id": "assistant", "meta": meta}]}),
    }


def ollama(digest: str) -> dict[str, Any]:
    entry = {"name": "gemma3:latest", "digest": digest, "details": {"quantization_level": "Q4_K_M"}}
    root = Script.text("Ollama is running")
    return {
        "/": lambda request: root if request.path == "/" else Script(status=404),
        "/api/tags": Script.json({"models": [entry]}),
    }


def listed(**entry: Any) -> dict[str, Script]:
    return {"/v1/models": Script.json({"data": [{"id": "default", **entry}]})}


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        (llamacpp("/m/a.gguf", 5), llamacpp("/m/b.gguf", 5), "Model file /m/a.gguf → /m/b.gguf"),
        (llamacpp("/m/a.gguf", 5_000), llamacpp("/m/a.gguf", 5_100), "Bytes of the model 5,000 → 5,100"),
        (ollama("aaaa0000bbbb1111"), ollama("cccc0000bbbb1111"), "Digest of the model aaaa0000bbbb → cccc0000bbbb"),
        (listed(root="q/Qwen3-8B"), listed(root="q/Qwen3-8B-Base"), "Model file q/Qwen3-8B → q/Qwen3-8B-Base"),
    ],
    ids=["the alias of another file", "a file made anew", "a tag pulled anew", "another model served under a name"],
)  # fmt: skip
def test_other_weights_under_one_name(first: Any, second: Any, change: str) -> None:
    before, after = frozen(first), frozen(second)
    assert before.fingerprint != after.fingerprint
    assert describe_changes(before, after) == [change]


def test_each_model_has_its_own_context() -> None:
    entries = [{"id": "a", "max_model_len": 32768}, {"id": "b", "max_model_len": 8192}]
    routes = {"/v1/models": Script.json({"data": entries})}
    assert [frozen(routes, name).settings["context"] for name in ("a", "b")] == [32768, 8192]


def model(identifier: str, name: str = "m", quantization: str | None = None) -> ModelInfo:
    return ModelInfo(identifier, name, quantization)


def test_a_name_that_may_be_several_models_is_none() -> None:
    facts = ServerInfo("openai", None, (model("a/m"), model("b/m"), model("c/n", "n")))
    assert choose_model(facts, "n") == facts.models[2]
    assert choose_model(facts, "b/m") == facts.models[1]
    with pytest.raises(ServerError, match="a/m, b/m"):
        choose_model(facts, "m")
    assert namesakes(facts, facts.models[0]) == ["b/m"]
    assert namesakes(facts, facts.models[2]) == []


def test_no_model_of_elsewhere_is_measured_unasked() -> None:
    remote = ModelInfo("gpt-oss:120b-cloud", "gpt-oss:120b-cloud", runs_on="ollama.com")
    facts = ServerInfo("ollama", None, (remote,))
    with pytest.raises(ServerError, match="runs elsewhere"):
        choose_model(facts, None)
    assert choose_model(facts, remote.id) == remote
    assert build_snapshot(SERVER, facts, remote).settings["runs_on"] == "ollama.com"


def served(identifier: str, name: str = "m", quantization: str | None = "Q4_K_M", **more: Any) -> Snapshot:
    return Snapshot("openai", None, name, quantization, {"model_id": identifier, **more})


@pytest.mark.parametrize(
    ("identifiers", "names"),
    [
        (["gpu0/m", "cpu/m"], ["gpu0/m", "cpu/m"]),
        (["gpu0/m", "gpu0/m"], ["m", "m"]),
        (["m:Q4_K_M", "m-Q4_K_M"], ["m:Q4_K_M", "m-Q4_K_M"]),
        (["/a/m.gguf", "/b/m.gguf"], ["m", "m"]),
        (["C:\\a\\m.gguf", "D:\\m.gguf"], ["m", "m"]),
        (["gpu0/m", "cpu/m", "gpu0/m"], ["gpu0/m", "cpu/m", "gpu0/m"]),
    ],
)
def test_names_are_as_long_as_they_must_be(identifiers: list[str], names: list[str]) -> None:
    assert model_names([served(identifier) for identifier in identifiers]) == names


def test_a_folder_tells_files_of_one_server_apart_only() -> None:
    both = [served("/a/m.gguf"), served("/b/m.gguf")]
    assert distinguishing_weights(both, is_one_server=True) == {"Model file": ["/a/m.gguf", "/b/m.gguf"]}
    assert distinguishing_weights(both, is_one_server=False) == {}
    others = [served("x", model_file="/a/m.gguf"), served("x", model_file="/b/n.gguf")]
    assert distinguishing_weights(others, is_one_server=False) == {"Model file": ["m.gguf", "n.gguf"]}


def test_another_quantization_is_one_change() -> None:
    before = served("a/m:Q4_K_M", model_bytes=4, model_file="/m/m-Q4_K_M.gguf")
    after = served("a/m:Q8_0", quantization="Q8_0", model_bytes=8, model_file="/m/m-Q8_0.gguf")
    assert describe_changes(before, after) == ["Q4_K_M → Q8_0"]


def test_what_was_not_recorded_is_no_change() -> None:
    assert (
        describe_changes(Snapshot("openai", None, "m", None, {}), served("m", quantization=None, model_digest="a"))
        == []
    )


def test_a_server_that_answers_with_another_model_is_told_on(
    database: Database, runner: Runner, short_suite: str
) -> None:
    routes = dict(model_servers.openai_at("/v1", {"a": 1, "b": 1}))
    routes["/v1/chat/completions"] = lambda _: model_servers.stream("b", 1)
    with serve(routes) as replay:
        slug = add_server(database, replay.url, "openai")
        run = run_named(database, runner.perform(slug, short_suite, silent, repetitions=1, warmups=0, model="a"))
    assert any("answered with b" in warning for warning in run.evidence["warnings"])


def test_a_model_that_runs_elsewhere_has_no_ceiling_and_no_hardware_here(
    database: Database, runner: Runner, short_suite: str
) -> None:
    line = {"model": "x", "message": {"content": "w"}, "done": False}
    last = {"model": "x", "done": True, "done_reason": "length", "eval_count": 3, "prompt_eval_count": 60,
            "eval_duration": 3_000_000, "prompt_eval_duration": 9_000_000, "total_duration": 12_000_000}  # fmt: skip
    pieces = [json.dumps(line_).encode() + b"\n" for line_ in (line, line, line, last)]
    routes: dict[str, Any] = {
        **ollama("a"),
        "/api/tags": Script.json({"models": [{"name": "x", "remote_host": "https://ollama.com", "remote_model": "x"}]}),
        "/api/chat": Script([(place * 5.0, piece) for place, piece in enumerate(pieces)]),
    }
    with serve(routes) as replay:
        slug = add_server(database, replay.url, "ollama")
        run = run_named(database, runner.perform(slug, short_suite, silent, repetitions=1, warmups=0, model="x"))
    assert run.status == "done", run.error
    assert run.hardware == []
    assert any("runs at ollama.com" in warning for warning in run.evidence["warnings"])
    with database.read() as session:
        document = run_document(session, run.public_id)
    assert document["run"]["config"]["settings"]["runs_on"] == "ollama.com"
    (point,) = document["points"]
    assert "The model runs at ollama.com" in json.dumps(point["ceiling"])
