"""Ollama by its native API; its `/v1` would drop `num_ctx`, and mixing the two reloads the model.

The last line of a stream counts and times the request (nanoseconds, zeros left out). Two traps in it:

* `prompt_eval_count` holds cached tokens, `prompt_eval_duration` does not. Newer versions state the cached ones too;
  elsewhere only the nonce at the start of the prompt keeps the two together.
* A prompt that is too long is cut in silence, unless `truncate` is false and the version knows it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import CacheDefeat, ServerFigures, Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import CompletionRequest, Counters, Health, ModelInfo, ServerInfo
from app.engines.http import ServerClient
from app.engines.protocol.chat_engine import ChatEngine
from app.engines.protocol.health import health_of
from app.engines.protocol.json_helpers import object_at, string
from app.engines.protocol.models import listed_models, quantization_in, shown_name
from app.engines.protocol.openai_chunk import count, mapping, number
from app.engines.protocol.prometheus_engine import after_the_run
from app.engines.protocol.server_timings import Stated, ms_of
from app.engines.protocol.trace_builder import Dialect

_NS_PER_SECOND = 1e9
_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
CLOUD = "ollama.com"
"""Where models run whose names end in `cloud`."""
_CLOUD = re.compile(r"[:-]cloud$", re.IGNORECASE)
_COUNTS = (*_DURATIONS, "prompt_eval_count", "prompt_eval_cached_count", "eval_count")


def _as_openai(line: Mapping[str, Any]) -> Mapping[str, Any]:
    is_part = isinstance(line.get("message"), dict) or not line.keys().isdisjoint({"response", "done"})
    if "error" in line or not is_part:
        return line
    texts = mapping(line.get("message")) or {"content": line.get("response")}
    is_last = line.get("done") is True
    # a whole answer comes in one line that is the last one as well
    where = "message" if is_last and any(mapping(texts).get(key) for key in ("content", "thinking")) else "delta"
    chunk: dict[str, Any] = {"model": line.get("model"), "choices": [{"index": 0, where: texts}]}
    if is_last:
        chunk["done"] = True  # older versions give no reason
        chunk["choices"][0]["finish_reason"] = line.get("done_reason")
        chunk["ollama"] = {name: line[name] for name in _COUNTS if name in line}
        chunk["usage"] = {
            "prompt_tokens": line.get("prompt_eval_count"),
            "completion_tokens": line.get("eval_count"),
            "cached_tokens": line.get("prompt_eval_cached_count"),
        }
    return chunk


def _figures(stated: Stated) -> ServerFigures | None:
    counts = stated.objects.get("ollama")
    if not counts:
        return None
    return ServerFigures(
        prompt_tokens=stated.fresh_prompt_tokens,
        prompt_ms=ms_of(counts.get("prompt_eval_duration"), per_second=_NS_PER_SECOND),
        output_tokens=stated.output_tokens,
        decode_ms=ms_of(counts.get("eval_duration"), per_second=_NS_PER_SECOND),
        load_ms=ms_of(counts.get("load_duration"), per_second=_NS_PER_SECOND),
        queue_ms=_queue_ms(counts),
        raw=stated.raw("ollama"),
    )


def _queue_ms(counts: Mapping[str, Any]) -> float | None:
    """What the total holds beside its parts: waiting for its turn, and some milliseconds of template and tokenizer."""
    total, *parts = (number(counts.get(name)) for name in _DURATIONS)
    known = [part for part in parts if part is not None]
    if total is None or len(known) < len(parts):
        return None
    return ms_of(total - sum(known), per_second=_NS_PER_SECOND)


class Ollama(ChatEngine):
    key: ClassVar[str] = "ollama"
    title: ClassVar[str] = "Ollama"
    default_ports: ClassVar[tuple[int, ...]] = (11434,)
    prefers_one_card: ClassVar[bool] = True
    rank: ClassVar[int] = 20
    slots_option: ClassVar[str] = "`OLLAMA_NUM_PARALLEL`"
    prompt_options: ClassVar[str] = "`num_batch`"
    path: ClassVar[str] = "/api/chat"
    dialect: ClassVar[Dialect] = Dialect(_as_openai, _figures)
    sets_context: ClassVar[bool] = True
    api_roots: ClassVar[tuple[str, ...]] = ("/api",)

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        # several others have /api/version too; only Ollama says its name
        return self.describe(client) if b"Ollama is running" in client.get("/").body else None

    def describe(self, client: ServerClient) -> ServerInfo:
        """Its list of models is all that is needed: a proxy may hide the rest."""
        tags = client.get_json("/api/tags")
        if not isinstance(tags, dict):
            raise ServerError(
                _("The answer to {path} lists no models: this is no LLM server.", path="/api/tags"),
                ServerErrorKind.NOT_LLM,
            )
        listed, loaded = listed_models(tags) or {}, _loaded(client)
        models = [_model(name, entry, loaded.get(name, {})) for name, entry in listed.items() if not _embeds(entry)]
        models.sort(key=lambda model: (model.runs_on is not None, model.id not in loaded))
        return ServerInfo(
            engine=self.key,
            engine_version=string(object_at(client, "/api/version").get("version")),
            models=tuple(models),
            notes=tuple(_notes(loaded)) if models else (_("The server has no model: pull one first."),),
        )

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get("/api/version"))

    def model_document(self, client: ServerClient, model_id: str) -> Mapping[str, Any] | None:
        return mapping(client.post_json("/api/show", {"model": model_id})) or None

    def runs_on(self, document: Mapping[str, Any]) -> str | None:
        return _remote_host(document)

    def counters(self, client: ServerClient) -> Counters | None:
        """It counts nothing, but tells where the models in memory are."""
        raw = {
            f"{name}/{key}": float(value)
            for name, entry in _loaded(client).items()
            for key in ("size", "size_vram", "context_length")
            if (value := count(entry.get(key))) is not None
        }
        return Counters(raw=raw) if raw else None

    def counted(self, before: Counters, after: Counters, model: str | None, requests: int) -> Sequence[ServerMetric]:  # noqa: ARG002  # the base's signature
        told = {key: after.raw.get(f"{model}/{key}") for key in ("size", "size_vram", "context_length")}
        size, on_gpu, context = told.values()
        share = (
            [ServerMetric("gpu_share", "now", "share", (on_gpu or 0) / size, after_the_run("/api/ps"))] if size else []
        )
        return share + (
            [ServerMetric("context", "now", "tokens", context, after_the_run("/api/ps"))] if context else []
        )

    def play(self, client: ServerClient, ask: CompletionRequest) -> Trace:
        """As every engine; the figures also keep where the model was while it answered."""
        trace = super().play(client, ask)
        if trace.server is None:
            return trace
        try:
            loaded = _loaded(client).get(trace.model or ask.model or "", {})
        except ServerError:
            return trace
        where = {key: loaded[key] for key in ("size", "size_vram", "context_length") if count(loaded.get(key))}
        return replace(trace, server=replace(trace.server, raw={**trace.server.raw, **where}))

    def _required(self, ask: CompletionRequest, defeat: CacheDefeat) -> dict[str, Any]:
        options = {"options.num_predict": ask.output_tokens}
        if ask.context_tokens is not None:
            options["options.num_ctx"] = ask.context_tokens
        return super()._required(ask, defeat) | options

    def _optional(self, ask: CompletionRequest) -> dict[str, Any]:  # noqa: ARG002  # the same for each request
        return {"options.temperature": 0, "options.seed": 1, "truncate": False}


ENGINE = Ollama()


def _loaded(client: ServerClient) -> dict[str, Mapping[str, Any]]:
    """The models in memory, by name with and without the tag that goes without saying."""
    found = listed_models(object_at(client, "/api/ps")) or {}
    return {**found, **{name.removesuffix(":latest"): entry for name, entry in found.items()}}


def _embeds(entry: Mapping[str, Any]) -> bool:
    """Whether it makes vectors, not text."""
    capabilities = entry.get("capabilities")
    return isinstance(capabilities, list) and "embedding" in capabilities


def _model(name: str, entry: Mapping[str, Any], loaded: Mapping[str, Any]) -> ModelInfo:
    details = mapping(entry.get("details"))
    level = string(details.get("quantization_level"))
    return ModelInfo(
        id=name,
        name=shown_name(name.removesuffix(":latest")),
        quantization=level if level not in (None, "unknown") else quantization_in(name),
        context_tokens=count(loaded.get("context_length")) or None,
        max_context_tokens=count(details.get("context_length")) or None,
        digest=string(entry.get("digest")),
        runs_on=_remote_host(entry) or (CLOUD if _CLOUD.search(name) else None),
    )


def _remote_host(entry: Mapping[str, Any]) -> str | None:
    """The host that the server sends requests for a model on to; where it names but a model there, Ollama's own."""
    if (address := string(entry.get("remote_host"))) is not None:
        return address.partition("://")[2].partition("/")[0].rpartition("@")[2] or address
    return CLOUD if string(entry.get("remote_model")) else None


def _notes(loaded: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Where the models in memory are, when that is not wholly the GPU."""
    notes = []
    for name, entry in loaded.items():
        size, on_gpu = count(entry.get("size")), count(entry.get("size_vram")) or 0
        if size and on_gpu < size:
            shown = name.removesuffix(":latest")
            notes.append(
                _(
                    "Ollama holds {share:.0f} % of {model} in GPU memory; the processor works on the rest.",
                    share=100 * on_gpu / size,
                    model=shown,
                )
            )
    return list(dict.fromkeys(notes))
