"""Asking for one streamed answer: what every engine with a chat endpoint shares."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from app.core.errors import ServerError, ServerErrorKind
from app.core.samples import CacheDefeat, Status, Trace
from app.engines.base import CompletionRequest, Engine
from app.engines.http import Answer, ServerClient
from app.engines.protocol.error_parsing import fatal_problem
from app.engines.protocol.param_negotiation import Negotiation, nested
from app.engines.protocol.sse import Recording, record
from app.engines.protocol.trace_builder import OPENAI, Dialect, is_alive, is_token, read_trace

_NO_BODY = frozenset({204, 205})
# bytes of stream per output token asked for; real servers stay far below it
_BYTES_PER_TOKEN = 16 * 1024
_BYTES_BESIDE = 4 * 1024 * 1024
# token events per output token asked for: a server that goes on far beyond ignores the limit, and may never end
_TOKENS_PER_TOKEN = 4
_TOKENS_BESIDE = 64


class ChatEngine(Engine):
    """Sends one JSON body to one path; leaves out what the server refuses; reads the stream by its dialect."""

    path: ClassVar[str]
    headers: ClassVar[Mapping[str, str]] = {}
    """Sent with each request for an answer."""
    dialect: ClassVar[Dialect] = OPENAI
    cache_switch: ClassVar[str | None] = None
    """The field that keeps the prompt cache out, where there is one."""

    def play(self, client: ServerClient, ask: CompletionRequest) -> Trace:
        negotiation = Negotiation(ask.capabilities)
        while True:
            defeat = self._defeat(ask, negotiation)
            required, optional = self._required(ask, defeat), negotiation.accepted(self._optional(ask))
            try:
                answer = self._attempt(client, ask, nested(required | optional))
            except ServerError as problem:
                if problem.trouble is ServerErrorKind.FORBIDDEN_ADDRESS:
                    raise
                return Trace(Status.FAILED, error=str(problem))
            if isinstance(answer, Recording):
                return self._refine(read_trace(answer, negotiation.learned, defeat, self.dialect))
            if (fatal := fatal_problem(answer)) is not None:
                raise fatal
            if not negotiation.learn(answer, optional, required):
                return Trace(Status.FAILED, error=str(answer.problem()))

    def _attempt(self, client: ServerClient, ask: CompletionRequest, body: Mapping[str, Any]) -> Recording | Answer:
        """The recorded stream, or the answer that came in its place. Raises ServerError when there is none."""
        settings = client.settings
        with client.stream(
            self._path(ask), body, headers=self.headers, first_byte_timeout_s=settings.first_byte_timeout_s
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
                max_tokens=_TOKENS_BESIDE + _TOKENS_PER_TOKEN * ask.output_tokens,
                max_bytes=_BYTES_BESIDE + _BYTES_PER_TOKEN * ask.output_tokens,
            )

    def _defeat(self, ask: CompletionRequest, negotiation: Negotiation) -> CacheDefeat:
        """What this request does against the prompt cache: the switch, and the nonce where there is none."""
        if ask.reuse_cache:
            return CacheDefeat.NONE
        if self.cache_switch is not None and negotiation.takes(self.cache_switch):
            return CacheDefeat.SWITCH
        return CacheDefeat.NONE if ask.nonce is None else CacheDefeat.NONCE

    def _path(self, ask: CompletionRequest) -> str:  # noqa: ARG002  # one path for all, in most engines
        return self.path

    def _required(self, ask: CompletionRequest, defeat: CacheDefeat) -> dict[str, Any]:
        """The fields without which there is nothing to measure; dotted where nested."""
        prompt = f"{ask.nonce}\n{ask.prompt}" if defeat is CacheDefeat.NONCE else ask.prompt
        body: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}], "stream": True}
        return body if ask.model is None else {"model": ask.model, **body}

    @abstractmethod
    def _optional(self, ask: CompletionRequest) -> dict[str, Any]:
        """The fields that a server may refuse; dotted where nested."""

    def _refine(self, trace: Trace) -> Trace:
        """What an engine knows beyond the bytes of the stream."""
        return trace
