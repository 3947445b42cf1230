"""SGLang. It reports cached tokens only with cache reporting on, so a nonce defeats its prefix cache."""

from app.engines.base import ServerInfo, SplitHabit
from app.engines.flags import TENSOR_PARALLEL_FLAGS, Flag, FlagTable, read_positive
from app.engines.http import ServerClient
from app.engines.openai import list_models
from app.engines.protocol.answers import count, object_at, string
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine

_INFO_PATHS = ("/server_info", "/get_server_info")
_METRICS = MetricNames(
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
    metric_names = _METRICS
    key = "sglang"
    title = "SGLang"
    programs = ("sglang", "sglang.launch_server")
    default_ports = (30000,)
    health_path = "/health"
    split_habit = SplitHabit.TENSOR_PARALLEL
    owned_by = ("sglang",)
    slots_option = "`--max-running-requests`"
    prompt_options = "`--chunked-prefill-size`"
    fixed_length = True
    counts_in_events = True
    flags = FlagTable(
        flags={
            **TENSOR_PARALLEL_FLAGS,
            "--context-length": Flag(("context",), read_positive),
            "--max-running-requests": Flag(("parallel",), read_positive),
        },
        without_bytes=frozenset({"--mem-fraction-static"}),
    )

    def detect(self, client: ServerClient) -> ServerInfo | None:
        documents = (object_at(client, path) for path in _INFO_PATHS)
        info = next((document for document in documents if "model_path" in document), None)
        if info is None:
            return None
        kv_type = string(info.get("kv_cache_dtype"))
        model_path = string(info.get("model_path"))
        return self._server_info(
            {name: {"root": model_path, **entry} for name, entry in list_models(client).items()},
            string(info.get("version")),
            count(info.get("context_length")) or None,
            settings={} if kv_type in (None, "auto") else {"kv_type_k": kv_type, "kv_type_v": kv_type},
        )


ENGINE = SGLang()
