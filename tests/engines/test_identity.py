"""Which model of which server it was: routers, gateways, models that run elsewhere, and where an API is."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import engines
from app.core.errors import ServerError
from app.core.settings import Settings
from app.engines import find, probe
from app.engines.base import STATED_ENGINE, Engine, ServerInfo
from app.engines.http import ServerClient
from app.engines.llamacpp_args import read_arguments
from app.engines.protocol.log_lines import decimal
from tests import model_servers
from tests.engines.written import SERVERS
from tests.replay import Script, serve


def facts_of(routes: Any, path: str = "", engine: str | None = None) -> ServerInfo:
    with serve(routes) as replay, ServerClient(replay.url + path, None, Settings()) as client:
        return probe(client, engine)


@pytest.mark.parametrize("engine", engines.all(), ids=lambda engine: engine.key)
@pytest.mark.parametrize("is_named", [False, True])
def test_a_probe_asks_for_each_path_once(engine: Engine, is_named: bool) -> None:
    with serve(SERVERS[engine.key]().routes) as replay, ServerClient(replay.url, None, Settings()) as client:
        assert probe(client, engine.key if is_named else None).engine == engine.key
    asked = Counter(request.path for request in replay.requests if request.method == "GET")
    assert asked.most_common(1)[0][1] == 1


@pytest.mark.parametrize("engine", engines.all(), ids=lambda engine: engine.key)
def test_an_engine_that_a_person_names_is_believed_when_its_api_answers(engine: Engine) -> None:
    """Behind a proxy that lets nothing through but models and answers."""
    own = {"ollama": "/api/tags", "lmstudio": "/api/v0/models"}.get(engine.key)
    routes = SERVERS[engine.key]().routes
    lists = model_servers.openai_at("/v1", {"m": 1}) if own is None else {own: routes[own]}
    facts = facts_of(lists, engine=engine.key)
    assert facts.engine == engine.key
    assert facts.models
    assert facts.engine_version is None


def test_an_engine_that_only_a_probe_has_named_is_not_believed() -> None:
    routes = model_servers.openai_at("/v1", {"m": 1})
    assert facts_of(routes, engine="vllm").capabilities[STATED_ENGINE] is True
    with serve(routes) as replay, ServerClient(replay.url, None, Settings()) as client:
        with pytest.raises(ServerError, match="not like a vLLM server"):
            probe(client, "vllm", is_believed=False)
        with pytest.raises(ServerError, match="not like a Ollama server"):
            probe(client, "ollama")


# --- router ----------------------------------------------------------------------------------------------------------


def test_a_router_is_asked_about_loaded_models_alone() -> None:
    router = model_servers.router()
    facts = facts_of(router.routes)
    assert router.loads == []
    loaded, unloaded = facts.models
    assert (loaded.is_loaded, unloaded.is_loaded) == (True, False)
    assert facts.model(None) is loaded
    assert (facts.context_tokens, facts.settings) == (None, {})
    assert (unloaded.quantization, unloaded.file_path) == ("Q4_K_M", "/m/gemma-3-4b-it-Q4_K_M.gguf")
    assert (unloaded.context_tokens, unloaded.settings["parallel"]) == (8192, 2)


@pytest.mark.parametrize(
    ("line", "settings", "context"),
    [
        ("-c 8192 -np 4", {"parallel": 4}, 2048),
        ("--ctx-size=8192 --parallel=4 --kv-unified", {"parallel": 4}, 8192),
        ("-c 0 -np 4", {"parallel": 4}, None),
        ("-ctk Q8_0 --cache-type-v f16", {"kv_type_k": "q8_0", "kv_type_v": "f16"}, None),
        ("-ngl all -fa --threads 6", {"gpu_layers": 999, "flash_attention": "on", "threads": 6}, None),
        ("-ngl auto -fa auto -t -1", {"flash_attention": "auto"}, None),
        ("--flash-attn 0 -b 4096 -ub 1024", {"flash_attention": "off", "batch": 4096, "ubatch": 1024}, None),
        ("-ngl 10 -ngl 20 -ncmoe 12 -ot exps=CPU -ts 3,1 -sm row", {
            "gpu_layers": 20, "n_cpu_moe": 12, "override_tensor": "exps=CPU", "tensor_split": "3,1",
            "split_mode": "row",
        }, None),
        ("--mlock --draft-max 8 --no-mmap", {"flags": "--draft-max 8 --mlock --no-mmap"}, None),
        ("--api-key secret --hf-token t -hft t --host h --port 1 --alias a", {}, None),
    ],
)  # fmt: skip
def test_a_command_line(line: str, settings: dict[str, Any], context: int | None) -> None:
    read = read_arguments(["llama-server", *line.split()])
    assert (read.settings, read.context_tokens) == (settings, context)


def test_where_a_command_line_names_the_weights() -> None:
    assert read_arguments(["x", "-hf", "a/b-GGUF:Q5_K_M"]).quantization == "Q5_K_M"
    assert read_arguments(["x", "-hf", "a/b-GGUF", "--hf-file", "b-IQ2_XS.gguf"]).quantization == "IQ2_XS"
    assert read_arguments(["x", "-m", "/m/b-Q6_K.gguf"]).file_path == "/m/b-Q6_K.gguf"


WORDS = st.text(max_size=12)


@given(st.lists(st.one_of(WORDS, st.integers(), st.none(), st.sampled_from(["-c", "-np", "--parallel", "-fa", "-m"]))))
def test_any_command_line_is_read(args: list[Any]) -> None:
    read = read_arguments(args)
    assert read.context_tokens is None or read.context_tokens >= 0


@given(st.permutations(["-c 4096", "-np 2", "-fa on", "--mlock", "-t 4", "--prio 2"]))
def test_the_order_of_flags_makes_no_other_configuration(flags: list[str]) -> None:
    read = read_arguments(" ".join(flags).split())
    assert read == read_arguments(["-c", "4096", "-np", "2", "-fa", "on", "--mlock", "-t", "4", "--prio", "2"])


# --- Ollama ----------------------------------------------------------------------------------------------------------


def ollama(*entries: dict[str, Any], **more: Script) -> dict[str, Any]:
    return {
        "/api/tags": Script.json({"models": list(entries)}),
        **{f"/api/{name}": script for name, script in more.items()},
    }


REMOTE = {"name": "gpt-oss:120b-cloud", "remote_host": "https://ollama.com:443", "remote_model": "gpt-oss:120b"}


def test_models_that_run_elsewhere_are_never_the_default() -> None:
    named = {"name": "qwen3-coder:480b-cloud"}
    local = {"name": "gemma3:latest", "digest": "a1", "details": {"quantization_level": "Q4_K_M"}}
    facts = facts_of(ollama(REMOTE, named, local), engine="ollama")
    assert [model.runs_on for model in facts.models] == [None, "ollama.com:443", "ollama.com"]
    assert facts.model(None) == facts.models[0]
    assert facts.models[0].digest == "a1"
    assert facts_of(ollama(REMOTE), engine="ollama").model(None) is None
    assert find("ollama").runs_on({"remote_model": "gpt-oss:120b"}) == "ollama.com"
    assert find("ollama").runs_on({"details": {}}) is None


def test_what_a_proxy_hides_of_ollama_is_unknown() -> None:
    facts = facts_of(ollama({"name": "gemma3:latest"}), engine="ollama")
    assert (facts.engine_version, facts.models[0].context_tokens) == (None, None)


# --- LM Studio -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifier", "reported", "name", "quantization"),
    [
        ("google/gemma-3-12b@q4_k_m", None, "gemma-3-12b", "Q4_K_M"),
        ("google/gemma-3-12b@q8_0", "Q8_0", "gemma-3-12b", "Q8_0"),
        ("qwen3-8b-mlx@4bit", None, "qwen3-8b-mlx", "4bit"),
        ("qwen3-8b@?", None, "qwen3-8b", None),
        ("qwen3-8b", "Q6_K", "qwen3-8b", "Q6_K"),
    ],
)
def test_quantizations_of_lm_studio(identifier: str, reported: str | None, name: str, quantization: str | None) -> None:
    entry = {"id": identifier, "type": "llm", "state": "loaded", "quantization": reported}
    facts = facts_of({"/api/v0/models": Script.json({"data": [entry]})})
    (model,) = facts.models
    assert (model.id, model.name, model.quantization) == (identifier, name, quantization)


# --- where an API is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "path"), [("lmstudio", "/api/v1"), ("lmstudio", "/api/v0"), ("lmstudio", "/v1"), ("ollama", "/api")]
)
@pytest.mark.parametrize("is_named", [False, True])
def test_an_engine_by_the_address_of_its_api(key: str, path: str, is_named: bool) -> None:
    with serve(SERVERS[key]().routes) as replay, ServerClient(replay.url + path, None, Settings()) as client:
        facts = probe(client, key if is_named else None)
        assert facts.engine == key
        assert (facts.base_url or client.base_url) == replay.url


@pytest.mark.parametrize(
    ("prefix", "typed", "learned"),
    [
        ("/v1", "", None),
        ("/v1", "/v1/", None),
        ("", "", ""),
        ("", "/chat/completions", ""),
        ("/api/v3", "/api/v3/chat/completions", ""),
        ("/v3", "/v3", ""),
        ("/api/paas/v4", "/api/paas/v4", ""),
        ("/api", "/api/chat/completions", ""),
        ("/openai/v1", "/openai", None),
    ],
)
def test_where_an_api_is(prefix: str, typed: str, learned: str | None) -> None:
    facts = facts_of(model_servers.openai_at(prefix, {"m": 1}), typed)
    assert [model.id for model in facts.models] == ["m"]
    assert facts.capabilities.get("api_prefix") == learned


def test_the_place_that_was_typed_comes_first() -> None:
    both = {**model_servers.openai_at("", {"root": 1}), **model_servers.openai_at("/v1", {"v1": 1})}
    assert facts_of(both).models[0].id == "v1"
    assert facts_of(both, "/chat/completions").models[0].id == "root"
    assert facts_of(both, "/v1/chat/completions").models[0].id == "v1"


# --- logs ------------------------------------------------------------------------------------------------------------


def read_log(text: str) -> list[tuple[int | None, float | None, int | None, float | None, bool]]:
    return [
        (figures.prompt_tokens, figures.prompt_ms, figures.output_tokens, figures.decode_ms, request.overlaps)
        for request in find("llama.cpp").read_log(text)
        for figures in [request.figures]
    ]


def test_decimal_commas_of_llamacpp_and_strata() -> None:
    text = """
slot print_timing: id  0 | task 5 |
prompt eval time =    1250,50 ms /   100 tokens (   12,50 ms per token,    79,97 tokens per second)
       eval time =     800,25 ms /    40 tokens (   20,00 ms per token,    50,00 tokens per second)
draft acceptance = 0,57576 (   19 accepted /    33 generated), mean len =  2,10
"""
    assert read_log(text) == [(100, 1250.5, 40, 800.25, False)]
    assert find("llama.cpp").read_log(text)[0].figures.draft_accepted_tokens == 19
    (request,) = find("strata").read_log(
        "strata serve: prompt 214 tokens = 0 reused + 214 read in 402,5 ms (531,6 tok/s), 128 generated in 5716,25 ms "
        "(22,4 tok/s), drafts accepted 41 of 96\nstrata serve: decode expert cache hit rate: 71,4% (5 hits / 7 lookups)"
    )
    assert (request.figures.prompt_ms, request.figures.decode_ms) == (402.5, 5716.25 * 127 / 128)
    assert request.figures.expert_hit_share == 5 / 7


@given(st.integers(0, 10**9), st.integers(0, 99), st.sampled_from([("", "."), ("", ","), (".", ","), (",", ".")]))
def test_numbers_of_any_locale(whole: int, cents: int, marks: tuple[str, str]) -> None:
    group, mark = marks
    written = f"{whole:,}".replace(",", group)
    assert decimal(f"{written}{mark}{cents:02}") == float(f"{whole}.{cents:02}")


def test_slots_that_overlap_are_marked() -> None:
    text = """
slot launch_slot_: id  0 | task 230 | processing task
slot launch_slot_: id  1 | task 253 | processing task
slot print_timing: id  0 | task 230 | prompt eval time =     769.81 ms /   300 tokens (x)
slot print_timing: id  1 | task 253 | prompt eval time =    1624.20 ms /   600 tokens (x)
slot print_timing: id  1 | task 253 |        eval time =     699.71 ms /    16 tokens (x)
slot print_timing: id  0 | task 230 |        eval time =    3984.86 ms /    64 tokens (x)
slot      release: id  0 | task 230 | stop processing: n_tokens = 364
slot launch_slot_: id  0 | task 300 | processing task
slot print_timing: id  0 | task 300 | prompt eval time =     500.00 ms /   300 tokens (x)
slot print_timing: id  0 | task 300 |        eval time =    1000.00 ms /    64 tokens (x)
"""
    assert read_log(text) == [
        (600, 1624.2, 16, 699.71, True),
        (300, 769.81, 64, 3984.86, True),
        (300, 500.0, 64, 1000.0, False),
    ]


def test_lines_without_ids_that_are_mixed_pair_nothing() -> None:
    """Two prompts before the first answer, without ids: whose prompt it was is unknown, so it is not guessed."""
    text = """
prompt eval time =     500.00 ms /   300 tokens (x)
prompt eval time =     900.00 ms /   600 tokens (x)
eval time =     699.71 ms /    16 tokens (x)
eval time =    3984.86 ms /    64 tokens (x)
"""
    assert [(row[0], row[1], row[4]) for row in read_log(text)] == [(None, None, True), (None, None, True)]


def test_a_line_without_id_after_another_requests_line_is_nobodys() -> None:
    text = """
slot print_timing: id  0 | task 5 |
slot launch_slot_: id  1 | task 6 | processing task
prompt eval time =     250.00 ms /   100 tokens (x)
       eval time =     800.00 ms /    40 tokens (x)
"""
    ((prompt, prompt_ms, _, decode_ms, overlaps),) = read_log(text)
    assert (prompt, prompt_ms, decode_ms, overlaps) == (None, None, None, True)
