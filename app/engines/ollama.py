"""Ollama by its native API; its `/v1` would drop `num_ctx`, and mixing the two reloads the model.

Read in its source at fb30760 (August 2026, between 0.32 and 0.33: server/routes.go, server/sched.go,
llm/llama_server.go, x/mlxrunner/pipeline.go) and in answers of a real 0.33 beside its engine's log.

The last line of a stream has counts and times of the request (nanoseconds, without zeros):

* `prompt_eval_count` includes cached tokens, `prompt_eval_duration` does not, and no count of cached ones is sent. Only
  a nonce makes the two belong together, and only of what follows it. A model's own SYSTEM stands before the first
  message, so the request repeats it behind a nonce, as a system message of its own; what a chat template writes before
  that stays cached, some tokens. Where a model brings whole messages (MESSAGE), those come first whatever is sent.
* `eval_duration` is llama.cpp's for GGUF models (n - 1 intervals); the MLX runner, which runs models of the format
  `safetensors`, evaluates the last token of the prompt within it (n intervals).
* `load_duration` is the time until a runner was free to be used: loading, or a millisecond. What `total_duration` has
  beyond its parts is template and tokenizer, saving the slot of the prompt before, and the queue behind others.

A prompt that is too long is cut silently, unless `truncate` is false and the version has that option; MLX models never
cut. Without `num_ctx` a model gets its own parameter, else the server's default; a request that asks for another one
than is loaded loads the model anew. Models of one weight file share a runner, which `/api/ps` lists by the name that
loaded it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import CacheDefeat, ServerFigures, Status, Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import CompletionRequest, Counters, ModelInfo, ServerInfo, SplitHabit
from app.engines.flags import Flag, FlagTable, ModelArguments, read_type
from app.engines.http import ServerClient
from app.engines.llamacpp_args import ENVIRONMENT, FLAGS, read_arguments
from app.engines.protocol.answers import count, mapping, number, object_at, string, to_ms
from app.engines.protocol.chat_engine import ChatEngine
from app.engines.protocol.models import listed_models, quantization_in, shown_name
from app.engines.protocol.param_negotiation import Negotiation
from app.engines.protocol.prometheus_engine import after_the_run
from app.engines.protocol.server_timings import ReportedUsage
from app.engines.protocol.trace_builder import Dialect

_NS_PER_SECOND = 1e9
_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
CLOUD = "ollama.com"
"""The host that runs models whose names end in `cloud`."""
_CLOUD_NAME = re.compile(r"[:-]cloud$", re.IGNORECASE)
_REMOTE = ("remote_host", "remote_model")
_FIGURES = (*_DURATIONS, "prompt_eval_count", "prompt_eval_cached_count", "eval_count", *_REMOTE)
_PLACEMENT = ("size", "size_vram", "context_length")
MLX_FORMAT = "safetensors"
DEFAULT_CONTEXT_TOKENS = 4096
"""The smallest context that a model without a `num_ctx` of its own gets, by the graphics memory of the machine."""
OVERHEAD_MS = 100.0
OVERHEAD_MS_PER_TOKEN = 0.1
"""What template, tokenizer and saving the slot of the prompt before may take beyond that; more is a queue."""
BYTES_PER_TOKEN = 4.95
"""Of English text; only to know what was sent beside the suite's prompt."""
NO_SYSTEM_ROLE = "no_system_role"
"""The capability that lists the models whose templates refuse a system message."""
_REFUSES_SYSTEM = re.compile(r"\bsystem (role|message|prompt)s?\b|\broles (must|should|are)\b", re.IGNORECASE)
_PARAMETER = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)
_WEIGHTS = re.compile(r"^FROM\s+(\S.*)$", re.MULTILINE)


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
    rest_ms, may_be_overhead_ms = _rest_ms(counts), OVERHEAD_MS
    may_be_overhead_ms += OVERHEAD_MS_PER_TOKEN * ((usage.prompt_tokens or 0) + (usage.output_tokens or 0))
    is_queue = rest_ms is not None and rest_ms > may_be_overhead_ms
    return ServerFigures(
        prompt_tokens=usage.fresh_prompt_tokens,
        prompt_ms=to_ms(counts.get("prompt_eval_duration"), per_second=_NS_PER_SECOND),
        output_tokens=usage.output_tokens,
        decode_ms=to_ms(counts.get("eval_duration"), per_second=_NS_PER_SECOND),
        load_ms=to_ms(counts.get("load_duration"), per_second=_NS_PER_SECOND),
        queue_ms=rest_ms if is_queue else None,
        overhead_ms=None if is_queue else rest_ms,
        raw=usage.raw("ollama"),
    )


def _rest_ms(counts: Mapping[str, Any]) -> float | None:
    """What the total has beyond its parts."""
    total, *parts = (number(counts.get(name)) for name in _DURATIONS)
    reported = [part for part in parts if part is not None]
    if total is None or len(reported) < len(parts):
        return None
    return to_ms(total - sum(reported), per_second=_NS_PER_SECOND)


class Ollama(ChatEngine):
    key = "ollama"
    title = "Ollama"
    default_ports = (11434,)
    # the namespace of its own models; with others among them the owners differ, and its root page tells
    owned_by = ("library",)
    health_path = "/api/version"
    split_habit = SplitHabit.LAYERS_IF_NEEDED
    slots_option = "`OLLAMA_NUM_PARALLEL`"
    prompt_options = "`num_batch`"
    chat_path = "/api/chat"
    dialect = Dialect(_as_openai, _figures)
    context_per_request = True
    api_roots = ("/api",)
    # its own program, and those that it starts for each model with what it made of its environment
    programs = ("ollama", "llama-server", "ollama_llama_server")
    flags = FlagTable(
        flags={**FLAGS.flags, "--kv-cache-type": Flag(("kv_type_k", "kv_type_v"), read_type)},
        ignored=FLAGS.ignored | {"--ollama-engine", "--mlx-engine", "--verbose"},
        without_bytes=FLAGS.without_bytes | {"--multiuser-cache", "--gpu-overhead", "--llm-library", "--new-engine"},
        unmodelled=FLAGS.unmodelled | {"--sched-spread"},
    )
    environment: ClassVar[Mapping[str, str]] = {
        **ENVIRONMENT,
        "OLLAMA_FLASH_ATTENTION": "--flash-attn=",
        "OLLAMA_KV_CACHE_TYPE": "--kv-cache-type=",
        "OLLAMA_NUM_PARALLEL": "--parallel=",
        "OLLAMA_SCHED_SPREAD": "--sched-spread",
        "OLLAMA_MULTIUSER_CACHE": "--multiuser-cache",
        "OLLAMA_NEW_ENGINE": "--new-engine",
        "OLLAMA_GPU_OVERHEAD": "--gpu-overhead=",
        "OLLAMA_LLM_LIBRARY": "--llm-library=",
    }
    default_settings: ClassVar[Mapping[str, str | int]] = {"kv_type_k": "f16", "kv_type_v": "f16"}

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
            notes=() if models else (_("The server has no model: pull one first."),),
        )

    # --- what it says of a model ---

    def read_arguments(self, arguments: Sequence[str]) -> ModelArguments:
        return read_arguments(arguments, self.flags)

    def weights_path(self, document: Mapping[str, Any]) -> str | None:
        return _weights_path(document)

    def model_document(self, client: ServerClient, model_id: str) -> Mapping[str, Any] | None:
        return mapping(client.post_json("/api/show", {"model": model_id})) or None

    def runs_on(self, document: Mapping[str, Any]) -> str | None:
        return _remote_host(document)

    def own_system(self, document: Mapping[str, Any]) -> str | None:
        return None if document.get("messages") else string(document.get("system")) or ""

    def gives_context(self, document: Mapping[str, Any], tokens: int) -> bool:
        own = _PARAMETER.search(string(document.get("parameters")) or "")
        return tokens <= (int(own[1]) if own else DEFAULT_CONTEXT_TOKENS)

    def loaded_model(self, client: ServerClient, model: ModelInfo) -> ModelInfo:
        return _as_placed(model, _placement(client, model.id))

    # --- what it counts ---

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

    # --- requests ---

    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        """As for every engine; the figures also store where the model was while it answered.

        A model whose template refuses a system message is asked again without one, which is remembered.
        """
        trace = self._stream(client, request)
        if trace.status is Status.FAILED and _sends_system(request) and _REFUSES_SYSTEM.search(trace.error or ""):
            refusing = [*_refusing(request), request.model or ""]
            again = self._stream(
                client, replace(request, capabilities={**request.capabilities, NO_SYSTEM_ROLE: refusing})
            )
            if again.status is not Status.FAILED:
                learned = {**again.learned_capabilities, NO_SYSTEM_ROLE: refusing}
                trace = replace(again, learned_capabilities=learned)
        if trace.server is None or not trace.server.raw.keys().isdisjoint(_REMOTE):
            return trace
        try:
            entry = _placement(client, trace.model or request.model or "")
        except ServerError:  # the figures are then the stream's alone
            return trace
        return replace(trace, server=_with_placement(trace.server, entry))

    def _stream(self, client: ServerClient, request: CompletionRequest) -> Trace:
        try:
            trace = super().stream_completion(client, request)
        except ServerError as problem:
            if problem.trouble is not ServerErrorKind.NEEDS_KEY or not _CLOUD_NAME.search(request.model or ""):
                raise
            sentence = _("Ollama is not signed in where it forwards this model to: run `ollama signin` on its machine.")
            raise ServerError(sentence, ServerErrorKind.NEEDS_KEY) from problem
        if trace.cache_defeat is not CacheDefeat.NONCE or not _sends_system(request):
            return trace
        return replace(trace, own_system_tokens=round(len((request.own_system or "").encode()) / BYTES_PER_TOKEN))

    def _cache_defeat(self, request: CompletionRequest, negotiation: Negotiation) -> CacheDefeat:
        """None where a text of the model stands before everything that a request says: that stays in the cache."""
        defeat = super()._cache_defeat(request, negotiation)
        return CacheDefeat.NONE if request.own_system is None else defeat

    def _required(self, request: CompletionRequest, defeat: CacheDefeat) -> dict[str, Any]:
        # a nonce behind a text that stays cached does not defeat the cache, but the prompt itself is then fresh
        has_nonce = request.nonce is not None and not request.reuse_cache
        fields = super()._required(request, CacheDefeat.NONCE if has_nonce else defeat)
        fields["options.num_predict"] = request.output_tokens
        if request.context_tokens is not None:
            fields["options.num_ctx"] = request.context_tokens
        if _sends_system(request):
            system = "\n".join(filter(None, (request.nonce, request.own_system)))
            # the nonce stays in the prompt as well: some templates drop system messages
            fields["messages"] = [{"role": "system", "content": system}, *fields["messages"]]
        return fields

    def _optional(self, request: CompletionRequest) -> dict[str, Any]:
        return {"options.temperature": 0, "options.seed": 1, "truncate": False}


ENGINE = Ollama()


def _refusing(request: CompletionRequest) -> list[str]:
    """The models whose templates are known to refuse a system message."""
    models = request.capabilities.get(NO_SYSTEM_ROLE)
    return [name for name in models if isinstance(name, str)] if isinstance(models, list) else []


def _sends_system(request: CompletionRequest) -> bool:
    has_nonce = request.nonce is not None and not request.reuse_cache
    return has_nonce and request.own_system is not None and (request.model or "") not in _refusing(request)


# --- models ----------------------------------------------------------------------------------------------------------


def _loaded(client: ServerClient) -> dict[str, Mapping[str, Any]]:
    """The models in memory, by name with and without the default tag."""
    models = listed_models(object_at(client, "/api/ps")) or {}
    return {**models, **{name.removesuffix(":latest"): entry for name, entry in models.items()}}


def _placement(client: ServerClient, model_id: str) -> Mapping[str, Any]:
    """The entry of /api/ps that a model answers from: its own, else that of another name of the same weights."""
    loaded = _loaded(client)
    if model_id in loaded or not loaded:
        return loaded.get(model_id, {})
    weights = _weights(client, model_id)
    names = (name for name in loaded if weights is not None and _weights(client, name) == weights)
    return next((loaded[name] for name in names), {})


def _weights(client: ServerClient, model_id: str) -> str | None:
    """The file of a model's weights; None where the server does not tell it."""
    try:
        document = mapping(client.post_json("/api/show", {"model": model_id}))
    except ServerError:  # an unknown model, or a proxy that hides it
        return None
    return _weights_path(document)


def _weights_path(document: Mapping[str, Any]) -> str | None:
    """The path of a model's weight file in its Modelfile."""
    lines = _WEIGHTS.findall(string(document.get("modelfile")) or "")
    return lines[0].strip() if lines else None


def _with_placement(figures: ServerFigures, entry: Mapping[str, Any]) -> ServerFigures:
    placement = {key: entry[key] for key in _PLACEMENT if count(entry.get(key))}
    if (model_format := string(mapping(entry.get("details")).get("format"))) is not None:
        placement["format"] = model_format
    decode_ms, tokens = figures.decode_ms, figures.output_tokens
    if model_format == MLX_FORMAT and decode_ms is not None:
        decode_ms = decode_ms * (tokens - 1) / tokens if tokens and tokens > 1 else None
    return replace(figures, decode_ms=decode_ms, raw={**figures.raw, **placement})


def _embeds(entry: Mapping[str, Any]) -> bool:
    """Whether a model produces embeddings, not text."""
    capabilities = entry.get("capabilities")
    return isinstance(capabilities, list) and "embedding" in capabilities


def _model(name: str, entry: Mapping[str, Any], loaded: Mapping[str, Any]) -> ModelInfo:
    details = mapping(entry.get("details"))
    level = string(details.get("quantization_level"))
    model = ModelInfo(
        id=name,
        name=shown_name(name.removesuffix(":latest")),
        quantization=level if level not in (None, "unknown") else quantization_in(name),
        max_context_tokens=count(details.get("context_length")) or None,
        digest=string(entry.get("digest")),
        runs_on=_remote_host(entry) or (CLOUD if _CLOUD_NAME.search(name) else None),
    )
    return _as_placed(model, loaded)


def _remote_host(entry: Mapping[str, Any]) -> str | None:
    """The host that the server forwards requests for a model to; Ollama's own where only a remote model is named."""
    if (address := string(entry.get("remote_host"))) is not None:
        return address.partition("://")[2].partition("/")[0].rpartition("@")[2] or address
    return CLOUD if string(entry.get("remote_model")) else None


def _as_placed(model: ModelInfo, entry: Mapping[str, Any]) -> ModelInfo:
    """`model` with what `/api/ps` says of it: its context, and what of it the processor works on, if anything."""
    model = replace(model, context_tokens=count(entry.get("context_length")) or None)
    size, on_gpu = count(entry.get("size")), count(entry.get("size_vram")) or 0
    if not size or on_gpu >= size:
        return replace(model, settings={}, notes=())
    share = 100 * on_gpu / size
    sentence = _(
        "Ollama holds {share:.0f} % of {model} in GPU memory; the processor works on the rest.",
        share=share,
        model=model.id.removesuffix(":latest"),
    )
    return replace(model, settings={"gpu_share": round(share)}, notes=(sentence,) if on_gpu else ())
