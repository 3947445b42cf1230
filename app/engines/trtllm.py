"""TensorRT-LLM's `trtllm-serve`: usage in the stream; its Prometheus figures are at a path of their own."""

from typing import ClassVar

from app.engines.base import Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import listed
from app.engines.protocol.health import health_of
from app.engines.protocol.json_helpers import object_at, string
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine

_EXPORTED = MetricNames(
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
    exported: ClassVar[MetricNames] = _EXPORTED
    key: ClassVar[str] = "trtllm"
    title: ClassVar[str] = "TensorRT-LLM"
    default_ports: ClassVar[tuple[int, ...]] = (8000,)
    divides_layers: ClassVar[bool] = True
    shards_equally: ClassVar[bool] = True
    rank: ClassVar[int] = 36
    slots_option: ClassVar[str] = "`--max_batch_size`"
    prompt_options: ClassVar[str] = "`--max_num_tokens`, `enable_chunked_prefill`"
    fixed_length: ClassVar[bool | None] = True
    counts_in_events: ClassVar[bool] = True

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        version = string(object_at(client, "/version").get("version"))
        # even before the first request, when there are names but no samples
        if version is None or b"trtllm_" not in client.get(_EXPORTED.path).body:
            return None
        return self._facts(listed(client), version)

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get("/health"))


ENGINE = TensorRTLLM()
