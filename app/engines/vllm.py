"""vLLM.

`cache_salt` keeps the prefix cache out without changing the prompt. Usage in every chunk tells how many tokens each
event holds. The role chunk leaves together with the first token, which counts where that token has no text of its own
(tags of a reasoning model are swallowed).
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar

from app.core.errors import ServerError
from app.core.samples import TOKEN_KINDS, CacheDefeat, Event, Kind, ServerFigures, Trace
from app.engines.base import CompletionRequest, Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import MODELS, listed
from app.engines.protocol import prometheus
from app.engines.protocol.health import busy_health, health_of
from app.engines.protocol.json_helpers import object_at, string
from app.engines.protocol.models import listed_models
from app.engines.protocol.openai_chunk import count, mapping, milliseconds
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.server_timings import Stated, of_timings
from app.engines.protocol.trace_builder import Dialect

_EXPORTED = MetricNames(
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
# older versions take the field and ignore it
_SALT_SINCE = (0, 9)


def _figures(stated: Stated) -> ServerFigures | None:
    """With per-request metrics on. Its TTFT begins when the request is scheduled, so that it holds no queue."""
    metrics = stated.objects.get("metrics")
    if not metrics:
        return of_timings(stated)
    return ServerFigures(
        prompt_tokens=stated.fresh_prompt_tokens,
        prompt_ms=milliseconds(metrics.get("time_to_first_token_ms")),
        output_tokens=stated.output_tokens,
        decode_ms=milliseconds(metrics.get("generation_time_ms")),
        queue_ms=milliseconds(metrics.get("queue_time_ms")),
        raw=stated.raw("metrics"),
    )


class VLLM(PrometheusEngine):
    exported: ClassVar[MetricNames] = _EXPORTED
    key: ClassVar[str] = "vllm"
    title: ClassVar[str] = "vLLM"
    default_ports: ClassVar[tuple[int, ...]] = (8000,)
    divides_layers: ClassVar[bool] = True
    shards_equally: ClassVar[bool] = True
    rank: ClassVar[int] = 40
    slots_option: ClassVar[str] = "`--max-num-seqs`"
    prompt_options: ClassVar[str] = "`--max-num-batched-tokens`, `--enable-chunked-prefill`"
    dialect: ClassVar[Dialect] = Dialect(figures=_figures)
    cache_switch: ClassVar[str | None] = "cache_salt"
    fixed_length: ClassVar[bool | None] = True
    counts_in_events: ClassVar[bool] = True

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        version = string(object_at(client, "/version").get("version"))
        if version is None:
            return None
        metrics = prometheus.scrape(client)
        # started without statistics, or behind a proxy that hides them, it still owns its models
        if not any(name.startswith("vllm:") for name in metrics) and not _owns_models(client):
            return None
        return self._facts(
            listed(client),
            version,
            settings=_cache_settings(metrics),
            capabilities={"cache_salt": _release(version) >= _SALT_SINCE},
        )

    def health(self, client: ServerClient) -> Health:
        health = health_of(client.get("/health"))
        if not health.ready:
            return health
        metrics = prometheus.scrape(client)
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
        return busy_health([prometheus.total(metrics, name) for name in names])

    def prompt_tokens(self, client: ServerClient, ask: CompletionRequest) -> int | None:
        body = {key: value for key, value in self._required(ask, CacheDefeat.SWITCH).items() if key != "stream"}
        try:
            return count(mapping(client.post_json("/tokenize", body)).get("count"))
        except ServerError:  # a server without it: unknown
            return None

    def _fields(self, ask: CompletionRequest) -> dict[str, Any]:
        salt = {} if ask.reuse_cache else {"cache_salt": ask.nonce or secrets.token_hex(8)}
        return {**super()._fields(ask), **salt}

    def _refine(self, trace: Trace) -> Trace:
        return replace(trace, events=_with_hidden_start(trace))


ENGINE = VLLM()


def _with_hidden_start(trace: Trace) -> tuple[Event, ...]:
    """The role chunk stands for the first token where others than the first visible one came before it."""
    seen = [event for event in trace.events if event.kind in TOKEN_KINDS]
    role = next((event for event in trace.events if event.kind is Kind.ROLE), None)
    if role is None or not seen:
        return trace.events
    told = seen[0].tokens
    hidden = told - 1 if told else (trace.output_tokens or 0) - len(seen)
    step_ms = median(after.at_ms - before.at_ms for before, after in pairwise(seen)) if len(seen) > 1 else 0.0
    # an event may also hold several tokens at once; those were made in one step
    if hidden < 1 or seen[0].at_ms - role.at_ms <= step_ms / 2:
        return trace.events
    return tuple(event._replace(kind=Kind.HIDDEN) if event is role else event for event in trace.events)


def _owns_models(client: ServerClient) -> bool:
    models = listed_models(object_at(client, MODELS)) or {}
    return any(entry.get("owned_by") == "vllm" for entry in models.values())


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return tuple(int(part) for part in found.groups()) if found else ()


def _cache_settings(metrics: Mapping[str, float]) -> dict[str, Any]:
    """The type of the KV cache, unless it is that of the model."""
    info = next((name for name in metrics if name.startswith("vllm:cache_config_info{")), "")
    found = re.search(r'[{,]cache_dtype="([^"]+)"', info)
    return {} if found is None or found[1] == "auto" else {"kv_type_k": found[1], "kv_type_v": found[1]}
