"""Figures that engines state in places of their own, each read; on answers as their sources make them."""

from typing import Any

import pytest

from app import engines
from app.core.samples import CacheDefeat, ServerFigures, Status, Trace
from app.engines.base import CompletionRequest, Health
from tests.engines.conftest import Connect
from tests.engines.prompt_cache import STEP_MS, CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, WORDS, Route, Server, chunk, models, no_choices, stream, usage
from tests.engines.test_counting import between, ranges, rounded
from tests.engines.written import SERVERS, lmstudio, sglang, tabbyapi, trtllm
from tests.replay import Request, Script

PROMPT = " ".join(f"word{position}" for position in range(200))


def measured(connect: Connect, server: Server, routes: dict[str, Route] | None = None, **how: Any) -> list[Trace]:
    """The traces of five requests, by the client's real path: a probe, then requests with what it learned."""
    _, client = connect({**server.routes, **server.live, **(routes or {})}, pace=0.01)
    info = engines.probe(client)
    engine, capabilities, traces = engines.find(info.engine), dict(info.capabilities), []
    for ordinal in range(5):
        request = CompletionRequest(
            PROMPT, how.get("output_tokens", 8), server.models[0][0], nonce=f"{ordinal:08x}",
            reuse_cache=how.get("reuse_cache", False), capabilities=capabilities,
        )  # fmt: skip
        traces.append(engine.stream_completion(client, request))
        capabilities |= traces[-1].learned_capabilities
    assert {trace.status for trace in traces} == {Status.OK}, traces[0].error
    return traces


def figures_of(trace: Trace) -> ServerFigures:
    assert trace.server is not None
    return trace.server


def test_sglang_has_a_salt_once_it_keeps_it(connect: Connect) -> None:
    for version, defeat in (
        ("0.5.23", CacheDefeat.SWITCH),
        ("0.5.11.post1", CacheDefeat.SWITCH),
        ("0.5.10", CacheDefeat.NONCE),
    ):
        server = sglang.server(version)
        chat = server.live[CHAT]
        assert isinstance(chat, CachedChat)
        assert {trace.cache_defeat for trace in measured(connect, server)} == {defeat}
        assert max(turn.cached_tokens for turn in chat.turns) <= 3
        has_salt = [bool(turn.body.get("cache_salt")) for turn in chat.turns]
        assert has_salt == [defeat is CacheDefeat.SWITCH] * 5
        reused = measured(connect, server, reuse_cache=True)
        assert reused[-1].cached_tokens == chat.turns[-1].cached_tokens > 200
        assert (figures_of(reused[-1]).draft_tokens, figures_of(reused[-1]).draft_accepted_tokens) == (20, 12)


@pytest.mark.parametrize(
    ("routes", "ready", "busy"),
    [
        ({"/ready": Script(framing="length")}, True, None),
        ({"/ready": Script(status=503, framing="length")}, False, None),
        ({"/model_info": Script.json({"model_path": "m"})}, True, None),
        ({"/get_model_info": Script.json({"model_path": "m"})}, True, None),
        ({"/ready": Script(framing="length"), "/metrics": Script.text("sglang:num_running_reqs 2\n")}, True, True),
        ({"/ready": Script(framing="length"), "/v1/loads": Script.json({"loads": [sglang.LOAD] * 2})}, True, False),
        (
            {
                "/ready": Script(framing="length"),
                "/v1/loads": Script.json({"loads": [sglang.LOAD, {**sglang.LOAD, "num_waiting_reqs": 3}]}),
            },
            True,
            True,
        ),
    ],
)  # fmt: skip
def test_sglang_is_ready(connect: Connect, routes: dict[str, Script], ready: bool, busy: bool | None) -> None:
    replay, client = connect(routes)
    health: Health = engines.find("sglang").health(client)
    assert (health.ready, health.busy) == (ready, busy)
    assert not {"/health", "/health_generate", "/server_info"} & {request.path for request in replay.requests}


def test_sglang_is_idle_while_its_gauges_are_old(connect: Connect) -> None:
    idle = Script.json({"loads": [sglang.LOAD]})
    old = Script.text("sglang:num_running_reqs 1\n")
    _, client = connect({"/ready": Script(framing="length"), "/v1/loads": idle, "/metrics": old})
    assert engines.find("sglang").health(client).busy is False
    assert engines.find("sglang").load(client)["requests_running"] == 0
    waiting = {"/ready": Script(framing="length"), "/v1/loads": Script(end="mute")}
    _, client = connect(waiting, probe_timeout_s=0.3)
    assert engines.find("sglang").health(client).busy is True


def test_sglang_without_metrics_tells_its_load(connect: Connect) -> None:
    loads = [{**sglang.LOAD, "num_running_reqs": 2, "token_usage": 0.5}, sglang.LOAD]
    _, client = connect({"/v1/loads": Script.json({"loads": loads})})
    gauges = {"requests_running": 2.0, "requests_waiting": 0.0, "kv_cache_use": 0.25}
    assert engines.find("sglang").load(client) == gauges


def test_sglang_counts_prefill_work_without_metrics(connect: Connect) -> None:
    later = {**sglang.LOAD, "total_prefill_uncached_tokens": 7000, "total_prefill_busy_us": 3500000}
    readings = [Script.json({"loads": [load]}) for load in (sglang.LOAD, later)]
    assert rounded(between("sglang", connect, "/v1/loads", *readings)) == {"prefill_tokens_per_s mean": 2000}


SGLANG_METRICS = """\
sglang:num_requests_total{{model_name="m",is_streaming="true"}} {requests}
sglang:num_aborted_requests_total{{model_name="m"}} {aborted}
sglang:num_retracted_requests_total{{model_name="m"}} {aborted}
sglang:request_time_per_output_token_seconds_sum{{model_name="m",is_streaming="true"}} {tpot}
sglang:request_time_per_output_token_seconds_count{{model_name="m",is_streaming="true"}} {requests}
sglang:spec_accept_rate{{model_name="m"}} 0.5
"""


def test_sglang_between_two_readings(connect: Connect) -> None:
    before, after = (
        Script.text(SGLANG_METRICS.format(requests=requests, aborted=aborted, tpot=tpot))
        for requests, aborted, tpot in ((0, 0, 0), (5, 1, 0.1))
    )
    assert rounded(between("sglang", connect, "/metrics", before, after)) == {
        "requests total": 5,
        "aborted_requests total": 1,
        "preemptions total": 1,
        "tpot_ms mean": 20,
        "draft_acceptance now": 0.5,
    }


def test_trtllm_as_it_starts_by_default(connect: Connect) -> None:
    """Without `return_perf_metrics` it has no Prometheus metrics; its own `/metrics` is handed out once."""
    whole = trtllm.server()
    routes = {path: route for path, route in whole.routes.items() if path != "/prometheus/metrics"}
    replay, client = connect({**routes, **whole.live}, pace=0.01)
    info = engines.probe(client)
    assert (info.engine, info.engine_version) == ("trtllm", "1.2.0")
    engine = engines.find("trtllm")
    trace = engine.stream_completion(client, CompletionRequest(PROMPT, 8, "m", nonce="0123abcd"))
    assert (trace.cache_defeat, trace.cached_tokens) == (CacheDefeat.SWITCH, 0)
    (body,) = replay.posted()
    assert (body["ignore_eos"], body["min_tokens"]) == (True, 8)
    assert engine.counters(client) is None
    assert (engine.health(client).ready, engine.health(client).busy) == (True, None)
    assert not {"/metrics", "/perf_metrics"} & {request.path for request in replay.requests}


def test_trtllm_without_a_salt_gets_a_nonce(connect: Connect) -> None:
    """An older version forbids fields that it does not know."""
    server = trtllm.server()
    chat = CachedChat(trtllm.answer)
    words = "[{'type': 'extra_forbidden', 'loc': ('body', 'cache_salt'), 'msg': 'Extra inputs are not permitted'}]"

    def forbid(request: Request) -> Script:
        error = {"object": "error", "message": words, "type": "BadRequestError", "code": 400}
        return Script.json(error, 400) if "cache_salt" in request.json() else chat(request)

    traces = measured(connect, server, {CHAT: forbid})
    assert {trace.cache_defeat for trace in traces} == {CacheDefeat.NONCE}
    assert max(turn.cached_tokens for turn in chat.turns) <= 3
    assert all(turn.body["ignore_eos"] and turn.body["min_tokens"] == 8 for turn in chat.turns)


TRTLLM_METRICS = """\
trtllm_request_success_total{{model_name="m",finished_reason="length"}} {requests}
trtllm_prompt_tokens_total{{model_name="m"}} {prompt}
trtllm_prompt_cached_tokens_total{{model_name="m"}} {cached}
trtllm_generation_tokens_total{{model_name="m"}} {output}
trtllm_request_prefill_time_seconds_sum{{model_name="m"}} {prefill}
trtllm_request_prefill_time_seconds_count{{model_name="m"}} {requests}
trtllm_request_decode_time_seconds_sum{{model_name="m"}} {decode}
trtllm_request_decode_time_seconds_count{{model_name="m"}} {requests}
trtllm_avg_decoded_tokens_per_iter{{model_name="m"}} 1.5
trtllm_num_requests_running{{model_name="m"}} 2
trtllm_num_requests_waiting{{model_name="m"}} 1
trtllm_kv_cache_utilization{{model_name="m"}} 0.25
"""


def test_trtllm_between_two_readings(connect: Connect) -> None:
    """Decode: 5 requests of 41 tokens, 40 steps each in 2 s of decode time in all."""
    before, after = (
        Script.text(TRTLLM_METRICS.format(**values))
        for values in (
            {"requests": 0, "prompt": 0, "cached": 0, "output": 0, "prefill": 0, "decode": 0},
            {"requests": 5, "prompt": 1500, "cached": 500, "output": 205, "prefill": 0.5, "decode": 2.0},
        )
    )
    assert rounded(between("trtllm", connect, "/prometheus/metrics", before, after)) == {
        "requests total": 5,
        "prompt_tokens total": 1500,
        "cached_tokens total": 500,
        "output_tokens total": 205,
        "prefill_ms mean": 100,
        "decode_ms mean": 400,
        "prefill_tokens_per_s mean": 2000,
        "decode_tokens_per_s mean": 100,
        "tokens_per_step now": 1.5,
    }
    _, client = connect({"/health": Script(framing="length"), "/prometheus/metrics": after})
    # the last step of an idle server had requests, too
    assert engines.find("trtllm").health(client).busy is None
    gauges = {"requests_running": 2.0, "requests_waiting": 1.0, "kv_cache_use": 0.25}
    assert engines.find("trtllm").load(client) == gauges


TGI_METRICS = """\
tgi_request_success {requests}
tgi_request_generated_tokens_sum {output}
tgi_request_generated_tokens_count {requests}
tgi_request_input_length_sum {prompt}
tgi_request_queue_duration_sum {queue}
tgi_request_queue_duration_count {requests}
tgi_batch_inference_duration_bucket{{method="decode",le="0.015"}} {steps}
tgi_batch_inference_duration_bucket{{method="decode",le="+Inf"}} {steps}
tgi_batch_inference_duration_sum{{method="decode"}} {decode}
tgi_batch_inference_duration_count{{method="decode"}} {steps}
tgi_batch_inference_duration_bucket{{method="prefill",le="0.015"}} 0
tgi_batch_inference_duration_bucket{{method="prefill",le="+Inf"}} {requests}
tgi_batch_inference_duration_sum{{method="prefill"}} {prefill}
tgi_batch_inference_duration_count{{method="prefill"}} {requests}
tgi_request_mean_time_per_token_duration_sum {decode}
tgi_request_mean_time_per_token_duration_count {requests}
tgi_batch_current_size 1
tgi_queue_size 0
"""


def test_tgi_between_two_readings(connect: Connect) -> None:
    before, after = (
        Script.text(TGI_METRICS.format(**values))
        for values in (
            {"requests": 0, "output": 0, "prompt": 0, "queue": 0, "steps": 0, "decode": 0, "prefill": 0},
            {"requests": 5, "output": 205, "prompt": 1500, "queue": 0.05, "steps": 200, "decode": 2, "prefill": 0.5},
        )
    )
    metrics = between("tgi", connect, "/metrics", before, after)
    assert rounded(metrics) == {
        "requests total": 5,
        "prompt_tokens total": 1500,
        "output_tokens total": 205,
        "queue_ms mean": 10,
        "itl_ms mean": 10,
        "prefill_ms mean": 100,
    }
    assert ranges(metrics)["itl_ms p50"] == (0, 15)
    _, client = connect({"/info": Script.json({}), "/metrics": after})
    assert engines.find("tgi").health(client).busy is True


def test_lmstudio_tells_with_what_a_model_was_loaded(connect: Connect) -> None:
    settings = {"parallel": 4, "batch": 512, "flash_attention": "on", "kv_offload": "off"}
    for server in (lmstudio.server(), lmstudio.newer()):
        _, client = connect(server.routes)
        loaded, unloaded = engines.probe(client).models
        assert (loaded.size_bytes, loaded.settings, loaded.is_loaded) == (5030000000, settings, True)
        assert (unloaded.settings, unloaded.is_loaded) == ({}, False)
        assert (loaded.quantization, loaded.context_tokens, loaded.max_context_tokens) == ("Q4_K_M", 4096, 40960)


def test_lmstudio_with_its_newer_api_only(connect: Connect) -> None:
    server = lmstudio.newer()
    chat = server.live["/api/v1/chat"]
    assert isinstance(chat, CachedChat)
    traces = measured(connect, server)
    assert max(turn.cached_tokens for turn in chat.turns) <= 3
    trace, figures = traces[0], figures_of(traces[0])
    assert (trace.prompt_tokens, trace.output_tokens, trace.reasoning_tokens) == (chat.turns[0].prompt_tokens, 8, 2)
    # the speed that it states, over n - 1 tokens
    assert figures.output_tokens == 8
    assert figures.decode_ms == pytest.approx(7 * STEP_MS)
    assert (figures.draft_tokens, figures.draft_accepted_tokens, figures.load_ms) == (20, 14, 2500)


def test_koboldcpp_tells_its_load(connect: Connect) -> None:
    _, client = connect({"/api/extra/perf": Script.json({"idle": 0, "queue": 2})})
    assert engines.find("koboldcpp").load(client) == {"requests_running": 1.0, "requests_waiting": 2.0}


@pytest.mark.parametrize("cached", [0, 256, 511])
def test_tabbyapi_tells_cached_tokens_by_its_rate(connect: Connect, cached: int) -> None:
    server = tabbyapi.server()
    _, client = connect({**server.routes, CHAT: tabbyapi.answer(Turn(512, cached, 41), queue_s=0.5)}, pace=0.01)
    trace = engines.find("tabbyapi").stream_completion(client, CompletionRequest("hello", 41, None))
    # the prompt's time of a single token is rounded to nothing, and its rate is a word
    assert trace.cached_tokens == (None if cached == 511 else cached)
    assert (figures_of(trace).queue_ms, figures_of(trace).decode_ms) == (500.0, 400.0)


def test_tabbyapi_has_no_queue_within_its_rounding(connect: Connect) -> None:
    _, client = connect({CHAT: tabbyapi.answer(Turn(512), queue_s=0.01)}, pace=0.01)
    trace = engines.find("tabbyapi").stream_completion(client, CompletionRequest("hello", 3, None))
    assert figures_of(trace).queue_ms is None


@pytest.mark.parametrize("key", ["tabbyapi", "koboldcpp", "lmstudio", "localai"])
def test_the_clock_of_the_decode_covers_all_steps_but_the_first(key: str, connect: Connect) -> None:
    engine = engines.find(key)
    assert engine.decode_intervals == "n-1"
    for trace in measured(connect, SERVERS[key](), output_tokens=41):
        figures = figures_of(trace)
        assert figures.output_tokens == 41
        assert figures.decode_ms == pytest.approx(40 * STEP_MS)


def test_localai_that_keeps_its_system_for_administrators(connect: Connect) -> None:
    card = Script.json({"version": "v3.9.0", "endpoints": {"models": "/v1/models"}})
    refused = Script.json({"error": {"message": "forbidden"}}, 403)
    _, client = connect({"/system": refused, "/.well-known/localai.json": card, "/v1/models": models("m")})
    info = engines.probe(client)
    assert (info.engine, info.engine_version) == ("localai", "v3.9.0")


def test_vllm_with_all_its_metrics_of_a_request(connect: Connect) -> None:
    request_metrics = {
        "time_to_first_token_ms": 85.2,
        "generation_time_ms": 20.0,
        "queue_time_ms": 12.3,
        "prefix_cache": {"num_computed_tokens": 26, "num_cached_tokens": 16, "prefill_time_ms": 85.2},
        "speculative_decoding": {"num_draft_tokens": 129, "num_accepted_draft_tokens": 10, "num_spec_steps": 43},
    }
    last = no_choices(**usage(42, 3), metrics=request_metrics)
    _, client = connect({CHAT: stream(ROLE, *WORDS, chunk({}, "length"), last)}, pace=0.01)
    trace = engines.find("vllm").stream_completion(client, CompletionRequest("hello", 3, None, reuse_cache=True))
    figures = figures_of(trace)
    assert (trace.prompt_tokens, trace.cached_tokens, figures.prompt_tokens) == (42, 16, 26)
    assert (figures.draft_tokens, figures.draft_accepted_tokens, figures.queue_ms) == (129, 10, 12.3)
    assert (figures.prompt_ms, figures.decode_ms) == (85.2, 20.0)


def test_a_list_without_names_still_names_the_owner(connect: Connect) -> None:
    _, client = connect({"/version": Script.json({"version": "0.32.0"}), "/v1/models": models("m", owned_by="vllm")})
    assert engines.probe(client).engine == "vllm"
