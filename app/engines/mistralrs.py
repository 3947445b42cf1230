"""mistral.rs: seconds of prompt and completion beside the usage, and what it was built from at `/v1/system/info`.

Read in its source at 9e92262 (after 0.9.2), and in 0.7 and 0.9.0 where they differ; the usage was measured on a running
0.9.5. Nothing here is only documented. Usage comes with the finish event, asked for or not, and counts cached prompt
tokens; 0.9.5 says how many they are, 0.9.2 does not. Its prefix cache has no switch, so a nonce defeats it.
`ignore_eos` is there since 0.9.1; before, it is overlooked.

The gauge of running sequences keeps its last value while nothing runs, so the requests in flight say what is going on.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.core.samples import ServerFigures
from app.engines.base import CompletionRequest, ServerInfo
from app.engines.flags import Flag, FlagTable, read_positive, read_type
from app.engines.http import ServerClient
from app.engines.openai import MODELS
from app.engines.protocol.answers import mapping, number, object_at, string, to_ms
from app.engines.protocol.models import listed_models
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.server_timings import ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect

_INFO = "/v1/system/info"
_DEFAULT = "default"
"""Its name for whichever model is the first; listed before the models themselves."""
# whole milliseconds: of a shorter prompt more than 5 % may be missing
_SHORTEST_MS = 20.0
_SHORTEST_STEP_MS = 10.0
# single precision
_SAME_SECONDS = 0.002
_METRICS = MetricNames(
    requests=("mistralrs_sequences_completed_total",),
    seconds={
        "ttft_ms": ("mistralrs_time_to_first_token_seconds",),
        "itl_ms": ("mistralrs_inter_token_latency_seconds",),
    },
    totals={"preemptions": ("mistralrs_paged_preemptions_total",)},
    shares={
        "draft_acceptance": (
            ("mistralrs_speculative_draft_tokens_accepted_total",),
            ("mistralrs_speculative_draft_tokens_proposed_total",),
        )
    },
    loads={"requests_running": ("http_requests_in_flight",)},
)


def _figures(reported: ReportedUsage) -> ServerFigures | None:
    """The prompt's time ends with the first token, the completion's time covers the n - 1 steps after it."""
    usage = reported.usage
    if not {"total_prompt_time_sec", "total_completion_time_sec"} & usage.keys():
        return llamacpp_timings(reported)
    prompt_ms = to_ms(usage.get("total_prompt_time_sec"))
    return ServerFigures(
        prompt_tokens=reported.fresh_prompt_tokens,
        prompt_ms=None if prompt_ms is None or prompt_ms < _SHORTEST_MS else prompt_ms,
        output_tokens=reported.output_tokens,
        decode_ms=_decode_ms(usage, reported.output_tokens),
        raw=reported.raw("usage"),
    )


def _decode_ms(usage: Mapping[str, Any], output_tokens: int | None) -> float | None:
    """The completion's time; None where its rounding could make it wrong by more than 5 %.

    Since 0.9 it is a sum of steps, each of them cut to whole milliseconds: on average half a millisecond is missing of
    each (31 steps took 1,093.8 ms, 1,079 were stated). Then the total is exactly the sum of the two parts; before, it
    also had the time between them.
    """
    stated_ms, steps = to_ms(usage.get("total_completion_time_sec")), (output_tokens or 0) - 1
    if stated_ms is None or steps < 1:
        return None
    parts = number(usage.get("total_prompt_time_sec")) or 0.0
    total = number(usage.get("total_time_sec"))
    if total is not None and abs(total - parts - stated_ms / 1000) > _SAME_SECONDS:
        return stated_ms
    return stated_ms + steps / 2 if stated_ms >= steps * _SHORTEST_STEP_MS else None


class MistralRs(PrometheusEngine):
    metric_names = _METRICS
    key = "mistralrs"
    title = "mistral.rs"
    programs = ("mistralrs", "mistralrs-server", "mistral.rs")
    default_ports = (1234,)
    health_path = "/health"
    slots_option = "`--max-seqs`"
    prompt_options = "`--max-num-batched-tokens`"
    dialect = Dialect(figures=_figures, is_named=True)
    flags = FlagTable(
        {
            "--max-seqs": Flag(("parallel",), read_positive),
            "--max-num-batched-tokens": Flag(("batch",), read_positive),
            "--pa-cache-type": Flag(("kv_type_k", "kv_type_v"), read_type),
            "--max-seq-len": Flag(("context",), read_positive),
        },
        ignored=frozenset({"--serve-ip", "--log", "--ui", "--enable-search", "--tok-model-id", "--model-id", "-l"}),
        without_bytes=frozenset((
            "--prefix-cache-n", "--no-kv-cache", "--paged-attn", "--no-paged-attn", "--pa-blk-size", "--pa-gpu-mem",
            "--pa-gpu-mem-usage", "--pa-ctxt-len", "--max-batch-size", "--truncate-sequence",
        )),
        unmodelled=frozenset((
            "--isq", "--in-situ-quant", "--device-layers", "--num-device-layers", "--cpu", "--from-uqff", "--imatrix",
            "--topology", "--quantized-model-id", "--quantized-filename", "--mtp", "--draft-model",
        )),
    )  # fmt: skip

    def detect(self, client: ServerClient) -> ServerInfo | None:
        build = mapping(object_at(client, _INFO).get("build"))
        listed = listed_models(object_at(client, MODELS)) or {}
        alias = listed.get(_DEFAULT, {})
        if "git_revision" not in build and (alias.get("owned_by"), alias.get("root")) != ("local", _DEFAULT):
            return None
        if len(listed) > 1:
            listed.pop(_DEFAULT, None)
        info = self._server_info(listed, string(build.get("version")), settings=_settings(build))
        loaded = {name: _is_loaded(entry) for name, entry in listed.items()}
        models = [replace(model, is_loaded=loaded[model.id]) for model in info.models]
        return replace(info, models=tuple(sorted(models, key=lambda model: model.is_loaded is False)))

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {"ignore_eos": True}


ENGINE = MistralRs()


def _is_loaded(entry: Mapping[str, Any]) -> bool | None:
    status = string(entry.get("status"))
    return None if status is None else status == "loaded"


def _settings(build: Mapping[str, Any]) -> dict[str, Any]:
    """What the build decides: without an accelerator's code it runs on the CPU alone."""
    if build.get("cuda") is True:
        return {"flash_attention": "on" if True in (build.get("flash_attn"), build.get("flash_attn_v3")) else "off"}
    return {"cards": 0} if build.get("cuda") is False and build.get("metal") is False else {}
