"""LM Studio by its own REST API, which tells of each model what is loaded and adds `stats` to each answer.

Where there is no `/api/v0` any more, `/api/v1/chat` streams named events; the last one holds the answer's counts.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import CacheDefeat, ServerFigures
from app.engines.base import CompletionRequest, Health, ModelInfo, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI
from app.engines.protocol.health import NO_ENDPOINT, health_of
from app.engines.protocol.json_helpers import object_at, string
from app.engines.protocol.models import file_stem, listed_models, quantization_in, shown_name
from app.engines.protocol.openai_chunk import count, mapping
from app.engines.protocol.server_timings import Stated, ms_of, of_timings
from app.engines.protocol.trace_builder import Dialect

V1 = "lmstudio_v1"
"""The capability that says which of the two APIs to ask."""
_MODELS, _MODELS_V1 = "/api/v0/models", "/api/v1/models"
_CHAT_V1 = "/api/v1/chat"
_ANSWERING = ("llm", "vlm")
_DELTAS = {"message.delta": "content", "reasoning.delta": "reasoning"}


def _as_openai(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The events of v1, told by their `type`; chunks of v0 are OpenAI's."""
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


def _figures(stated: Stated) -> ServerFigures | None:
    """Its time to the first token is no time of the prompt alone, so it stays in the raw figures only."""
    stats = stated.objects.get("stats")
    if not stats:
        return of_timings(stated)
    return ServerFigures(
        output_tokens=stated.output_tokens,
        decode_ms=ms_of(stats.get("generation_time")),
        load_ms=ms_of(stats.get("model_load_time_seconds")),
        raw={**stated.raw("stats"), **{f"runtime_{key}": value for key, value in stated.raw("runtime").items()}},
    )


class LMStudio(OpenAI):
    key: ClassVar[str] = "lmstudio"
    title: ClassVar[str] = "LM Studio"
    default_ports: ClassVar[tuple[int, ...]] = (1234,)
    rank: ClassVar[int] = 34
    slots_option: ClassVar[str] = "`Max Concurrent Predictions`"
    prompt_options: ClassVar[str] = "`Evaluation Batch Size`"
    path: ClassVar[str] = "/api/v0/chat/completions"
    dialect: ClassVar[Dialect] = Dialect(_as_openai, _figures)
    fixed_length: ClassVar[bool | None] = False
    api_roots: ClassVar[tuple[str, ...]] = ("/api",)

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        listed, is_v1 = listed_models(object_at(client, _MODELS)), False
        if listed is None:
            listed, is_v1 = _listed_v1(client), True
        if listed is None:
            return None
        models = [_model(name, entry) for name, entry in listed.items() if entry.get("type") in _ANSWERING]
        models.sort(key=lambda model: model.context_tokens is None)
        notes = () if models else (_("LM Studio has no model: download one first."),)
        return ServerInfo(self.key, None, tuple(models), capabilities={V1: True} if is_v1 else {}, notes=notes)

    def describe(self, client: ServerClient) -> ServerInfo:
        facts = self.recognise(client)
        if facts is None:  # with the problem that its list has
            client.get(_MODELS).json()
            raise ServerError(
                _("The answer to {path} lists no models: this is no LLM server.", path=_MODELS), ServerErrorKind.NOT_LLM
            )
        return facts

    def health(self, client: ServerClient) -> Health:
        answer = client.get(_MODELS)
        return health_of(client.get(_MODELS_V1) if answer.status in NO_ENDPOINT else answer)

    def _path(self, ask: CompletionRequest) -> str:
        return _CHAT_V1 if ask.capabilities.get(V1) else self.path

    def _required(self, ask: CompletionRequest, defeat: CacheDefeat) -> dict[str, Any]:
        body = super()._required(ask, defeat)
        if ask.capabilities.get(V1):
            body["input"] = body.pop("messages")[0]["content"]
        return body

    def _optional(self, ask: CompletionRequest) -> dict[str, Any]:
        if ask.capabilities.get(V1):
            return {"max_output_tokens": ask.output_tokens, "temperature": 0, "store": False}
        return super()._optional(ask)


ENGINE = LMStudio()


def _listed_v1(client: ServerClient) -> dict[str, Mapping[str, Any]] | None:
    """As v0 words it: by `key`, with the context of the instance that is loaded."""
    entries = object_at(client, _MODELS_V1).get("models")
    if not isinstance(entries, list):
        return None
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if name := string(mapping(entry).get("key")):
            instances = entry.get("loaded_instances")
            config = mapping(mapping(instances[0]).get("config")) if isinstance(instances, list) and instances else {}
            found[name] = {
                **entry,
                "quantization": mapping(entry.get("quantization")).get("name"),
                "loaded_context_length": config.get("context_length"),
                "state": "loaded" if instances else "not-loaded",
            }
    return found


def _model(identifier: str, entry: Mapping[str, Any]) -> ModelInfo:
    """Several quantizations of a model are told apart by a suffix: `google/gemma-3-12b@q4_k_m`, `@4bit`, or `@?`."""
    key, at, suffix = identifier.rpartition("@")
    named = quantization_in(suffix) or suffix if at and suffix != "?" else None
    name = key if at else identifier
    state = string(entry.get("state"))
    return ModelInfo(
        id=identifier,
        name=shown_name(name),
        quantization=string(entry.get("quantization")) or named or quantization_in(file_stem(name)),
        context_tokens=count(entry.get("loaded_context_length")) or None,
        max_context_tokens=count(entry.get("max_context_length")) or None,
        is_loaded=None if state is None else state == "loaded",
    )
