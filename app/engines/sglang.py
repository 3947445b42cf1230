"""SGLang. It tells cached tokens only with cache reporting on, so a nonce keeps its prefix cache out."""

from typing import ClassVar

from app.engines.base import Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import listed
from app.engines.protocol import prometheus
from app.engines.protocol.health import busy_health, health_of
from app.engines.protocol.json_helpers import object_at, string
from app.engines.protocol.openai_chunk import count
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine

_INFO_PATHS = ("/server_info", "/get_server_info")
_EXPORTED = MetricNames(
    requests=("sglang:num_requests_total",),
    prompt_tokens=("sglang:prompt_tokens_total",),
    cached_tokens=("sglang:cached_tokens_total",),
    output_tokens=("sglang:generation_tokens_total",),
    seconds={
        "ttft_ms": ("sglang:time_to_first_token_seconds",),
        "itl_ms": ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        "e2e_ms": ("sglang:e2e_request_latency_seconds",),
        "queue_ms": ("sglang:queue_time_seconds",),
    },
    shares={"cache_hit_rate": (("sglang:cached_tokens_total",), ("sglang:prompt_tokens_total",))},
    gauges={"draft_acceptance": ("share", ("sglang:spec_accept_rate",))},
    loads={
        "requests_running": ("sglang:num_running_reqs",),
        "requests_waiting": ("sglang:num_queue_reqs",),
        "kv_cache_use": ("sglang:token_usage",),
    },
)


class SGLang(PrometheusEngine):
    exported: ClassVar[MetricNames] = _EXPORTED
    key: ClassVar[str] = "sglang"
    title: ClassVar[str] = "SGLang"
    default_ports: ClassVar[tuple[int, ...]] = (30000,)
    divides_layers: ClassVar[bool] = True
    shards_equally: ClassVar[bool] = True
    rank: ClassVar[int] = 38
    slots_option: ClassVar[str] = "`--max-running-requests`"
    prompt_options: ClassVar[str] = "`--chunked-prefill-size`"
    fixed_length: ClassVar[bool | None] = True
    counts_in_events: ClassVar[bool] = True

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        told = next((found for path in _INFO_PATHS if "model_path" in (found := object_at(client, path))), None)
        if told is None:
            return None
        kv_type = string(told.get("kv_cache_dtype"))
        path = string(told.get("model_path"))
        return self._facts(
            {name: {"root": path, **entry} for name, entry in listed(client).items()},
            string(told.get("version")),
            count(told.get("context_length")) or None,
            settings={} if kv_type in (None, "auto") else {"kv_type_k": kv_type, "kv_type_v": kv_type},
        )

    def health(self, client: ServerClient) -> Health:
        health = health_of(client.get("/health"))
        if not health.ready:
            return health
        metrics = prometheus.scrape(client)
        names = ("sglang:num_running_reqs", "sglang:num_queue_reqs")
        return busy_health([prometheus.total(metrics, name) for name in names])


ENGINE = SGLang()
