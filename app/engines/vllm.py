"""vLLM.

`cache_salt` defeats the prefix cache without changing the prompt. Usage in every chunk says how many tokens each event
holds. The role chunk leaves together with the first token, and marks it where that token has no text of its own (tags
of a reasoning model are swallowed).

Its documentation of 0.32 (features/per_request_metrics.md, speculative_decoding/acceptance_metrics.md) is the source of
what `--enable-per-request-metrics` and `--per-request-spec-decode-metrics` add: the time of the generation covers n - 1
tokens, and the prefill's time starts when the request is scheduled. `/health` looks at a flag.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar

from app.core.errors import ServerError
from app.core.samples import TOKEN_KINDS, CacheDefeat, Event, Kind, ServerFigures, Trace
from app.engines.base import CompletionRequest, ServerInfo, SplitHabit
from app.engines.flags import TENSOR_PARALLEL_FLAGS, Flag, FlagTable, read_positive
from app.engines.http import ServerClient
from app.engines.openai import cache_salt, list_models, owners
from app.engines.protocol import prometheus
from app.engines.protocol.answers import count, mapping, milliseconds, object_at, release, string
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.server_timings import CACHE_REPORT, ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect

_METRICS = MetricNames(
    requests=("vllm:request_success_total",),
    prompt_tokens=("vllm:prompt_tokens_total",),
    cached_tokens=("vllm:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total"),
    output_tokens=("vllm:generation_tokens_total",),
    seconds={
        "ttft_ms": ("vllm:time_to_first_token_seconds",),
        "itl_ms": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        "tpot_ms": ("vllm:request_time_per_output_token_seconds",),
        "e2e_ms": ("vllm:e2e_request_latency_seconds",),
        "queue_ms": ("vllm:request_queue_time_seconds",),
        "prefill_ms": ("vllm:request_prefill_time_seconds",),
        "decode_ms": ("vllm:request_decode_time_seconds",),
    },
    totals={"preemptions": ("vllm:num_preemptions_total",)},
    prefill_seconds=("vllm:request_prefill_time_seconds_sum",),
    decode_seconds=("vllm:request_decode_time_seconds_sum",),
    shares={
        "cache_hit_rate": (("vllm:prefix_cache_hits_total",), ("vllm:prefix_cache_queries_total",)),
        "draft_acceptance": (
            ("vllm:spec_decode_num_accepted_tokens_total",),
            ("vllm:spec_decode_num_draft_tokens_total",),
        ),
    },
    loads={
        "requests_running": ("vllm:num_requests_running",),
        "requests_waiting": ("vllm:num_requests_waiting",),
        "kv_cache_use": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    },
)


def _chunk(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The chunk with the cached tokens of its per-request metrics where ReportedUsage looks for them."""
    cached = count(mapping(mapping(value.get("metrics")).get("prefix_cache")).get("num_cached_tokens"))
    return value if cached is None else {**value, CACHE_REPORT: {"cached_tokens": cached}}


def _figures(usage: ReportedUsage) -> ServerFigures | None:
    """The figures with per-request metrics on. Its TTFT starts when the request is scheduled, without the queue."""
    metrics = usage.objects.get("metrics")
    if not metrics:
        return llamacpp_timings(usage)
    drafts = mapping(metrics.get("speculative_decoding"))
    return ServerFigures(
        prompt_tokens=usage.fresh_prompt_tokens,
        prompt_ms=milliseconds(metrics.get("time_to_first_token_ms")),
        # with the metrics of drafts alone no times are stated
        output_tokens=usage.output_tokens if "generation_time_ms" in metrics else None,
        decode_ms=milliseconds(metrics.get("generation_time_ms")),
        queue_ms=milliseconds(metrics.get("queue_time_ms")),
        draft_tokens=count(drafts.get("num_draft_tokens")),
        draft_accepted_tokens=count(drafts.get("num_accepted_draft_tokens")),
        raw=usage.raw("metrics"),
    )


class VLLM(PrometheusEngine):
    metric_names = _METRICS
    key = "vllm"
    title = "vLLM"
    programs = ("vllm", "vllm-openai", "vllm.entrypoints.openai.api_server")
    default_ports = (8000,)
    decode_intervals = "n-1"
    health_path = "/health"
    split_habit = SplitHabit.TENSOR_PARALLEL
    owned_by: ClassVar[tuple[str, ...]] = ("vllm",)
    slots_option = "`--max-num-seqs`"
    prompt_options = "`--max-num-batched-tokens`, `--enable-chunked-prefill`"
    dialect = Dialect(_chunk, _figures, is_named=True)
    flags = FlagTable(
        flags={
            **TENSOR_PARALLEL_FLAGS,
            "--max-model-len": Flag(("context",), read_positive),
            "--max-num-seqs": Flag(("parallel",), read_positive),
            "--max-num-batched-tokens": Flag(("batch",), read_positive),
        },
        ignored=frozenset((
            "--enable-auto-tool-choice", "--disable-log-stats", "--enable-per-request-metrics",
            "--enable-prompt-tokens-details", "--uvicorn-log-level", "--disable-uvicorn-access-log",
            "--enable-log-requests", "--enable-log-outputs", "--max-log-len", "--response-role", "--lora-modules",
            "--chat-template-content-format", "--generation-config", "--override-generation-config",
            "--enable-server-load-tracking", "--disable-access-log-for-endpoints", "--tool-parser-plugin",
            "--return-tokens-as-token-ids", "--enable-force-include-usage", "--allowed-methods", "--allowed-headers",
            "--allow-credentials", "--per-request-spec-decode-metrics", "--max-logprobs", "--tokenizer-mode",
            "--hf-overrides", "--limit-mm-per-prompt", "--otlp-traces-endpoint", "--collect-detailed-traces",
            "--config-format", "--tokenizer-revision", "--code-revision", "--middleware", "--root-path",
        )),
        without_bytes=frozenset((
            "--enable-prefix-caching", "--no-enable-prefix-caching", "--enable-chunked-prefill",
            "--gpu-memory-utilization", "--enforce-eager", "--no-enable-chunked-prefill", "--block-size",
            "--max-num-partial-prefills", "--max-long-partial-prefills", "--long-prefill-token-threshold",
            "--num-scheduler-steps", "--multi-step-stream-outputs", "--scheduling-policy", "--async-scheduling",
            "--no-async-scheduling", "--attention-backend", "--compilation-config", "-O", "--optimization-level",
            "--cudagraph-capture-sizes", "--max-cudagraph-capture-size", "--disable-custom-all-reduce",
            "--api-server-count", "-asc", "--distributed-executor-backend", "--worker-cls", "--seed",
            "--enable-lora", "--max-loras", "--max-lora-rank", "--disable-cascade-attn", "--kv-cache-memory-bytes",
            "--prefix-caching-hash-algo", "--preemption-mode", "--enable-sleep-mode", "--max-seq-len-to-capture",
            "--performance-mode", "--kv-cache-space-gb", "--stream-interval", "--enable-dbo",
        )),
        unmodelled=frozenset((
            "--quantization", "-q", "--speculative-config", "--speculative-model", "--num-speculative-tokens",
            "--spec-method", "--spec-model", "--spec-tokens", "--swap-space", "--cpu-offload-gb",
            "--kv-offloading-size", "--kv-offloading-backend", "--kv-transfer-config", "--data-parallel-size", "-dp",
            "--enable-expert-parallel", "-ep", "--enable-eplb", "--calculate-kv-scales", "--num-gpu-blocks-override",
            "--rope-scaling", "--rope-theta", "--decode-context-parallel-size", "-dcp", "--all2all-backend",
            "--mm-processor-kwargs", "--language-model-only", "--additional-config", "--task", "--runner",
        )),
    )  # fmt: skip
    environment: ClassVar[Mapping[str, str]] = {
        "VLLM_ATTENTION_BACKEND": "--attention-backend=",
        "VLLM_CPU_KVCACHE_SPACE": "--kv-cache-space-gb=",
    }
    config_flags = ("--config",)
    cache_switch = "cache_salt"
    salt_since: ClassVar[tuple[int, ...]] = (0, 9)
    """Older versions take the field and ignore it."""
    metric_prefix: ClassVar[str] = "vllm:"
    fixed_length = True
    counts_in_events = True

    def detect(self, client: ServerClient) -> ServerInfo | None:
        version = string(object_at(client, "/version").get("version"))
        if version is None:
            return None
        metrics = prometheus.scrape(client)
        # without statistics, or behind a proxy that hides them, the list of models still names the owner
        if not any(name.startswith(self.metric_prefix) for name in metrics) and owners(client).isdisjoint(
            self.owned_by
        ):
            return None
        return self._server_info(
            list_models(client),
            version,
            settings=_cache_settings(metrics, self.metric_prefix),
            capabilities={"cache_salt": release(version) >= self.salt_since},
        )

    def prompt_tokens(self, client: ServerClient, request: CompletionRequest) -> int | None:
        body = {key: value for key, value in self._required(request, CacheDefeat.SWITCH).items() if key != "stream"}
        try:
            return count(mapping(client.post_json("/tokenize", body)).get("count"))
        except ServerError:  # a server without it: unknown
            return None

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {**super()._extra_fields(request), **cache_salt(request)}

    def refine(self, trace: Trace) -> Trace:
        return replace(trace, events=_with_hidden_start(trace))


ENGINE = VLLM()


def _with_hidden_start(trace: Trace) -> tuple[Event, ...]:
    """The events, where the role chunk is a token event if tokens came before the first visible one."""
    visible = [event for event in trace.events if event.kind in TOKEN_KINDS]
    role = next((event for event in trace.events if event.kind is Kind.ROLE), None)
    if role is None or not visible:
        return trace.events
    first_count = visible[0].tokens
    hidden = first_count - 1 if first_count else (trace.output_tokens or 0) - len(visible)
    step_ms = median(after.at_ms - before.at_ms for before, after in pairwise(visible)) if len(visible) > 1 else 0.0
    # an event may also hold several tokens at once; those were made in one step
    if hidden < 1 or visible[0].at_ms - role.at_ms <= step_ms / 2:
        return trace.events
    return tuple(event._replace(kind=Kind.HIDDEN) if event is role else event for event in trace.events)


def _cache_settings(metrics: Mapping[str, float], prefix: str) -> dict[str, Any]:
    """The type of the KV cache, where it is not the model's own."""
    info = next((name for name in metrics if name.startswith(f"{prefix}cache_config_info{{")), "")
    match = re.search(r'[{,]cache_dtype="([^"]+)"', info)
    return {} if match is None or match[1] == "auto" else {"kv_type_k": match[1], "kv_type_v": match[1]}
