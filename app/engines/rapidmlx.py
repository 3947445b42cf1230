"""Rapid-MLX, which began as a fork of vllm-mlx: times and drafts of each request in its finish event.

Read in 0.16.10 and measured on a running one; nothing here is only documented. It has neither `ignore_eos` nor a switch
for its prefix cache. The role chunk leaves before the prompt is read, usage comes in a chunk of its own, and says how
many tokens were cached where there are any. With `--response-cache-entries` it repeats whole answers: off by default.

Its time to the first token goes from the request's arrival, a queue included; the mean time between tokens covers the
n - 1 steps behind the first one. A prompt that it compressed (`--pflash`) has fewer tokens than it counts.
"""

from collections.abc import Mapping
from typing import Any

from app.core.samples import ServerFigures
from app.engines.base import ServerInfo
from app.engines.flags import Flag, FlagTable, read_positive, read_type
from app.engines.http import ServerClient
from app.engines.openai import MODELS
from app.engines.protocol import prometheus
from app.engines.protocol.answers import count, mapping, milliseconds, number, object_at
from app.engines.protocol.models import listed_models
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.server_timings import ReportedUsage
from app.engines.protocol.trace_builder import Dialect

_METRICS = MetricNames(
    requests=("rapid_mlx_requests_processed_total",),
    prompt_tokens=("rapid_mlx_prompt_tokens_total",),
    cached_tokens=("rapid_mlx_prefix_cache_tokens_saved_total",),
    output_tokens=("rapid_mlx_completion_tokens_total",),
    seconds={"ttft_ms": ("rapid_mlx_model_ttft_seconds",)},
    shares={
        "draft_acceptance": (
            ("rapid_mlx_spec_decode_accepted_by_depth_total",),
            ("rapid_mlx_spec_decode_drafted_by_depth_total",),
        )
    },
    loads={
        "requests_running": ("rapid_mlx_requests_running",),
        "requests_waiting": ("rapid_mlx_requests_waiting",),
    },
)


def _figures(reported: ReportedUsage) -> ServerFigures | None:
    metrics = reported.objects.get("metrics")
    if not metrics:
        return None
    output, step_ms = reported.output_tokens, milliseconds(metrics.get("mean_itl_ms"))
    drafts = mapping(metrics.get("speculative_decoding"))
    return ServerFigures(
        prompt_tokens=None if metrics.get("prompt_compression") else reported.fresh_prompt_tokens,
        prompt_ms=milliseconds(metrics.get("time_to_first_token_ms")),
        output_tokens=output,
        decode_ms=step_ms * (output - 1) if step_ms and output and output > 1 else None,
        draft_tokens=_sum(drafts.get("drafted_by_depth")),
        draft_accepted_tokens=_sum(drafts.get("accepted_by_depth")),
        raw=reported.raw("metrics"),
    )


def _sum(values: Any) -> int | None:
    return sum(count(value) or 0 for value in values) if isinstance(values, list) and values else None


class RapidMLX(PrometheusEngine):
    metric_names = _METRICS
    key = "rapid-mlx"
    title = "Rapid-MLX"
    programs = ("rapid-mlx", "rapid_mlx")
    owned_by = ("rapid-mlx",)
    default_ports = (8000,)
    health_path = "/health/ready"
    slots_option = "`--max-num-seqs`"
    prompt_options = "`--prefill-step-size`"
    fixed_length = False
    dialect = Dialect(figures=_figures, is_named=True)
    flags = FlagTable(
        {
            "--max-num-seqs": Flag(("parallel",), read_positive),
            "--kv-cache-dtype": Flag(("kv_type_k", "kv_type_v"), read_type),
        }
    )

    def detect(self, client: ServerClient) -> ServerInfo | None:
        listed = listed_models(object_at(client, MODELS)) or {}
        metrics = prometheus.scrape(client)
        build = next((prometheus.labels(name) for name in metrics if name.startswith("rapid_mlx_build_info{")), {})
        if not build and not any(entry.get("owned_by") == "rapid-mlx" for entry in listed.values()):
            return None
        return self._server_info(listed, build.get("version"), settings=_cache_settings(metrics))


ENGINE = RapidMLX()


def _cache_settings(metrics: Mapping[str, float]) -> dict[str, Any]:
    """The type of the KV cache: of all that it knows, the one with the value 1."""
    names = (name for name, value in metrics.items() if name.startswith("rapid_mlx_kv_cache_dtype{") and number(value))
    kv_type = next((prometheus.labels(name).get("dtype") for name in names), None)
    return {} if kv_type is None else {"kv_type_k": kv_type, "kv_type_v": kv_type}
