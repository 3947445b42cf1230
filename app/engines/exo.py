"""exo: one model on several machines; statistics of a request in a comment behind its last chunk.

Read in its source at b5375f8 (June 2026), and in v1.0.71 where that differs; its own code made the stream and the state
that the tests are written after. Nothing here is only documented.
`/bench/chat/completions` is the chat endpoint that bans end tokens and leaves the prefix cache alone, unless asked to
use it. Newer versions stream from it; older ones answer in one piece, so that the usual endpoint is used with a nonce.
Every chunk calls itself a whole `chat.completion`, and the connection ends with the answer.

Its rates: of the prompt's tokens but the last, without cached ones; and of the n - 1 steps behind the first token. With
batching off (`--no-batch`) it divides n tokens by these steps. For a prompt that it has whole, it repeats an old rate.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from app.core.i18n import N_, _
from app.core.samples import CacheDefeat, ServerFigures
from app.engines.base import CompletionRequest, Health, ModelInfo, ServerInfo
from app.engines.http import ServerClient
from app.engines.http.text import parse_json
from app.engines.openai import CHAT, MODELS, OpenAI
from app.engines.protocol.answers import busy_health, count, health_of, mapping, number, object_at, object_in, string
from app.engines.protocol.models import listed_models
from app.engines.protocol.param_negotiation import Negotiation
from app.engines.protocol.server_timings import ReportedUsage
from app.engines.protocol.trace_builder import Dialect

_BENCH = "/bench/chat/completions"
_SWITCH = "use_prefix_cache"
_STATS = b"generation_stats "
_INSTANCES, _RUNNERS = "/state/instances", "/state/runners"
_LOADING_STATES = frozenset({"RunnerConnecting", "RunnerConnected", "RunnerLoading", "RunnerLoaded", "RunnerWarmingUp"})
_LOADING = N_("The engine is loading its model.")


def _comment(text: bytes) -> Mapping[str, Mapping[str, Any]]:
    if not text.startswith(_STATS):
        return {}
    try:
        return {"generation_stats": mapping(parse_json(text.removeprefix(_STATS)))}
    except ValueError:  # cut off with its stream
        return {}


def _figures(reported: ReportedUsage) -> ServerFigures | None:
    stats = reported.objects.get("generation_stats")
    if not stats:
        return None
    fresh = None if stats.get("prefix_cache_hit") == "exact" else reported.fresh_prompt_tokens
    output = count(stats.get("generation_tokens")) or None
    return ServerFigures(
        prompt_tokens=fresh,
        prompt_ms=_ms(fresh, stats.get("prompt_tps")),
        output_tokens=output,
        decode_ms=_ms(output - 1 if output else None, stats.get("generation_tps")),
        raw=reported.raw("generation_stats"),
    )


def _ms(tokens: int | None, tokens_per_s: Any) -> float | None:
    rate = number(tokens_per_s)
    return tokens / rate * 1000 if tokens and rate else None


class Exo(OpenAI):
    key = "exo"
    title = "exo"
    owned_by = ("exo",)
    default_ports = (52415,)
    fixed_length = False
    dialect = Dialect(figures=_figures, comment=_comment, is_named=True)
    cache_switch = _SWITCH

    def detect(self, client: ServerClient) -> ServerInfo | None:
        # not the whole of `/state`, which holds every task
        answer = client.get(_INSTANCES)
        if answer.status >= 300:
            return None
        shards = dict(_shards(object_in(answer)))
        listed = listed_models(object_at(client, MODELS)) or {}
        if not shards and not any(entry.get("owned_by") == "exo" for entry in listed.values()):
            return None
        # a model without an instance is answered 404
        info = self._server_info({name: listed.get(name, {}) for name in shards})
        models = tuple(_described(model, listed.get(model.id, {}), shards[model.id]) for model in info.models)
        is_loading = _is_loading(object_at(client, _RUNNERS))
        streams = _streams_bench(object_at(client, "/openapi.json"))
        return replace(info, models=models, capabilities={_SWITCH: streams}, loading=is_loading)

    def health(self, client: ServerClient) -> Health:
        answer = client.get(_RUNNERS)
        health, runners = health_of(answer), object_in(answer)
        if _is_loading(runners):
            return Health(ready=False, detail=_(_LOADING))
        states = [state for runner in runners.values() for state in mapping(runner)]
        return busy_health([float("RunnerRunning" in states)]) if answer.status < 300 else health

    def _cache_defeat(self, request: CompletionRequest, negotiation: Negotiation) -> CacheDefeat:
        defeat = super()._cache_defeat(request, negotiation)
        if defeat is not CacheDefeat.SWITCH or _streams_by_bench(request):
            return defeat
        return CacheDefeat.NONE if request.nonce is None else CacheDefeat.NONCE

    def _chat_path(self, request: CompletionRequest) -> str:
        return _BENCH if _streams_by_bench(request) else CHAT

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {_SWITCH: request.reuse_cache} if _streams_by_bench(request) else {}


ENGINE = Exo()


def _streams_by_bench(request: CompletionRequest) -> bool:
    return request.capabilities.get(_SWITCH) is True


def _shards(instances: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, Mapping[str, Any]]]]]:
    """The model of each instance, and its shards: how the model is divided, and the shard's description."""
    for instance in instances.values():
        for details in mapping(instance).values():
            assignments = mapping(mapping(details).get("shardAssignments"))
            runners = mapping(assignments.get("runnerToShard"))
            shards = [(kind, mapping(shard)) for tagged in runners.values() for kind, shard in mapping(tagged).items()]
            if name := string(assignments.get("modelId")):
                yield name, shards


def _described(model: ModelInfo, entry: Mapping[str, Any], shards: list[tuple[str, Mapping[str, Any]]]) -> ModelInfo:
    """The model with what its card and its shards say."""
    card = mapping(shards[0][1].get("modelCard")) if shards else {}
    settings: dict[str, Any] = {}
    if len(shards) > 1:
        is_tensor = shards[0][0].startswith("Tensor")
        settings = {"split_mode": "tensor" if is_tensor else "layer", "cards": len(shards)}
    return replace(
        model,
        quantization=string(entry.get("quantization")) or model.quantization,
        size_bytes=count(mapping(card.get("storageSize")).get("inBytes")) or None,
        settings=settings,
        is_loaded=True,
    )


def _is_loading(runners: Mapping[str, Any]) -> bool:
    """Whether every machine of the cluster is still on the way to its first request."""
    states = [state for runner in runners.values() for state in mapping(runner)]
    return bool(states) and all(state in _LOADING_STATES for state in states)


def _streams_bench(schema: Mapping[str, Any]) -> bool:
    """Whether the endpoint for benchmarks streams: then its answer has no fixed form in the schema."""
    post = mapping(mapping(mapping(schema.get("paths")).get(_BENCH)).get("post"))
    content = mapping(mapping(mapping(post.get("responses")).get("200")).get("content"))
    return "application/json" in content and not mapping(content["application/json"]).get("schema")
