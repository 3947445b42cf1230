"""TensorRT-LLM's `trtllm-serve`: usage in the stream, Prometheus metrics at a path of their own where they are on.

Read in its source of 2026 (metrics/collector.py at 050f80de, serve/openai_protocol.py at 0076e939,
serve/openai_server.py at 00057725):

* Only a server with `return_perf_metrics` has `/prometheus/metrics`, and only one with iteration statistics its gauges.
  Any one names itself as owner of its model.
* Its gauge of running requests is counted when a step begins, and an idle server makes no step: it stays where the last
  step was. So it is watched while requests run, but says nothing of whether the server is busy before one.
* Its own `/metrics` and `/perf_metrics` hand each entry out once, to whoever asks first, so neither is read.
  `/health` looks at a flag; `/health_generate` generates and is never asked.
* An unknown field is refused, so that the negotiation finds out whether this version has `cache_salt`.
* Its decode time goes from the first token to the last: n - 1 tokens.
"""

from collections.abc import Mapping
from typing import Any

from app.core.samples import ServerFigures
from app.engines.base import CompletionRequest, Health, ServerInfo, SplitHabit
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, cache_salt, list_models, owners
from app.engines.protocol.answers import number, object_at, string
from app.engines.protocol.openai_chunk import first_choice
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.server_timings import ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect

_METRICS = MetricNames(
    path="/prometheus/metrics",
    requests=("trtllm_request_success_total",),
    prompt_tokens=("trtllm_prompt_tokens_total",),
    cached_tokens=("trtllm_prompt_cached_tokens_total",),
    output_tokens=("trtllm_generation_tokens_total",),
    seconds={
        "ttft_ms": ("trtllm_time_to_first_token_seconds",),
        "tpot_ms": ("trtllm_time_per_output_token_seconds",),
        "e2e_ms": ("trtllm_e2e_request_latency_seconds",),
        "queue_ms": ("trtllm_request_queue_time_seconds",),
        "prefill_ms": ("trtllm_request_prefill_time_seconds",),
        "decode_ms": ("trtllm_request_decode_time_seconds",),
    },
    prefill_seconds=("trtllm_request_prefill_time_seconds_sum",),
    decode_seconds=("trtllm_request_decode_time_seconds_sum",),
    shares={
        "draft_acceptance": (
            ("trtllm_spec_decode_accepted_tokens_total", "trtllm_spec_decode_num_accepted_tokens_total"),
            ("trtllm_spec_decode_drafted_tokens_total", "trtllm_spec_decode_num_draft_tokens_total"),
        )
    },
    gauges={
        "cache_hit_rate": ("share", ("trtllm_kv_cache_hit_rate",)),
        "tokens_per_step": ("", ("trtllm_avg_decoded_tokens_per_iter",)),
    },
    loads={
        "requests_running": ("trtllm_num_requests_running",),
        "requests_waiting": ("trtllm_num_requests_waiting",),
        "kv_cache_use": ("trtllm_kv_cache_utilization",),
    },
)
_OWNER = "tensorrt_llm"
_PER_STEP = "avg_decoded_tokens_per_iter"


def _chunk(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The chunk with the tokens of a step, which a choice states where drafts were accepted, beside its choices."""
    per_step = number(first_choice(value).get(_PER_STEP))
    return value if per_step is None else {**value, "steps": {_PER_STEP: per_step}}


def _figures(usage: ReportedUsage) -> ServerFigures | None:
    """It states no time of a request, and how many tokens were drafted neither."""
    return ServerFigures(raw=usage.raw("steps")) if usage.raw("steps") else llamacpp_timings(usage)


class TensorRTLLM(PrometheusEngine):
    metric_names = _METRICS
    key = "trtllm"
    title = "TensorRT-LLM"
    programs = ("trtllm-serve",)
    has_costly_paths = True
    default_ports = (8000,)
    health_path = "/health"
    split_habit = SplitHabit.TENSOR_PARALLEL
    owned_by = ("tensorrt_llm",)
    slots_option = "`--max_batch_size`"
    prompt_options = "`--max_num_tokens`, `enable_chunked_prefill`"
    dialect = Dialect(_chunk, _figures)
    cache_switch = "cache_salt"
    fixed_length = True
    counts_in_events = True

    def detect(self, client: ServerClient) -> ServerInfo | None:
        version = string(object_at(client, "/version").get("version"))
        # names are there before the first request, samples are not
        has_metrics = version is not None and b"trtllm_" in client.get(_METRICS.path).body
        if not has_metrics and _OWNER not in owners(client):
            return None
        return self._server_info(list_models(client), version)

    def health(self, client: ServerClient) -> Health:
        """By its status alone: see above."""
        return OpenAI.health(self, client)

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {**super()._extra_fields(request), **cache_salt(request)}


ENGINE = TensorRTLLM()
