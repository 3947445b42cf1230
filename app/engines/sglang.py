"""SGLang.

Read in the source of 0.5.23, compared with 0.5.10, 0.5.11 and 0.4.10:

* `cache_salt` gives a request a prefix cache of its own. Versions before 0.5.11 take the field and lose it on the way
  to the scheduler, so there a nonce defeats the cache.
* Usage has cached tokens only with `--enable-cache-report`. A request may ask for them (`return_cached_tokens_details`)
  and for its draft tokens (`return_spec_tokens_details`, newer versions): both come in an `sglext` object before usage,
  which is left out where the counts are zero.
* `/health` generates a token and answers after a whole second. `/ready` and `/model_info` only look at a flag, and
  `/v1/loads` at a snapshot in shared memory that is new as soon as the server is idle, while its gauges in the metrics
  may be 30 s old then. `/server_info` asks the scheduler and is left to the probe.
* Its times are in Prometheus metrics only (`--enable-metrics`); a decode time covers n - 1 tokens there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import CacheDefeat, ServerFigures
from app.core.server_metrics import ServerMetric
from app.engines.base import CompletionRequest, Counters, Health, ServerInfo, SplitHabit
from app.engines.flags import TENSOR_PARALLEL_FLAGS, Flag, FlagTable, read_positive
from app.engines.http import Answer, ServerClient
from app.engines.openai import cache_salt, list_models
from app.engines.protocol.answers import (
    NO_ENDPOINT,
    busy_health,
    count,
    health_of,
    is_plain,
    mapping,
    number,
    object_at,
    release,
    string,
)
from app.engines.protocol.param_negotiation import Negotiation
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.server_timings import CACHE_REPORT, ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect

_INFO_PATHS = ("/server_info", "/get_server_info")
_READY_PATHS = ("/ready", "/model_info", "/get_model_info")
"""Each asked only where the one before is missing; the first also says that the server is paused or starting."""
_LOADS = "/v1/loads"
_PREFILL_TOKENS, _PREFILL_US = f"{_LOADS} total_prefill_uncached_tokens", f"{_LOADS} total_prefill_busy_us"
_SALT_SINCE = (0, 5, 11)
_METRICS = MetricNames(
    requests=("sglang:num_requests_total",),
    prompt_tokens=("sglang:prompt_tokens_total",),
    cached_tokens=("sglang:cached_tokens_total",),
    output_tokens=("sglang:generation_tokens_total",),
    seconds={
        "ttft_ms": ("sglang:time_to_first_token_seconds",),
        "itl_ms": ("sglang:inter_token_latency_seconds",),
        "tpot_ms": ("sglang:request_time_per_output_token_seconds", "sglang:time_per_output_token_seconds"),
        "e2e_ms": ("sglang:e2e_request_latency_seconds",),
        "queue_ms": ("sglang:queue_time_seconds",),
    },
    totals={
        "aborted_requests": ("sglang:num_aborted_requests_total",),
        "preemptions": ("sglang:num_retracted_requests_total",),
    },
    shares={"cache_hit_rate": (("sglang:cached_tokens_total",), ("sglang:prompt_tokens_total",))},
    gauges={"draft_acceptance": ("share", ("sglang:spec_accept_rate",))},
    loads={
        "requests_running": ("sglang:num_running_reqs",),
        "requests_waiting": ("sglang:num_queue_reqs",),
        "kv_cache_use": ("sglang:token_usage",),
    },
)


def _chunk(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The chunk with the cached tokens of its `sglext` where ReportedUsage looks for them."""
    details = mapping(mapping(value.get("sglext")).get("cached_tokens_details"))
    if not details:
        return value
    cached = sum(count(details.get(tier)) or 0 for tier in ("device", "host", "storage"))
    return {**value, CACHE_REPORT: {"cached_tokens": cached}}


def _figures(usage: ReportedUsage) -> ServerFigures | None:
    """Draft tokens, where a request had any; it states no times."""
    drafts = mapping(usage.objects.get("sglext", {}).get("spec_tokens_details"))
    if not drafts:
        return llamacpp_timings(usage)
    return ServerFigures(
        draft_tokens=count(drafts.get("spec_num_proposed_drafts")),
        draft_accepted_tokens=count(drafts.get("spec_num_correct_drafts")),
        raw={key: value for key, value in drafts.items() if is_plain(value)},
    )


class SGLang(PrometheusEngine):
    metric_names = _METRICS
    key = "sglang"
    title = "SGLang"
    programs = ("sglang", "sglang.launch_server")
    has_costly_paths = True
    default_ports = (30000,)
    split_habit = SplitHabit.TENSOR_PARALLEL
    owned_by = ("sglang",)
    slots_option = "`--max-running-requests`"
    prompt_options = "`--chunked-prefill-size`"
    dialect = Dialect(_chunk, _figures)
    cache_switch = "cache_salt"
    fixed_length = True
    counts_in_events = True
    flags = FlagTable(
        flags={
            **TENSOR_PARALLEL_FLAGS,
            "--context-length": Flag(("context",), read_positive),
            "--max-running-requests": Flag(("parallel",), read_positive),
        },
        ignored=frozenset((
            "--enable-metrics", "--enable-cache-report", "--log-requests", "--log-requests-level", "--log-level-http",
            "--show-time-cost", "--decode-log-interval", "--random-seed", "--served-model-name", "--nccl-port",
            "--dist-init-addr", "--skip-server-warmup", "--warmups", "--watchdog-timeout", "--sampling-defaults",
            "--sampling-backend", "--grammar-backend", "--stream-output", "--tokenizer-mode", "--enable-trace",
            "--json-model-override-args", "--model-loader-extra-config", "--skip-tokenizer-init",
        )),
        without_bytes=frozenset((
            "--mem-fraction-static", "--chunked-prefill-size", "--max-prefill-tokens", "--max-total-tokens",
            "--schedule-policy", "--schedule-conservativeness", "--page-size", "--stream-interval",
            "--attention-backend", "--prefill-attention-backend", "--decode-attention-backend",
            "--disable-radix-cache", "--disable-cuda-graph", "--cuda-graph-max-bs", "--cuda-graph-bs",
            "--disable-cuda-graph-padding", "--disable-overlap-schedule", "--enable-torch-compile",
            "--torch-compile-max-bs", "--enable-mixed-chunk", "--disable-custom-all-reduce", "--enable-p2p-check",
            "--triton-attention-num-kv-splits", "--num-continuous-decode-steps", "--disable-chunked-prefix-cache",
            "--enable-nccl-nvls", "--tokenizer-worker-num", "--load-balance-method", "--flashinfer-mla-disable-ragged",
            "--enable-symm-mem", "--enable-two-batch-overlap", "--enable-dp-attention", "--max-loaded-loras",
        )),
        unmodelled=frozenset((
            "--quantization", "--dp-size", "--dp", "--data-parallel-size", "--ep-size", "--ep",
            "--expert-parallel-size", "--speculative-algorithm", "--speculative-draft-model-path",
            "--speculative-draft-model",
            "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens",
            "--speculative-attention-mode", "--cpu-offload-gb", "--torchao-config", "--moe-runner-backend",
            "--moe-a2a-backend", "--enable-hierarchical-cache", "--hicache-ratio", "--hicache-size",
            "--disaggregation-mode", "--nnodes", "--node-rank", "--device", "--is-embedding", "--enable-multimodal",
            "--quantization-param-path", "--lora-paths", "--enable-lora",
        )),
        several=frozenset({"--cuda-graph-bs", "--lora-paths"}),
    )  # fmt: skip
    config_flags = ("--config",)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        documents = (object_at(client, path) for path in _INFO_PATHS)
        info = next((document for document in documents if "model_path" in document), None)
        if info is None:
            return None
        kv_type = string(info.get("kv_cache_dtype"))
        model_path, version = string(info.get("model_path")), string(info.get("version"))
        return self._server_info(
            {name: {"root": model_path, **entry} for name, entry in list_models(client).items()},
            version,
            count(info.get("context_length")) or None,
            settings={} if kv_type in (None, "auto") else {"kv_type_k": kv_type, "kv_type_v": kv_type},
            capabilities={"cache_salt": release(version) >= _SALT_SINCE},
        )

    def health(self, client: ServerClient) -> Health:
        health = health_of(_readiness(client))
        if not health.ready:
            return health
        try:
            load = self.load(client)
        except ServerError as problem:
            if problem.trouble is not ServerErrorKind.TIMEOUT:
                raise
            # older versions ask the scheduler, which answers only between two steps
            return Health(ready=True, detail=_("The server is working on a long prompt."), busy=True)
        return busy_health([load.get("requests_running"), load.get("requests_waiting")])

    def load(self, client: ServerClient) -> Mapping[str, float]:
        return _load(_snapshots(client)) or super().load(client)

    def counters(self, client: ServerClient) -> Counters | None:
        """Its metrics, and the prefill work that it counts without them."""
        counters, snapshots = super().counters(client), _snapshots(client)
        work = {
            _PREFILL_TOKENS: _sum(snapshots, "total_prefill_uncached_tokens"),
            _PREFILL_US: _sum(snapshots, "total_prefill_busy_us"),
        }
        prefill = {name: value for name, value in work.items() if value is not None}
        if counters is None and not prefill:
            return None
        counters = counters or Counters()
        return replace(counters, totals={**counters.totals, **prefill}, raw={**counters.raw, **prefill})

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        figures = super().server_metrics(before, after, model, requests)
        tokens, us = (after.raw.get(name, 0.0) - before.raw.get(name, 0.0) for name in (_PREFILL_TOKENS, _PREFILL_US))
        if tokens <= 0 or us <= 0:
            return figures
        how = _("{part} over {whole}, difference of two readings", part=_PREFILL_TOKENS, whole="total_prefill_busy_us")
        return [*figures, ServerMetric("prefill_tokens_per_s", "mean", "tok/s", tokens / us * 1e6, how)]

    def _cache_defeat(self, request: CompletionRequest, negotiation: Negotiation) -> CacheDefeat:
        """A nonce, unless the version is known to keep the salt: others take it without a word."""
        if request.reuse_cache or _keeps_salt(request):
            return super()._cache_defeat(request, negotiation)
        return CacheDefeat.NONE if request.nonce is None else CacheDefeat.NONCE

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {
            **super()._extra_fields(request),
            **(cache_salt(request) if _keeps_salt(request) else {}),
            "return_cached_tokens_details": True,
            "return_spec_tokens_details": True,
        }


ENGINE = SGLang()


def _keeps_salt(request: CompletionRequest) -> bool:
    return request.capabilities.get("cache_salt") is True


def _readiness(client: ServerClient) -> Answer:
    """The answer of the first readiness path that this version has."""
    for path in _READY_PATHS[:-1]:
        answer = client.get(path)
        if answer.status not in NO_ENDPOINT:
            return answer
    return client.get(_READY_PATHS[-1])


def _load(snapshots: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The gauges of the moment over all data-parallel ranks; none where there are no snapshots."""
    use = _sum(snapshots, "token_usage")
    gauges = {
        "requests_running": _sum(snapshots, "num_running_reqs"),
        "requests_waiting": _sum(snapshots, "num_waiting_reqs"),
        "kv_cache_use": None if use is None else use / len(snapshots),
    }
    return {name: value for name, value in gauges.items() if value is not None}


def _snapshots(client: ServerClient) -> Sequence[Mapping[str, Any]]:
    loads = object_at(client, f"{_LOADS}?include=core").get("loads")
    return [load for load in loads if isinstance(load, dict)] if isinstance(loads, list) else ()


def _sum(snapshots: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [value for snapshot in snapshots if (value := number(snapshot.get(name))) is not None]
    return sum(values) if values else None
