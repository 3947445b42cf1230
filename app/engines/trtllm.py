"""TensorRT-LLM's `trtllm-serve`: usage in the stream, Prometheus metrics at a path of their own."""

from app.engines.base import ServerInfo, SplitHabit
from app.engines.http import ServerClient
from app.engines.openai import list_models
from app.engines.protocol.answers import object_at, string
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine

_METRICS = MetricNames(
    path="/prometheus/metrics",
    requests=("trtllm_request_success_total",),
    seconds={
        "ttft_ms": ("trtllm_time_to_first_token_seconds",),
        "tpot_ms": ("trtllm_time_per_output_token_seconds",),
        "e2e_ms": ("trtllm_e2e_request_latency_seconds",),
        "queue_ms": ("trtllm_request_queue_time_seconds",),
        "prefill_ms": ("trtllm_request_prefill_time_seconds",),
        "decode_ms": ("trtllm_request_decode_time_seconds",),
    },
    shares={
        "draft_acceptance": (
            ("trtllm_spec_decode_accepted_tokens_total",),
            ("trtllm_spec_decode_drafted_tokens_total",),
        )
    },
    gauges={"cache_hit_rate": ("share", ("trtllm_kv_cache_hit_rate",))},
    loads={"kv_cache_use": ("trtllm_kv_cache_utilization",)},
)


class TensorRTLLM(PrometheusEngine):
    metric_names = _METRICS
    key = "trtllm"
    title = "TensorRT-LLM"
    default_ports = (8000,)
    health_path = "/health"
    split_habit = SplitHabit.TENSOR_PARALLEL
    owned_by = ("tensorrt_llm",)
    slots_option = "`--max_batch_size`"
    prompt_options = "`--max_num_tokens`, `enable_chunked_prefill`"
    fixed_length = True
    counts_in_events = True

    def detect(self, client: ServerClient) -> ServerInfo | None:
        version = string(object_at(client, "/version").get("version"))
        # names are there before the first request, samples are not
        if version is None or b"trtllm_" not in client.get(_METRICS.path).body:
            return None
        return self._server_info(list_models(client), version)


ENGINE = TensorRTLLM()
