"""Requesting one streamed answer: what every engine with a chat endpoint shares."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from app.core.errors import ServerError, ServerErrorKind
from app.core.samples import CacheDefeat, Status, Trace
from app.engines.base import CompletionRequest, Engine, Health
from app.engines.http import Answer, ServerClient
from app.engines.protocol.answers import health_of
from app.engines.protocol.error_parsing import fatal_problem
from app.engines.protocol.param_negotiation import Negotiation, nested
from app.engines.protocol.sse import Recording, record
from app.engines.protocol.trace_builder import OPENAI_DIALECT, Dialect, is_alive, is_token, read_trace

_NO_BODY = frozenset({204, 205})
# bytes of stream per output token asked for; real servers stay far below it
_MAX_BYTES_PER_TOKEN = 16 * 1024
_MAX_BYTES_BASE = 4 * 1024 * 1024
# token events per output token asked for: a server that sends far more ignores the limit, and may never end
_MAX_EVENTS_PER_TOKEN = 4
_MAX_EVENTS_BASE = 64


class ChatEngine(Engine):
    """Sends one JSON body to one path; leaves out what the server refuses; reads the stream by its dialect."""

    health_path: ClassVar[str | None] = None
    """The path whose status tells whether the server is ready; without one, `health` is overridden."""
    chat_path: ClassVar[str]
    chat_headers: ClassVar[Mapping[str, str]] = {}
    """Sent with each request for an answer."""
    dialect: ClassVar[Dialect] = OPENAI_DIALECT
    cache_switch: ClassVar[str | None] = None
    """The field that turns the prompt cache off for a request, where there is one."""

    def health(self, client: ServerClient) -> Health:
        assert self.health_path is not None, "an engine without a health path overrides this method"
        return health_of(client.get(self.health_path))

    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        negotiation = Negotiation(request.capabilities)
        while True:
            defeat = self._cache_defeat(request, negotiation)
            required, optional = self._required(request, defeat), negotiation.accepted(self._optional(request))
            try:
                answer = self._attempt(client, request, nested(required | optional))
            except ServerError as problem:
                if problem.trouble is ServerErrorKind.FORBIDDEN_ADDRESS:
                    raise
                return Trace(Status.FAILED, error=problem.message)
            if isinstance(answer, Recording):
                return self.read(answer, negotiation.learned_capabilities, defeat)
            if (fatal := fatal_problem(answer)) is not None:
                raise fatal
            if not negotiation.learn(answer, optional, required):
                return Trace(Status.FAILED, error=answer.problem().message)

    def read(
        self, recording: Recording, learned_capabilities: Mapping[str, Any], defeat: CacheDefeat = CacheDefeat.NONE
    ) -> Trace:
        """The trace of a recorded stream, by the engine's dialect and by what it covers with its decode time."""
        trace = read_trace(recording, learned_capabilities, defeat, self.dialect)
        if (figures := trace.server) is not None:
            span_ms = self.decode_span_ms(figures.decode_ms, figures.output_tokens)
            trace = replace(trace, server=replace(figures, decode_ms=span_ms))
        return self.refine(trace)

    def _attempt(self, client: ServerClient, request: CompletionRequest, body: Mapping[str, Any]) -> Recording | Answer:
        """The recorded stream, or the answer that came in its place. Raises ServerError when there is none."""
        settings = client.settings
        with client.stream(
            self._chat_path(request),
            body,
            headers=self.chat_headers,
            first_byte_timeout_s=settings.first_byte_timeout_s,
        ) as answer:
            if not 200 <= answer.status < 300 or answer.status in _NO_BODY:
                answer.limit.end_in(settings.probe_timeout_s)
                return answer.read()
            return record(
                answer,
                partial(is_token, dialect=self.dialect),
                partial(is_alive, dialect=self.dialect),
                first_token_timeout_s=settings.first_byte_timeout_s,
                idle_timeout_s=settings.idle_timeout_s,
                max_tokens=_MAX_EVENTS_BASE + _MAX_EVENTS_PER_TOKEN * request.output_tokens,
                max_bytes=_MAX_BYTES_BASE + _MAX_BYTES_PER_TOKEN * request.output_tokens,
                on_start=client.on_stream,
            )

    def _cache_defeat(self, request: CompletionRequest, negotiation: Negotiation) -> CacheDefeat:
        """What this request does against the prompt cache: the switch, and the nonce where there is none."""
        if request.reuse_cache:
            return CacheDefeat.NONE
        if self.cache_switch is not None and negotiation.accepts(self.cache_switch):
            return CacheDefeat.SWITCH
        return CacheDefeat.NONE if request.nonce is None else CacheDefeat.NONCE

    def _chat_path(self, request: CompletionRequest) -> str:
        """The path of this request, for an engine with several."""
        return self.chat_path

    def _required(self, request: CompletionRequest, defeat: CacheDefeat) -> dict[str, Any]:
        """The fields without which there is nothing to measure; dotted where nested."""
        prompt = f"{request.nonce}\n{request.prompt}" if defeat is CacheDefeat.NONCE else request.prompt
        body: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}], "stream": True}
        return body if request.model is None else {"model": request.model, **body}

    @abstractmethod
    def _optional(self, request: CompletionRequest) -> dict[str, Any]:
        """The fields that a server may refuse; dotted where nested."""

    def refine(self, trace: Trace) -> Trace:
        """The trace with what an engine knows beyond the bytes of its stream."""
        return trace
