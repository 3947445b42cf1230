"""LMDeploy's `api_server` (TurboMind or PyTorch).

Read in its source at 1263d5c (0.16.0) and in 0.18.0; nothing here is only documented. Its answers hold no durations,
its metrics do. Usage comes in a chunk without choices, on request; cached tokens are in it since 0.14. Its prefix cache
is off by default and has no switch per request, so a nonce defeats it. An event holds whatever tokens one step made.

Its gauges of running and waiting requests, and of the KV cache, are brought up to date every ten seconds: they would
call the server busy with a request that has long ended, and are not read. `/health` repeats what a check in the
background found, and runs nothing itself while that is well.
"""

from typing import Any

from app.core.i18n import _
from app.engines.base import CompletionRequest, Health, ServerInfo, SplitHabit
from app.engines.flags import Flag, FlagTable, read_positive
from app.engines.http import ServerClient
from app.engines.openai import MODELS
from app.engines.protocol import prometheus
from app.engines.protocol.answers import object_at, object_in
from app.engines.protocol.models import listed_models
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.trace_builder import Dialect

_STARTING = "initializing"
_KV_TYPES = {"4": "int4", "8": "int8", "16": "fp8", "17": "fp8_e5m2"}
_METRICS = MetricNames(
    requests=("lmdeploy:request_success_total",),
    prompt_tokens=("lmdeploy:prompt_tokens_total",),
    cached_tokens=("lmdeploy:cached_tokens_total",),
    output_tokens=("lmdeploy:generation_tokens_total",),
    seconds={
        "ttft_ms": ("lmdeploy:time_to_first_token_seconds",),
        "itl_ms": ("lmdeploy:iter_token_latency",),
        "tpot_ms": ("lmdeploy:time_per_output_token_seconds",),
        "e2e_ms": ("lmdeploy:e2e_request_latency_seconds",),
        "queue_ms": ("lmdeploy:request_queue_time_seconds",),
        "prefill_ms": ("lmdeploy:request_prefill_time_seconds",),
        "decode_ms": ("lmdeploy:request_decode_time_seconds",),
    },
    prefill_seconds=("lmdeploy:request_prefill_time_seconds_sum",),
    decode_seconds=("lmdeploy:request_decode_time_seconds_sum",),
    shares={
        "cache_hit_rate": (("lmdeploy:cached_tokens_total",), ("lmdeploy:prompt_tokens_total",)),
        "draft_acceptance": (
            ("lmdeploy:spec_decode_num_accepted_tokens_total",),
            ("lmdeploy:spec_decode_num_draft_tokens_total",),
        ),
    },
)


class LMDeploy(PrometheusEngine):
    metric_names = _METRICS
    key = "lmdeploy"
    title = "LMDeploy"
    programs = ("lmdeploy",)
    owned_by = ("lmdeploy",)
    default_ports = (23333,)
    health_path = "/health"
    split_habit = SplitHabit.TENSOR_PARALLEL
    slots_option = "`--max-batch-size`"
    prompt_options = "`--max-prefill-token-num`"
    dialect = Dialect(is_named=True)
    flags = FlagTable(
        flags={
            "--tp": Flag(("tensor_parallel",)),
            "--session-len": Flag(("context",), read_positive),
            "--max-batch-size": Flag(("parallel",), read_positive),
            "--quant-policy": Flag(("kv_type_k", "kv_type_v"), _KV_TYPES.get),
            "--max-prefill-token-num": Flag(("batch",), read_positive),
        },
        ignored=frozenset((
            "--server-name", "--server-port", "--model-name", "--enable-metrics", "--disable-metrics", "--proxy-url",
            "--allow-origins", "--max-log-len", "--disable-fastapi-docs", "--session-id",
        )),
        without_bytes=frozenset((
            "--cache-max-entry-count", "--enable-prefix-caching", "--eager-mode", "--cache-block-seq-len",
            "--num-tokens-per-iter", "--max-prefill-iters", "--async", "--communicator",
            "--distributed-executor-backend",
        )),
        unmodelled=frozenset((
            "--backend", "--device", "--model-format", "--dp", "--ep", "--rope-scaling-factor", "--adapters",
            "--speculative-algorithm", "--speculative-draft-model", "--speculative-num-draft-tokens", "--role",
            "--disable-vision-encoder", "--vision-max-batch-size",
        )),
    )  # fmt: skip

    def detect(self, client: ServerClient) -> ServerInfo | None:
        listed = listed_models(object_at(client, MODELS)) or {}
        is_owner = any(entry.get("owned_by") == "lmdeploy" for entry in listed.values())
        if not is_owner and not any(name.startswith("lmdeploy:") for name in prometheus.scrape(client)):
            return None
        return self._server_info(listed)

    def health(self, client: ServerClient) -> Health:
        answer = client.get("/health")
        if object_in(answer).get("status") == _STARTING:
            return Health(ready=False, detail=_("The engine is loading its model."))
        return super().health(client)

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {"ignore_eos": True, "min_new_tokens": request.output_tokens}


ENGINE = LMDeploy()
