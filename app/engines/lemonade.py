"""Lemonade, AMD's gateway to llama.cpp and vLLM on GPUs, and to FastFlowLM and RyzenAI on NPUs.

Read in its source at e385039 (v11.7.0 and 32 commits): `owned_by` of every model is `lemonade`, its `recipe` says what
runs it; `/api/v1/health` has of each loaded model the device, the whole command line and whether it is at work. The
stream of what runs the model passes unchanged, with `: ping` comments between. FastFlowLM's usage holds its own times
in seconds (seen in the parts of its source that search shows): the step that makes the first token belongs to the
prompt, so the decode time covers n - 1 steps. Whether RyzenAI's stream has times was not seen; where there are none,
`/v1/stats` has the gateway's own of the last request, by its clock from the first chunk to the end.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app import engines
from app.core.errors import ServerError
from app.core.i18n import _
from app.core.samples import ServerFigures, Status, Trace
from app.engines.base import CompletionRequest, Engine, Health, ModelInfo, ServerInfo
from app.engines.http import Answer, ServerClient
from app.engines.openai import list_models, model_info
from app.engines.protocol.answers import (
    busy_health,
    count,
    health_of,
    is_plain,
    mapping,
    object_at,
    object_in,
    string,
    to_ms,
)
from app.engines.protocol.answers import number as as_number
from app.engines.protocol.gateway import Gateway, arguments_of, with_backend
from app.engines.protocol.models import quantization_in
from app.engines.protocol.prometheus_engine import MetricNames
from app.engines.protocol.server_timings import ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect

_HEALTH = "/api/v1/health"
_STATS = "/api/v1/stats"
_BACKENDS = {"llamacpp": "llama.cpp", "vllm": "vllm"}
"""Its recipes that are engines of ours."""
_CHAT_RECIPES = frozenset({"llamacpp", "vllm", "flm", "ryzenai-llm", "cloud", "collection.omni", "collection.router"})
_NO_CHAT_LABELS = frozenset({"embeddings", "embedding", "reranking", "transcription", "image", "tts"})
_METRICS = MetricNames(
    requests=("lemonade_model_requests_total", "lemonade_requests_total"),
    prompt_tokens=("lemonade_model_prompt_tokens_total", "lemonade_prompt_tokens_total"),
    cached_tokens=("lemonade_model_cache_tokens_total", "lemonade_cache_tokens_total"),
    output_tokens=("lemonade_model_output_tokens_total", "lemonade_output_tokens_total"),
    prefill_seconds=("lemonade_llamacpp_prompt_seconds_total",),
    decode_seconds=("lemonade_llamacpp_tokens_predicted_seconds_total",),
    shares={
        "cache_hit_rate": (
            ("lemonade_model_cache_tokens_total", "lemonade_cache_tokens_total"),
            ("lemonade_model_prompt_tokens_total", "lemonade_prompt_tokens_total"),
        )
    },
)


def _figures(reported: ReportedUsage) -> ServerFigures | None:
    usage = reported.usage
    if "decoding_duration" not in usage and "prefill_duration_ttft" not in usage:
        return llamacpp_timings(reported)
    return ServerFigures(
        prompt_tokens=reported.fresh_prompt_tokens,
        prompt_ms=to_ms(usage.get("prefill_duration_ttft")),
        output_tokens=reported.output_tokens,
        decode_ms=to_ms(usage.get("decoding_duration"))
        or _decode_ms(reported.output_tokens, usage.get("decoding_speed_tps")),
        raw=reported.raw("usage"),
    )


class Lemonade(Gateway):
    metric_names = _METRICS
    key = "lemonade"
    title = "Lemonade"
    default_ports = (13305, 8000)
    owned_by = ("lemonade",)
    imitates = ("ollama", "lmstudio")
    health_path = _HEALTH
    fixed_length = False
    dialect = Dialect(figures=_figures)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        health = object_at(client, _HEALTH)
        return self._description(client, health) if isinstance(health.get("all_models_loaded"), list) else None

    def describe(self, client: ServerClient) -> ServerInfo:
        return self._description(client, object_at(client, _HEALTH))

    def _description(self, client: ServerClient, health: Mapping[str, Any]) -> ServerInfo:
        loaded = _loaded_models(health)
        entries = {name: entry for name, entry in list_models(client).items() if _is_for_chat(entry)}
        models = [_model(name, entry, loaded.get(name)) for name, entry in entries.items()]
        models.sort(key=lambda model: (model.runs_on is not None, not model.is_loaded))
        return ServerInfo(
            engine=self.key,
            engine_version=string(health.get("version")),
            models=tuple(models),
            notes=() if models else (_("The server offers no model: download one first."),),
        )

    def health(self, client: ServerClient) -> Health:
        answer: Answer = client.get(_HEALTH)
        health = health_of(answer)
        if not health.ready:
            return health
        loaded = _loaded_models(object_in(answer)).values()
        reported = [float(run["is_busy"]) for run in loaded if isinstance(run.get("is_busy"), bool)]
        return busy_health(reported)

    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        if self._backend(client) is not None:
            return super().stream_completion(client, request)
        before = count(_stats(client).get("request_count_total"))
        trace = super().stream_completion(client, request)
        if trace.server is not None or trace.status is not Status.OK:
            return trace
        stats = _stats(client)
        # exactly one more request than before: the figures are those of this answer
        is_own = before is not None and count(stats.get("request_count_total")) == before + 1
        return _with_stats(trace, stats) if is_own else trace


ENGINE = Lemonade()


def _decode_ms(output_tokens: int | None, tokens_per_s: object) -> float | None:
    rate = as_number(tokens_per_s)
    return output_tokens / rate * 1000 if rate and output_tokens else None


def _loaded_models(health: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    loaded = health.get("all_models_loaded")
    entries = [mapping(entry) for entry in loaded] if isinstance(loaded, list) else []
    return {name: entry for entry in entries if (name := string(entry.get("model_name")))}


def _is_for_chat(entry: Mapping[str, Any]) -> bool:
    labels = entry.get("labels")
    names = {label for label in labels if isinstance(label, str)} if isinstance(labels, list) else set()
    return entry.get("recipe") in (None, *_CHAT_RECIPES) and not names & _NO_CHAT_LABELS


def _model(name: str, entry: Mapping[str, Any], run: Mapping[str, Any] | None) -> ModelInfo:
    recipe = string((run or entry).get("recipe")) or string(entry.get("recipe"))
    model = replace(
        model_info(name, entry),
        max_context_tokens=count(entry.get("max_context_window")) or None,
        quantization=quantization_in(string(entry.get("checkpoint")) or "") or model_info(name, entry).quantization,
        is_loaded=run is not None,
    )
    if provider := string(entry.get("cloud_provider")):
        return replace(model, runs_on=provider, is_loaded=None)
    options = mapping((run or {}).get("recipe_options"))
    kind = string(options.get(f"{recipe}_backend"))
    settings = {"recipe": f"{recipe} ({kind})" if kind else recipe, "devices": string((run or {}).get("device"))}
    model = replace(
        model,
        settings={key: value for key, value in settings.items() if value is not None},
        context_tokens=count(options.get("ctx_size")) or model.context_tokens,
    )
    engine = engines.get(_BACKENDS.get(recipe or "", ""))
    return model if engine is None else _with_command(model, engine, run or {})


def _with_command(model: ModelInfo, engine: Engine, run: Mapping[str, Any]) -> ModelInfo:
    command = run.get("launch_command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    return with_backend(model, engine, line=arguments_of(engine, words))


def _stats(client: ServerClient) -> Mapping[str, Any]:
    try:
        return object_at(client, _STATS)
    except ServerError:  # the answer itself reports what is wrong with the server
        return {}


def _with_stats(trace: Trace, stats: Mapping[str, Any]) -> Trace:
    output = count(stats.get("output_tokens")) or trace.output_tokens
    if trace.output_tokens is not None and output != trace.output_tokens:
        return trace
    figures = ServerFigures(
        output_tokens=output,
        decode_ms=_decode_ms(output, stats.get("tokens_per_second")),
        raw={key: value for key, value in stats.items() if is_plain(value)},
    )
    return replace(trace, server=figures)
