"""llama.cpp's `llama-server`.

Its stream ends with `timings`, the best source of server figures. Two habits matter for timing, and each is detected in
the answer itself:

* The role chunk leaves together with the first token, unless progress events are on. Where the first tokens have no
  text (tags of a reasoning model are swallowed), the role chunk is the only sign of them.
* Output tokens without text at the end (the end token of a natural stop, or one whose text is held back) show only in
  the finish event, which then comes a decode step after the last text; the server's decode time runs until there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import quote

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import TOKEN_KINDS, CacheDefeat, Event, Kind, ServerFigures, Trace
from app.engines.base import CompletionRequest, Health, LoggedModelLoad, LoggedRequest, ModelInfo, ServerInfo
from app.engines.flags import ModelArguments
from app.engines.http import Answer, ServerClient
from app.engines.llamacpp_args import DEFAULTS, ENVIRONMENT, FLAGS, read_arguments
from app.engines.llamacpp_log import read_loads, read_requests
from app.engines.openai import list_models
from app.engines.protocol.answers import busy_health, count, health_of, mapping, object_at, string
from app.engines.protocol.models import file_stem, quantization_in, shown_name
from app.engines.protocol.prometheus_engine import MetricNames, PrometheusEngine
from app.engines.protocol.trace_builder import Dialect

_METRICS = MetricNames(
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
    # its two speeds are left out: each reading resets them
)
_LOADED = ("loaded", "sleeping")
# its words for a file type that are not the usual name
_FILE_TYPES = {"Q2_K - Medium": "Q2_K", "IQ3_S mix": "IQ3_M", "MXFP4 MoE": "MXFP4"}
_FILE_TYPE_SIZES = {"Small": "_S", "Medium": "_M", "Large": "_L"}


class LlamaCpp(PrometheusEngine):
    metric_names = _METRICS
    key = "llama.cpp"
    title = "llama.cpp"
    default_ports = (8080,)
    owned_by = ("llamacpp",)
    server_header = ("llama.cpp",)
    health_path = "/health"
    slots_option = "`--parallel`"
    prompt_options = "`--batch-size`, `--ubatch-size`"
    cache_switch = "cache_prompt"
    has_llama_bench = True
    flags = FLAGS
    environment: ClassVar[Mapping[str, str]] = ENVIRONMENT
    default_settings: ClassVar[Mapping[str, str | int]] = DEFAULTS
    dialect = Dialect(is_named=True)
    programs: ClassVar[tuple[str, ...]] = ("llama-server", "llama.cpp", "app.demo")  # the last: Roofmark's own demo

    def detect(self, client: ServerClient) -> ServerInfo | None:
        answer = client.get("/props")
        if answer.status >= 300:
            if not self._is_own(answer):
                return None
            problem = answer.problem()
            if problem.trouble is ServerErrorKind.LOADING:
                return ServerInfo(self.key, None, (), loading=True, notes=(problem.message,))
            if problem.trouble is ServerErrorKind.NEEDS_KEY:
                raise problem
            # a build without /props
            return self.describe(client)
        try:
            props = answer.json()
        except ServerError:  # no JSON: another server
            return None
        if not isinstance(props, dict) or not (self._is_own(answer) or self._has_shape(props)):
            return None
        if props.get("role") == "router":
            return self._describe_router(client, props)
        return self._describe_by(props, list_models(client))

    def _is_own(self, answer: Answer) -> bool:
        """Whether the answer's header names the engine."""
        return answer.headers.get("server", "").lower().startswith(self.server_header)

    def _has_shape(self, props: Mapping[str, Any]) -> bool:
        """Whether `/props` is the engine's, where its header is hidden."""
        return props.keys() >= {"build_info", "model_path"}

    def describe(self, client: ServerClient) -> ServerInfo:
        return self._describe_by({}, list_models(client))

    def _describe_router(self, client: ServerClient, props: Mapping[str, Any]) -> ServerInfo:
        """A router starts a server of its own for each model; models that run come first.

        A model that does not run gets no request, since that would start it.
        """
        models = []
        for identifier, entry in list_models(client).items():
            is_loaded = mapping(entry.get("status")).get("value") in _LOADED
            model_props = object_at(client, _model_path("/props", identifier)) if is_loaded else {}
            models.append(_routed_model(identifier, entry, model_props, is_loaded))
        models.sort(key=lambda model: not model.is_loaded)
        return ServerInfo(
            engine=self.key,
            engine_version=string(props.get("build_info")),
            models=tuple(models),
            notes=() if models else (_("The server offers no model: load one first."),),
        )

    def _describe_by(self, props: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> ServerInfo:
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
        assert self.health_path is not None
        health = health_of(client.get(self.health_path))
        if not health.ready:
            return health
        try:
            return busy_health([_busy_slots(client.get(self._state_path(client, "/slots")))])
        except ServerError as problem:
            if problem.trouble is not ServerErrorKind.TIMEOUT:
                raise
            # unlike its health, /slots answers only between two steps, and a step of a long prompt may take minutes
            return Health(ready=True, detail=_("The server is working on a long prompt."), busy=True)

    def prompt_tokens(self, client: ServerClient, request: CompletionRequest) -> int | None:
        messages = self._required(request, CacheDefeat.SWITCH)["messages"]
        model = {} if client.model is None else {"model": client.model}
        try:
            prompt = client.post_json("/apply-template", {**model, "messages": messages})["prompt"]
            body = {**model, "content": prompt, "add_special": True, "parse_special": True}
            return len(client.post_json("/tokenize", body)["tokens"])
        except (ServerError, KeyError, TypeError):  # a build without it: unknown
            return None

    def read_arguments(self, arguments: Sequence[str]) -> ModelArguments:
        return read_arguments(arguments, self.flags)

    def read_log(self, text: str) -> Sequence[LoggedRequest]:
        return read_requests(text)

    def read_loads(self, text: str) -> Sequence[LoggedModelLoad]:
        return read_loads(text)

    def load(self, client: ServerClient) -> Mapping[str, float]:
        """Counted by /slots: reading /metrics this often would reset the two speeds there for everybody else."""
        busy = _busy_slots(client.get(self._state_path(client, "/slots")))
        return {} if busy is None else {"requests_running": float(busy)}

    def _state_path(self, client: ServerClient, path: str) -> str:
        return path if client.model is None else _model_path(path, client.model)

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {"cache_prompt": request.reuse_cache, "ignore_eos": True}

    def refine(self, trace: Trace) -> Trace:
        return replace(trace, events=_with_hidden_tokens(trace), server=trace.server and _with_drafts(trace.server))


ENGINE = LlamaCpp()


def _with_drafts(figures: ServerFigures) -> ServerFigures:
    """Timings without drafted tokens mean that there were none."""
    has_no_drafts = figures.output_tokens is not None and figures.draft_tokens is None
    return replace(figures, draft_tokens=0) if has_no_drafts else figures


def _with_hidden_tokens(trace: Trace) -> tuple[Event, ...]:
    """The events, where role and finish events that mark tokens without text are token events (see above)."""
    visible = [event for event in trace.events if event.kind in TOKEN_KINDS]
    if not visible or trace.server is None or (trace.output_tokens or 0) <= len(visible):
        return trace.events
    prompt_ms, decode_ms = trace.server.prompt_ms, trace.server.decode_ms
    first_ms, last_ms = visible[0].at_ms, visible[-1].at_ms
    smallest_step_ms = min((after.at_ms - before.at_ms for before, after in pairwise(visible)), default=0.0)
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


def _model(identifier: str, entry: Mapping[str, Any], props: Mapping[str, Any], context: int | None) -> ModelInfo:
    meta = mapping(entry.get("meta"))
    path = string(props.get("model_path"))
    ftype = string(props.get("model_ftype")) or string(meta.get("ftype")) or ""
    return ModelInfo(
        id=identifier,
        name=shown_name(identifier),
        quantization=quantization_of_file_type(ftype) or quantization_in(file_stem(path or identifier)),
        context_tokens=context or count(meta.get("n_ctx")) or None,
        size_bytes=count(meta.get("size")) or None,
        parameters=count(meta.get("n_params")) or None,
        file_path=path,
    )


def quantization_of_file_type(text: str) -> str | None:
    """The usual name of a file type that llama.cpp describes; None when it says that it does not know it.

    >>> quantization_of_file_type("Q4_K - Medium"), quantization_of_file_type("IQ2_XXS - 2.0625 bpw")
    ('Q4_K_M', 'IQ2_XXS')
    """
    words = text.removeprefix("(guessed) ").removeprefix("all ").strip()
    head, _dash, tail = words.partition(" - ")
    name = _FILE_TYPES.get(words) or _FILE_TYPES.get(head) or head + _FILE_TYPE_SIZES.get(tail, "")
    return name if re.fullmatch(r"[A-Z]+\d+[A-Z0-9_]*", name) else None


def _model_path(path: str, model: str) -> str:
    """The path of a question to the router about one model, which does not load it."""
    return f"{path}?model={quote(model, safe='')}&autoload=false"


def _routed_model(identifier: str, entry: Mapping[str, Any], props: Mapping[str, Any], is_loaded: bool) -> ModelInfo:
    """A router's model, by its own /props where it runs, and by the command line that the router has for it."""
    arguments = mapping(entry.get("status")).get("args")
    line = read_arguments(arguments if isinstance(arguments, list) else ())
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
    """How many slots are working, by `is_processing` or by a `state` that is 0 for idle; None where /slots is off."""
    if answer.status != 200:
        return None
    try:
        slots = answer.json()
    except ServerError:  # no JSON: unknown
        return None
    if not isinstance(slots, list):
        return None
    return sum(isinstance(slot, dict) and bool(slot.get("is_processing", slot.get("state"))) for slot in slots)
