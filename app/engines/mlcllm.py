"""MLC-LLM's `mlc_llm serve`.

Read in its source at 79d603f (July 2026); nothing here is only documented. With `--enable-debug` the usage has `extra`
and a request may ignore end tokens; without, both are dropped silently, and an answer may be shorter than asked for.
There is no endpoint for health, and none for the version. Its prefix cache has no switch per request: a nonce.

In `extra` the time to the first token goes from the engine's queue to the sampling of that token, and counts the prompt
tokens that were really processed; all others come in the n - 1 steps behind it. `/metrics` flattens a JSON document of
totals; reading it is a message to the engine's own loop, and generates nothing.
"""

from dataclasses import replace
from typing import Any

from app.core.samples import ServerFigures, Trace
from app.engines.base import CompletionRequest, ServerInfo
from app.engines.flags import FlagTable
from app.engines.http import ServerClient
from app.engines.openai import MODELS
from app.engines.protocol.answers import count, mapping, number, object_at, to_ms
from app.engines.protocol.models import listed_models
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.server_timings import ReportedUsage
from app.engines.protocol.trace_builder import Dialect

_OWNER = "MLC-LLM"
_METRICS = MetricNames(
    prompt_tokens=("prefill_tokens_sum",),
    output_tokens=("completion_tokens_sum",),
    holds_cached=False,
    prefill_seconds=("engine_prefill_time_sum",),
    decode_seconds=("engine_decode_time_sum",),
)


def _figures(reported: ReportedUsage) -> ServerFigures | None:
    extra = mapping(reported.usage.get("extra"))
    first_s, total_s = number(extra.get("ttft_s")), number(extra.get("end_to_end_latency_s"))
    if first_s is None or total_s is None:
        return None
    return ServerFigures(
        prompt_tokens=count(extra.get("prefill_tokens")) or None,
        prompt_ms=to_ms(first_s),
        output_tokens=reported.output_tokens,
        decode_ms=to_ms(total_s - first_s),
        raw={key: value for key, value in extra.items() if number(value) is not None},
    )


class MLCLLM(PrometheusEngine):
    metric_names = _METRICS
    key = "mlc-llm"
    title = "MLC-LLM"
    programs = ("mlc_llm", "mlc-llm")
    owned_by = (_OWNER,)
    default_ports = (8000,)
    slots_option = "`max_num_sequence` in `--overrides`"
    prompt_options = "`prefill_chunk_size` in `--overrides`"
    dialect = Dialect(figures=_figures, is_named=True)
    flags = FlagTable(without_bytes=frozenset({"--enable-debug", "--prefix-cache-mode"}))

    def detect(self, client: ServerClient) -> ServerInfo | None:
        listed = listed_models(object_at(client, MODELS)) or {}
        is_owner = bool(listed) and all(entry.get("owned_by") == _OWNER for entry in listed.values())
        return self._server_info(listed) if is_owner else None

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {"debug_config.ignore_eos": True}

    def refine(self, trace: Trace) -> Trace:
        """The prompt tokens that were not processed came from its prefix cache."""
        fresh = None if trace.server is None else trace.server.prompt_tokens
        if fresh is None or trace.prompt_tokens is None or trace.cached_tokens is not None:
            return trace
        return replace(trace, cached_tokens=max(0, trace.prompt_tokens - fresh))


ENGINE = MLCLLM()
