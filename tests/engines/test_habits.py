"""Habits of single engines that the test of all of them does not reach."""

import json
from typing import Any

import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.core.samples import CountSource, Kind, Status, Trace
from app.engines import find, probe
from app.engines.base import CompletionRequest, Counters
from app.engines.http import ServerClient
from tests.engines.conftest import Connect
from tests.engines.recorded import recorded, tokens
from tests.engines.servers import CHAT, ROLE, WORDS, Finishing, Route, chunk, models, no_choices, stream, usage
from tests.engines.written import koboldcpp, lmstudio, mlxlm, ollama, sglang, tabbyapi, vllm
from tests.engines.written import transformers as transformers_server
from tests.replay import Script


def play(engine: str, client: ServerClient, **ask: Any) -> Trace:
    return find(engine).stream_completion(
        client, CompletionRequest(**{"prompt": "hello", "output_tokens": 8, "model": "m", "nonce": "x", **ask})
    )


def test_transformers_sends_its_role_chunk_long_before_the_first_token() -> None:
    trace = recorded("transformers", "transformers-serve", "chat-stream-1")
    seen = tokens(trace)
    assert (trace.status, trace.output_tokens, trace.prompt_tokens, trace.finish_reason) == (
        Status.OK,
        16,
        20,
        "length",
    )
    assert (trace.events[0].kind, trace.events[0].at_ms) == (Kind.ROLE, 801.264)
    assert (len(seen), seen[0].at_ms, seen[-1].at_ms) == (16, 1070.224, 2189.292)
    assert trace.events[-1].kind is Kind.FINISH


@pytest.mark.parametrize(
    ("engine", "status", "message"),
    [
        ("tgi", 422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
        ("tgi", 422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000"),
        ("tabbyapi", 400, "Prompt length 5000 is greater than max_seq_len 4096"),
        ("sglang", 400, "The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
        ("lmstudio", 400, "However, the model is loaded with context length of only 4096 tokens."),
        ("trtllm", 400, "The sum of prompt length (5000.0) should not exceed max_seq_len (4096)"),
    ],
)
def test_a_prompt_that_is_too_long_in_their_words(connect: Connect, engine: str, status: int, message: str) -> None:
    _, client = connect({"/": Script.json({"error": message}, status)})
    with pytest.raises(ServerError, match="too long") as caught:
        play(engine, client)
    assert caught.value.trouble is ServerErrorKind.PROMPT_TOO_LONG


def test_transformers_that_lists_its_models(connect: Connect) -> None:
    listing = Script.json({"object": "list", "data": [{"id": "Qwen/Qwen3-0.6B"}]})
    replay, client = connect({**transformers_server.server().routes, "/v1/models": listing})
    assert [model.id for model in probe(client).models] == ["Qwen/Qwen3-0.6B"]
    assert replay.posted() == []


def kobold(before: dict[str, Any], after: dict[str, Any], *last: dict[str, Any]) -> dict[str, Route]:
    engine = Finishing(stream(ROLE, *WORDS, chunk({}, "length"), *last), Script.json(before), Script.json(after))
    return {CHAT: engine.chat, "/api/extra/perf": engine.status}


PERF = {"last_process_time": 0.25, "last_eval_time": 0.05, "last_token_count": 4, "last_input_count": 120}


@pytest.mark.parametrize(("began", "ended", "is_ours"), [(4, 5, True), (4, 6, False), (4, 4, False), (None, 5, False)])
def test_koboldcpp_figures_are_those_of_the_only_generation_since(
    connect: Connect, began: int | None, ended: int, is_ours: bool
) -> None:
    _, client = connect(kobold({**PERF, "total_gens": began}, {**PERF, "total_gens": ended}))
    trace = play("koboldcpp", client)
    assert (trace.server is not None) is is_ours
    expected = (4, CountSource.TIMINGS) if is_ours else (3, CountSource.EVENTS)
    assert (trace.output_tokens, trace.count_source) == expected


def test_koboldcpp_usage_outranks_what_it_says_afterwards(connect: Connect) -> None:
    last = no_choices(**usage(99, 3))
    _, client = connect(kobold({**PERF, "total_gens": 1}, {**PERF, "total_gens": 2}, last))
    trace = play("koboldcpp", client)
    assert (trace.prompt_tokens, trace.output_tokens, trace.count_source) == (99, 3, CountSource.USAGE)
    assert trace.server is not None
    assert (trace.server.prompt_tokens, trace.server.output_tokens) == (99, 3)


@pytest.mark.parametrize(("idle", "queue", "busy"), [(1, 0, False), (0, 0, True), (0, 2, True), (None, None, None)])
def test_koboldcpp_tells_whether_it_is_idle(
    connect: Connect, idle: int | None, queue: int | None, busy: bool | None
) -> None:
    _, client = connect({"/api/extra/perf": Script.json({"idle": idle, "queue": queue})})
    assert find("koboldcpp").health(client).busy is busy


def test_an_older_koboldcpp_times_its_parts_under_other_names(connect: Connect) -> None:
    older = {"last_process": 0.25, "last_eval": 0.05, "last_token_count": 3, "total_gens": 4, "queue": 0, "idle": 1}
    _, client = connect({**koboldcpp.server().routes, **kobold(older, {**older, "total_gens": 5})})
    assert probe(client).engine == "koboldcpp"
    trace = play("koboldcpp", client)
    assert (trace.status, trace.output_tokens) == (Status.OK, 3)
    assert trace.server is not None
    assert (trace.server.prompt_ms, trace.server.decode_ms) == (None, None)


def test_koboldcpp_names_no_file(connect: Connect) -> None:
    listed = models("koboldcpp/a", owned_by="koboldcpp", root="koboldcpp")
    routes = {**koboldcpp.server().routes, "/v1/models": listed}
    _, client = connect(routes)
    assert [model.file_path for model in probe(client).models] == [None]
    _, client = connect({"/v1/models": routes["/v1/models"]})
    assert [model.file_path for model in probe(client).models] == [None]


def test_who_imitates_koboldcpp_is_not_it(connect: Connect) -> None:
    routes = {path: route for path, route in koboldcpp.server().routes.items() if path != "/api/extra/perf"}
    _, client = connect({**routes, "/": Script.json({"detail": "Not Found"}, 404)})
    assert probe(client).engine == "openai"


def test_tabbyapi_is_known_when_it_is_not_well(connect: Connect) -> None:
    unwell = Script.json({"status": "unhealthy", "issues": [{"time": 1, "description": "CUDA error"}]}, 503)
    _, client = connect({**tabbyapi.server().routes, "/health": unwell})
    assert probe(client).engine == "tabbyapi"


def test_vllm_without_its_statistics_is_known_by_its_models(connect: Connect) -> None:
    _, client = connect({path: route for path, route in vllm.server().routes.items() if path != "/metrics"})
    assert (probe(client).engine, probe(client).engine_version) == ("vllm", "0.32.0")


@pytest.mark.parametrize("capabilities", [None, 5, True, "embedding", {}, ["completion"]])
def test_ollama_with_odd_capabilities(connect: Connect, capabilities: Any) -> None:
    tags = Script.json({"models": [{"name": "m", "capabilities": capabilities}]})
    _, client = connect({**ollama.server().routes, "/api/tags": tags})
    assert [model.id for model in probe(client).models] == ["m"]


def test_tabbyapi_times_too_short_for_two_decimals_are_not_taken(connect: Connect) -> None:
    last = no_choices(**usage(512, 3, prompt_time=0.05, completion_time=0.2, prompt_tokens_per_sec=9876.5))
    _, client = connect({**tabbyapi.server().routes, CHAT: stream(ROLE, *WORDS, chunk({}, "length"), last)})
    server = play("tabbyapi", client).server
    assert server is not None
    assert (server.prompt_ms, server.decode_ms) == (None, 200.0)


def test_lmstudio_lists_what_is_loaded_first_and_no_embeddings(connect: Connect) -> None:
    _, client = connect(lmstudio.server().routes)
    facts = probe(client)
    assert [(model.id, model.max_context_tokens) for model in facts.models] == [
        ("qwen3-8b", 40960),
        ("gemma-3-12b", 8192),
    ]


MODEL = {"type": "llm", "key": "google/gemma-3-4b", "quantization": {"name": "Q4_K_M", "bits_per_weight": 4}}
LOADED = {"loaded_instances": [{"id": "i", "config": {"context_length": 4096}}], "max_context_length": 131072}


def event(kind: str, **more: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"


def lmstudio_v1(*events: str) -> dict[str, Route]:
    embedding = {"type": "embedding", "key": "nomic", "loaded_instances": []}
    listing = {"models": [embedding, {**MODEL, "key": "other"}, {**MODEL, **LOADED}]}
    return {"/api/v1/models": Script.json(listing), "/api/v1/chat": stream(*events, done=False)}


BEGIN = (
    event("chat.start", model_instance_id="i"),
    event("model_load.end", load_time_seconds=1.25),
    event("prompt_processing.progress", progress=0.5),
    event("reasoning.delta", content="hm"),
    event("message.delta", content="one"),
    event("message.delta", content=" two"),
)


def test_lmstudio_by_the_events_of_its_newer_api(connect: Connect) -> None:
    stats = {"input_tokens": 20, "total_output_tokens": 3, "tokens_per_second": 15.0, "model_load_time_seconds": 1.25}
    end = event("chat.end", result={"model_instance_id": "i", "output": [], "stats": stats})
    replay, client = connect(lmstudio_v1(*BEGIN, event("message.end"), end))
    facts = probe(client)
    assert [(m.id, m.quantization, m.context_tokens, m.max_context_tokens) for m in facts.models] == [
        ("google/gemma-3-4b", "Q4_K_M", 4096, 131072),
        ("other", "Q4_K_M", None, None),
    ]
    trace = play("lmstudio", client, capabilities=facts.capabilities)
    assert (trace.status, trace.prompt_tokens, trace.output_tokens, trace.model) == (Status.OK, 20, 3, "i")
    assert [event.kind for event in tokens(trace)] == [Kind.REASONING, Kind.ANSWER, Kind.ANSWER]
    assert trace.server is not None
    assert (trace.server.load_ms, trace.server.output_tokens) == (1250.0, 3)
    assert replay.posted() == [
        {"model": "m", "stream": True, "input": "x\nhello", "max_output_tokens": 8, "temperature": 0, "store": False}
    ]
    assert find("lmstudio").health(client).ready


def test_lmstudio_whose_newer_stream_breaks(connect: Connect) -> None:
    fault = {"type": "unknown", "message": "The model crashed.", "code": "x"}
    for end, words in (((), "without a finish reason"), ((event("error", error=fault),), "The model crashed")):
        _, client = connect(lmstudio_v1(*BEGIN, *end))
        trace = play("lmstudio", client, capabilities=probe(client).capabilities)
        assert (trace.status, len(tokens(trace))) == (Status.INCOMPLETE, 3)
        assert words in str(trace.error)


def test_sglang_counts_and_says_whether_it_is_busy(connect: Connect) -> None:
    _, client = connect(sglang.server().routes)
    sglang_engine = find("sglang")
    assert sglang_engine.counters(client) == Counters(3800, 1200, 900)
    assert sglang_engine.health(client).busy is False
    busy = Script.text('sglang:num_running_reqs{model_name="m"} 1.0\nsglang:num_queue_reqs{model_name="m"} 0.0\n')
    routes = {path: route for path, route in sglang.server().routes.items() if path != "/v1/loads"}
    _, client = connect({**routes, "/metrics": busy})
    assert sglang_engine.health(client).busy is True
    _, client = connect({"/health": Script(framing="length")})
    assert (sglang_engine.counters(client), sglang_engine.health(client).busy) == (None, None)


def test_sglang_tells_itself_under_its_older_path_too(connect: Connect) -> None:
    routes = dict(sglang.server("0.5.6").routes)
    routes["/get_server_info"] = routes.pop("/server_info")
    _, client = connect(routes)
    assert (probe(client).engine, probe(client).engine_version) == ("sglang", "0.5.6")


def test_mlx_lm_that_fails_to_list_its_models_is_measured_by_its_own_name_for_it(connect: Connect) -> None:
    """It does where nothing was ever downloaded: 200, and the connection ends before a body."""
    broken = Script(framing="close", headers={"content-type": "application/json"})
    _, client = connect({**mlxlm.server().routes, "/v1/models": broken})
    assert [model.id for model in probe(client).models] == ["default_model"]
