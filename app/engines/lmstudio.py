"""LM Studio by its own REST API, which reports what is loaded of each model and adds `stats` to each answer.

Where there is no `/api/v0` any more, `/api/v1/chat` streams named events; the last one has the answer's counts. Its
source is closed: all of this is from its documentation (at c6854fb, LM Studio 0.4), none was seen in a source.

* v0 states the generation's time, v1 only its speed: the time is then that of n - 1 tokens at this speed, so that the
  speed shown is the one stated. Which of n and n - 1 LM Studio divides by, it does not say.
* v1 lists the bytes of a model and with what its instance was loaded; v0 has less, so both lists are read.
* With a draft model, `stats` counts draft tokens. Both lists only read state.
"""

from collections.abc import Mapping
from typing import Any

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import CacheDefeat, ServerFigures
from app.engines.base import CompletionRequest, Health, ModelInfo, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI
from app.engines.protocol.answers import NO_ENDPOINT, count, health_of, mapping, number, object_at, string, to_ms
from app.engines.protocol.models import file_stem, listed_models, quantization_in, shown_name
from app.engines.protocol.server_timings import ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect

V1 = "lmstudio_v1"
"""The capability that says which of the two APIs the server has."""
_MODELS, _MODELS_V1 = "/api/v0/models", "/api/v1/models"
_CHAT_V1 = "/api/v1/chat"
_CHAT_MODELS = ("llm", "vlm")
_DELTAS = {"message.delta": "content", "reasoning.delta": "reasoning"}


def _as_openai(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event of v1, by its `type`, as OpenAI would have sent it; chunks of v0 already are OpenAI's."""
    kind = string(value.get("type")) or ""
    if kind in _DELTAS:
        return {"choices": [{"index": 0, "delta": {_DELTAS[kind]: value.get("content")}}]}
    if kind == "chat.end":
        result = mapping(value.get("result"))
        stats = mapping(result.get("stats"))
        tokens = {
            "prompt_tokens": stats.get("input_tokens"),
            "completion_tokens": stats.get("total_output_tokens"),
            "reasoning_tokens": stats.get("reasoning_output_tokens"),
        }
        return {"model": result.get("model_instance_id"), "usage": tokens, "stats": stats, "done": True}
    if kind.partition(".")[0] in ("model_load", "prompt_processing"):
        return {"prompt_progress": value.get("progress")}
    return value


def _figures(usage: ReportedUsage) -> ServerFigures | None:
    """The figures in `stats`; its time to the first token includes more than the prompt, so it is only stored raw."""
    stats = usage.objects.get("stats")
    if not stats:
        return llamacpp_timings(usage)
    rate, output = number(stats.get("tokens_per_second")), usage.output_tokens
    by_rate_ms = (output - 1) / rate * 1000 if rate and output and output > 1 else None
    return ServerFigures(
        output_tokens=output,
        decode_ms=to_ms(stats.get("generation_time")) or by_rate_ms,
        draft_tokens=count(stats.get("total_draft_tokens_count")) or None,
        draft_accepted_tokens=count(stats.get("accepted_draft_tokens_count")),
        load_ms=to_ms(stats.get("model_load_time_seconds")),
        raw={**usage.raw("stats"), **{f"runtime_{key}": value for key, value in usage.raw("runtime").items()}},
    )


class LMStudio(OpenAI):
    key = "lmstudio"
    title = "LM Studio"
    default_ports = (1234,)
    owned_by = ("organization_owner",)
    decode_intervals = "n-1"
    slots_option = "`Max Concurrent Predictions`"
    prompt_options = "`Evaluation Batch Size`"
    chat_path = "/api/v0/chat/completions"
    dialect = Dialect(_as_openai, _figures)
    fixed_length = False
    api_roots = ("/api",)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        listed, newer = listed_models(object_at(client, _MODELS)), _listed_v1(client)
        is_v1 = listed is None
        if listed is None and newer is None:
            return None
        listed = {name: {**(newer or {}).get(name, {}), **entry} for name, entry in (listed or newer or {}).items()}
        models = [_model(name, entry) for name, entry in listed.items() if entry.get("type") in _CHAT_MODELS]
        models.sort(key=lambda model: model.context_tokens is None)
        notes = () if models else (_("LM Studio has no model: download one first."),)
        return ServerInfo(self.key, None, tuple(models), capabilities={V1: True} if is_v1 else {}, notes=notes)

    def describe(self, client: ServerClient) -> ServerInfo:
        info = self.detect(client)
        if info is None:
            client.get(_MODELS).json()  # raises what is wrong with the list itself
            raise ServerError(
                _("The answer to {path} lists no models: this is no LLM server.", path=_MODELS), ServerErrorKind.NOT_LLM
            )
        return info

    def health(self, client: ServerClient) -> Health:
        answer = client.get(_MODELS)
        return health_of(client.get(_MODELS_V1) if answer.status in NO_ENDPOINT else answer)

    def _chat_path(self, request: CompletionRequest) -> str:
        return _CHAT_V1 if request.capabilities.get(V1) else self.chat_path

    def _required(self, request: CompletionRequest, defeat: CacheDefeat) -> dict[str, Any]:
        body = super()._required(request, defeat)
        if request.capabilities.get(V1):
            body["input"] = body.pop("messages")[0]["content"]
        return body

    def _optional(self, request: CompletionRequest) -> dict[str, Any]:
        if request.capabilities.get(V1):
            return {"max_output_tokens": request.output_tokens, "temperature": 0, "store": False}
        return super()._optional(request)


ENGINE = LMStudio()


def _listed_v1(client: ServerClient) -> dict[str, Mapping[str, Any]] | None:
    """The list of v1 in the form of v0: by `key`, with the context of the loaded instance. None where there is none."""
    entries = object_at(client, _MODELS_V1).get("models")
    if not isinstance(entries, list):
        return None
    models: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if name := string(mapping(entry).get("key")):
            instances = entry.get("loaded_instances")
            config = mapping(mapping(instances[0]).get("config")) if isinstance(instances, list) and instances else {}
            models[name] = {
                **entry,
                "config": config,
                "quantization": mapping(entry.get("quantization")).get("name"),
                "loaded_context_length": config.get("context_length"),
                "state": "loaded" if instances else "not-loaded",
            }
    return models


def _model(identifier: str, entry: Mapping[str, Any]) -> ModelInfo:
    """A suffix separates quantizations of one model: `google/gemma-3-12b@q4_k_m`, `@4bit`, or `@?`."""
    key, at, suffix = identifier.rpartition("@")
    suffix_quantization = quantization_in(suffix) or suffix if at and suffix != "?" else None
    name = key if at else identifier
    state = string(entry.get("state"))
    return ModelInfo(
        id=identifier,
        name=shown_name(name),
        quantization=string(entry.get("quantization")) or suffix_quantization or quantization_in(file_stem(name)),
        context_tokens=count(entry.get("loaded_context_length")) or None,
        max_context_tokens=count(entry.get("max_context_length")) or None,
        size_bytes=count(entry.get("size_bytes")) or None,
        settings=_settings(mapping(entry.get("config"))),
        is_loaded=None if state is None else state == "loaded",
    )


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with which an instance was loaded."""
    switches = {"flash_attention": "flash_attention", "kv_offload": "offload_kv_cache_to_gpu"}
    numbers = {"parallel": "parallel", "batch": "eval_batch_size"}
    return {
        **{key: value for key, name in numbers.items() if (value := count(config.get(name)))},
        **{
            key: "on" if config[name] else "off" for key, name in switches.items() if isinstance(config.get(name), bool)
        },
    }
