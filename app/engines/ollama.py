"""Ollama by its native API; its `/v1` would drop `num_ctx`, and mixing the two reloads the model.

The last line of a stream has counts and times of the request (nanoseconds, without zeros). Two traps in it:

* `prompt_eval_count` includes cached tokens, `prompt_eval_duration` does not. Newer versions report the cached ones
  too; with older ones only the nonce at the start of the prompt makes the two belong together.
* A prompt that is too long is cut silently, unless `truncate` is false and the version has that option.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import CacheDefeat, ServerFigures, Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import CompletionRequest, Counters, ModelInfo, ServerInfo, SplitHabit
from app.engines.http import ServerClient
from app.engines.protocol.answers import count, mapping, number, object_at, string, to_ms
from app.engines.protocol.chat_engine import ChatEngine
from app.engines.protocol.models import listed_models, quantization_in, shown_name
from app.engines.protocol.prometheus_engine import after_the_run
from app.engines.protocol.server_timings import ReportedUsage
from app.engines.protocol.trace_builder import Dialect

_NS_PER_SECOND = 1e9
_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
CLOUD = "ollama.com"
"""The host that runs models whose names end in `cloud`."""
_CLOUD_NAME = re.compile(r"[:-]cloud$", re.IGNORECASE)
_FIGURES = (*_DURATIONS, "prompt_eval_count", "prompt_eval_cached_count", "eval_count")
_PLACEMENT = ("size", "size_vram", "context_length")


def _as_openai(line: Mapping[str, Any]) -> Mapping[str, Any]:
    is_part = isinstance(line.get("message"), dict) or not line.keys().isdisjoint({"response", "done"})
    if "error" in line or not is_part:
        return line
    texts = mapping(line.get("message")) or {"content": line.get("response")}
    is_last = line.get("done") is True
    # a whole answer comes in one line that is the last one as well
    texts_key = "message" if is_last and any(mapping(texts).get(key) for key in ("content", "thinking")) else "delta"
    chunk: dict[str, Any] = {"model": line.get("model"), "choices": [{"index": 0, texts_key: texts}]}
    if is_last:
        chunk["done"] = True  # older versions give no reason
        chunk["choices"][0]["finish_reason"] = line.get("done_reason")
        chunk["ollama"] = {name: line[name] for name in _FIGURES if name in line}
        chunk["usage"] = {
            "prompt_tokens": line.get("prompt_eval_count"),
            "completion_tokens": line.get("eval_count"),
            "cached_tokens": line.get("prompt_eval_cached_count"),
        }
    return chunk


def _figures(usage: ReportedUsage) -> ServerFigures | None:
    counts = usage.objects.get("ollama")
    if not counts:
        return None
    return ServerFigures(
        prompt_tokens=usage.fresh_prompt_tokens,
        prompt_ms=to_ms(counts.get("prompt_eval_duration"), per_second=_NS_PER_SECOND),
        output_tokens=usage.output_tokens,
        decode_ms=to_ms(counts.get("eval_duration"), per_second=_NS_PER_SECOND),
        load_ms=to_ms(counts.get("load_duration"), per_second=_NS_PER_SECOND),
        queue_ms=_queue_ms(counts),
        raw=usage.raw("ollama"),
    )


def _queue_ms(counts: Mapping[str, Any]) -> float | None:
    """What the total has beyond its parts: waiting in the queue, and some milliseconds of template and tokenizer."""
    total, *parts = (number(counts.get(name)) for name in _DURATIONS)
    reported = [part for part in parts if part is not None]
    if total is None or len(reported) < len(parts):
        return None
    return to_ms(total - sum(reported), per_second=_NS_PER_SECOND)


class Ollama(ChatEngine):
    key = "ollama"
    title = "Ollama"
    default_ports = (11434,)
    health_path = "/api/version"
    split_habit = SplitHabit.LAYERS_IF_NEEDED
    slots_option = "`OLLAMA_NUM_PARALLEL`"
    prompt_options = "`num_batch`"
    chat_path = "/api/chat"
    dialect = Dialect(_as_openai, _figures)
    context_per_request = True
    api_roots = ("/api",)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        # other servers have /api/version too; only Ollama names itself
        return self.describe(client) if b"Ollama is running" in client.get("/").body else None

    def describe(self, client: ServerClient) -> ServerInfo:
        """Only the list of models is needed: a proxy may hide the rest."""
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

    def model_document(self, client: ServerClient, model_id: str) -> Mapping[str, Any] | None:
        return mapping(client.post_json("/api/show", {"model": model_id})) or None

    def runs_on(self, document: Mapping[str, Any]) -> str | None:
        return _remote_host(document)

    def counters(self, client: ServerClient) -> Counters | None:
        """It counts nothing, but reports where the models in memory are."""
        raw = {
            f"{name}/{key}": float(value)
            for name, entry in _loaded(client).items()
            for key in _PLACEMENT
            if (value := count(entry.get(key))) is not None
        }
        return Counters(raw=raw) if raw else None

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        size, on_gpu, context = (after.raw.get(f"{model}/{key}") for key in _PLACEMENT)
        provenance = after_the_run("/api/ps")
        metrics = []
        if size:
            metrics.append(ServerMetric("gpu_share", "now", "share", (on_gpu or 0) / size, provenance))
        if context:
            metrics.append(ServerMetric("context", "now", "tokens", context, provenance))
        return metrics

    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        """As for every engine; the figures also store where the model was while it answered."""
        trace = super().stream_completion(client, request)
        if trace.server is None:
            return trace
        try:
            loaded = _loaded(client).get(trace.model or request.model or "", {})
        except ServerError:  # the figures are then the stream's alone
            return trace
        placement = {key: loaded[key] for key in _PLACEMENT if count(loaded.get(key))}
        return replace(trace, server=replace(trace.server, raw={**trace.server.raw, **placement}))

    def _required(self, request: CompletionRequest, defeat: CacheDefeat) -> dict[str, Any]:
        options = {"options.num_predict": request.output_tokens}
        if request.context_tokens is not None:
            options["options.num_ctx"] = request.context_tokens
        return super()._required(request, defeat) | options

    def _optional(self, request: CompletionRequest) -> dict[str, Any]:
        return {"options.temperature": 0, "options.seed": 1, "truncate": False}


ENGINE = Ollama()


def _loaded(client: ServerClient) -> dict[str, Mapping[str, Any]]:
    """The models in memory, by name with and without the default tag."""
    models = listed_models(object_at(client, "/api/ps")) or {}
    return {**models, **{name.removesuffix(":latest"): entry for name, entry in models.items()}}


def _embeds(entry: Mapping[str, Any]) -> bool:
    """Whether a model produces embeddings, not text."""
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
        runs_on=_remote_host(entry) or (CLOUD if _CLOUD_NAME.search(name) else None),
    )


def _remote_host(entry: Mapping[str, Any]) -> str | None:
    """The host that the server forwards requests for a model to; Ollama's own where only a remote model is named."""
    if (address := string(entry.get("remote_host"))) is not None:
        return address.partition("://")[2].partition("/")[0].rpartition("@")[2] or address
    return CLOUD if string(entry.get("remote_model")) else None


def _notes(loaded: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One sentence for each model in memory that is not wholly on the GPU."""
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
