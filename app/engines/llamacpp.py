"""llama.cpp's `llama-server`.

Its stream ends with `timings`, the best source there is. Two of its habits matter for the clock, and each is read off
the evidence of the very answer:

* The role chunk leaves together with the first token, unless progress events are on. Where the first tokens have no
  text (tags of a reasoning model are swallowed), the role chunk is the only sign of them.
* Output tokens without text at the end (the end token of a natural stop, or one whose text is held back) show only in
  the finish event, which then comes a decode step after the last text; the server's decode time runs until there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import quote

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import TOKEN_KINDS, CacheDefeat, Event, Kind, ServerFigures, Trace
from app.engines.base import CompletionRequest, Health, Loaded, Logged, ModelInfo, ServerInfo
from app.engines.http import Answer, ServerClient
from app.engines.openai import listed
from app.engines.protocol import llamacpp_args, llamacpp_load, llamacpp_log
from app.engines.protocol.health import busy_health, health_of
from app.engines.protocol.json_helpers import object_at, string
from app.engines.protocol.models import file_stem, quantization_in, quantization_of_ftype, shown_name
from app.engines.protocol.openai_chunk import count, mapping
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine

_EXPORTED = MetricNames(
    prompt_tokens=("llamacpp:prompt_tokens_total",),
    cached_tokens=("llamacpp:prompt_tokens_cached_total",),
    output_tokens=("llamacpp:tokens_predicted_total",),
    holds_cached=False,
    prefill_seconds=("llamacpp:prompt_seconds_total",),
    decode_seconds=("llamacpp:tokens_predicted_seconds_total",),
    shares={
        "draft_acceptance": (
            ("llamacpp:spec_decode_num_accepted_tokens_total",),
            ("llamacpp:spec_decode_num_draft_tokens_total",),
        )
    },
    # its two speeds are left out: they begin anew with each reading
)


_LOADED = ("loaded", "sleeping")


class LlamaCpp(PrometheusEngine):
    exported: ClassVar[MetricNames] = _EXPORTED
    key: ClassVar[str] = "llama.cpp"
    title: ClassVar[str] = "llama.cpp"
    default_ports: ClassVar[tuple[int, ...]] = (8080,)
    rank: ClassVar[int] = 50
    slots_option: ClassVar[str] = "`--parallel`"
    prompt_options: ClassVar[str] = "`--batch-size`, `--ubatch-size`"
    cache_switch: ClassVar[str] = "cache_prompt"
    has_log: ClassVar[bool] = True

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        answer = client.get("/props")
        if answer.status >= 300:
            if not _is_llamacpp(answer):
                return None
            problem = answer.problem()
            if problem.trouble is ServerErrorKind.LOADING:
                return ServerInfo(self.key, None, (), loading=True, notes=(str(problem),))
            if problem.trouble is ServerErrorKind.NEEDS_KEY:
                raise problem
            # a build without /props
            return self.describe(client)
        try:
            props = answer.json()
        except ServerError:  # no JSON: another server
            return None
        if not isinstance(props, dict) or not (_is_llamacpp(answer) or {"build_info", "model_path"} <= props.keys()):
            return None
        if props.get("role") == "router":
            return self._routed(client, props)
        return self._told(props, listed(client))

    def describe(self, client: ServerClient) -> ServerInfo:
        return self._told({}, listed(client))

    def _routed(self, client: ServerClient, props: Mapping[str, Any]) -> ServerInfo:
        """Of a router, which starts a server of its own for each model: those that run come first.

        A model that does not run is never asked, since asking would start it.
        """
        models = []
        for identifier, entry in listed(client).items():
            is_loaded = mapping(entry.get("status")).get("value") in _LOADED
            own = object_at(client, _of_model("/props", identifier)) if is_loaded else {}
            models.append(_routed_model(identifier, entry, own, is_loaded))
        models.sort(key=lambda model: not model.is_loaded)
        return ServerInfo(
            engine=self.key,
            engine_version=string(props.get("build_info")),
            models=tuple(models),
            notes=() if models else (_("The server offers no model: load one first."),),
        )

    def _told(self, props: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> ServerInfo:
        context = count(mapping(props.get("default_generation_settings")).get("n_ctx")) or None
        slots = count(props.get("total_slots")) or None
        settings = {"context": context, "parallel": slots}
        return ServerInfo(
            engine=self.key,
            engine_version=string(props.get("build_info")),
            models=tuple(_model(identifier, entry, props, context) for identifier, entry in models.items()),
            context_tokens=context,
            settings={key: value for key, value in settings.items() if value is not None},
            notes=() if models else (_("The server has no model loaded."),),
        )

    def health(self, client: ServerClient) -> Health:
        health = health_of(client.get("/health"))
        if not health.ready:
            return health
        try:
            return busy_health([_busy_slots(client.get(self._state_path(client, "/slots")))])
        except ServerError as problem:
            if problem.trouble is not ServerErrorKind.TIMEOUT:
                raise
            # unlike /health, its slots tell only between two steps, and a step of a long prompt may take minutes
            return Health(ready=True, detail=_("The server is working on a long prompt."), busy=True)

    def prompt_tokens(self, client: ServerClient, ask: CompletionRequest) -> int | None:
        messages = self._required(ask, CacheDefeat.SWITCH)["messages"]
        model = {} if client.model is None else {"model": client.model}
        try:
            prompt = client.post_json("/apply-template", {**model, "messages": messages})["prompt"]
            asked = {**model, "content": prompt, "add_special": True, "parse_special": True}
            tokens = client.post_json("/tokenize", asked)
            return len(tokens["tokens"])
        except (ServerError, KeyError, TypeError):  # a build without it: unknown
            return None

    def read_log(self, text: str) -> Sequence[Logged]:
        return llamacpp_log.read(text)

    def read_loads(self, text: str) -> Sequence[Loaded]:
        return llamacpp_load.read_loads(text)

    def load(self, client: ServerClient) -> Mapping[str, float]:
        """By its slots: reading /metrics this often would leave the two speeds there empty for whoever draws them."""
        busy = _busy_slots(client.get(self._state_path(client, "/slots")))
        return {} if busy is None else {"requests_running": float(busy)}

    def _state_path(self, client: ServerClient, path: str) -> str:
        return path if client.model is None else _of_model(path, client.model)

    def _fields(self, ask: CompletionRequest) -> dict[str, Any]:
        return {self.cache_switch: ask.reuse_cache, "ignore_eos": True}

    def _refine(self, trace: Trace) -> Trace:
        return replace(trace, events=_with_hidden_tokens(trace), server=trace.server and _with_drafts(trace.server))


ENGINE = LlamaCpp()


def _with_drafts(figures: ServerFigures) -> ServerFigures:
    """Its timings tell of drafts only where there were some."""
    is_silent = figures.output_tokens is not None and figures.draft_tokens is None
    return replace(figures, draft_tokens=0) if is_silent else figures


def _with_hidden_tokens(trace: Trace) -> tuple[Event, ...]:
    """Role and finish events become token events where they stand for tokens without text (see above)."""
    seen = [event for event in trace.events if event.kind in TOKEN_KINDS]
    if not seen or trace.server is None or (trace.output_tokens or 0) <= len(seen):
        return trace.events
    prompt_ms, decode_ms = trace.server.prompt_ms, trace.server.decode_ms
    first_ms, last_ms = seen[0].at_ms, seen[-1].at_ms
    smallest_step_ms = min((after.at_ms - before.at_ms for before, after in pairwise(seen)), default=0.0)
    events = []
    for event in trace.events:
        at_ms, is_token = event.at_ms, False
        if event.kind is Kind.ROLE and prompt_ms is not None:
            # not before the prompt was processed, and in an earlier piece than the first text
            is_token = prompt_ms <= at_ms < first_ms
            first_ms = at_ms if is_token else first_ms
        elif event.kind is Kind.FINISH and decode_ms is not None:
            # a real step after the last text, and the server's own clock ran until here rather than until that text
            middle_ms = (at_ms + last_ms) / 2
            is_token = at_ms - last_ms > smallest_step_ms / 2 and first_ms + decode_ms > middle_ms
        events.append(event._replace(kind=Kind.HIDDEN) if is_token else event)
    return tuple(events)


def _is_llamacpp(answer: Answer) -> bool:
    return answer.headers.get("server", "").lower().startswith("llama.cpp")


def _model(identifier: str, entry: Mapping[str, Any], props: Mapping[str, Any], context: int | None) -> ModelInfo:
    meta = mapping(entry.get("meta"))
    path = string(props.get("model_path"))
    ftype = string(props.get("model_ftype")) or string(meta.get("ftype")) or ""
    return ModelInfo(
        id=identifier,
        name=shown_name(identifier),
        quantization=quantization_of_ftype(ftype) or quantization_in(file_stem(path or identifier)),
        context_tokens=context or count(meta.get("n_ctx")),
        size_bytes=count(meta.get("size")),
        parameters=count(meta.get("n_params")),
        file_path=path,
    )


def _of_model(path: str, model: str) -> str:
    """The router's question about one model, which is not to load it."""
    return f"{path}?model={quote(model, safe='')}&autoload=false"


def _routed_model(identifier: str, entry: Mapping[str, Any], props: Mapping[str, Any], is_loaded: bool) -> ModelInfo:
    """By its own /props where it runs, and by the command line that the router has for it."""
    args = mapping(entry.get("status")).get("args")
    line = llamacpp_args.read(args if isinstance(args, list) else ())
    context = count(mapping(props.get("default_generation_settings")).get("n_ctx")) or None
    slots = count(props.get("total_slots")) or None
    model = _model(identifier, entry, props, context)
    return replace(
        model,
        quantization=model.quantization or quantization_in(file_stem(identifier)) or line.quantization,
        context_tokens=model.context_tokens or line.context_tokens,
        file_path=model.file_path or line.file_path or string(entry.get("path")),
        settings={**line.settings, **({} if slots is None else {"parallel": slots})},
        is_loaded=is_loaded,
    )


def _busy_slots(answer: Answer) -> int | None:
    """How many slots are at work; None where /slots is off."""
    if answer.status != 200:
        return None
    try:
        slots = answer.json()
    except ServerError:  # no JSON: unknown
        return None
    if not isinstance(slots, list):
        return None
    return sum(isinstance(slot, dict) and bool(slot.get("is_processing")) for slot in slots)
