"""Any server with OpenAI's chat completions: what all of them share, and nothing that only one of them has."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from app.engines._chat import is_alive, is_token, read_trace
from app.engines._chunk import count
from app.engines._health import health_of
from app.engines._models import file_stem, listed_models, quantization_in, shown_name
from app.engines._refusals import fatal_problem, refused_fields
from app.engines._stream import Recording, record
from app.engines.base import Ask, Engine, Facts, Health, ModelFacts
from app.errors import ServerProblem, Trouble
from app.http import Answer, ServerClient
from app.samples import CacheDefeat, Status, Trace

CHAT = "/v1/chat/completions"
MODELS = "/v1/models"

# statuses with which a server may answer that has chat completions, but no list of models
_NO_LIST = frozenset({404, 405, 500, 501})
_NO_BODY = frozenset({204, 205})
_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})
_CONTEXT_KEYS = ("max_model_len", "context_length", "max_context_length", "context_window", "n_ctx")
# bytes of stream per output token asked for; real servers stay far below it
_BYTES_PER_TOKEN = 16 * 1024
_BYTES_BESIDE = 4 * 1024 * 1024
# token events per output token asked for: a server that goes on far beyond ignores the limit, and may never end
_TOKENS_PER_TOKEN = 4
_TOKENS_BESIDE = 64


class OpenAI(Engine):
    key: ClassVar[str] = "openai"
    title: ClassVar[str] = "OpenAI-compatible"
    default_ports: ClassVar[tuple[int, ...]] = (8000, 8080, 8081, 1234, 30000, 5000, 5001, 3000, 11434)
    rank: ClassVar[int] = 0
    cache_switch: ClassVar[str | None] = None
    """The field that turns the prompt cache off, where there is one."""

    def recognise(self, client: ServerClient) -> Facts | None:
        answer = client.get(MODELS)
        if answer.status in _NO_LIST and _has_chat(client):
            return Facts(self.key, None, (), notes=("The server does not list its models.",))
        listed = listed_models(answer.json())
        if listed is None:
            raise ServerProblem(f"The answer to {MODELS} lists no models: this is no LLM server.", Trouble.NOT_LLM)
        models = tuple(_model(identifier, entry) for identifier, entry in listed.items())
        notes = () if models else ("The server offers no model: load one first.",)
        context = models[0].context_tokens if models else None
        settings = {} if context is None else {"context": context}
        return Facts(self.key, None, models, context_tokens=context, settings=settings, notes=notes)

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get(MODELS), cannot_tell=_NO_LIST)

    def play(self, client: ServerClient, ask: Ask) -> Trace:
        refused = _refused_before(ask)
        tried: set[str] = set()
        learned: dict[str, Any] = {}
        while True:
            defeat = self._defeat(ask, refused)
            required, optional = self._required(ask, defeat), self._optional(ask, refused)
            try:
                answer = self._attempt(client, ask, required | optional)
            except ServerProblem as problem:
                if problem.trouble is Trouble.FORBIDDEN_ADDRESS:
                    raise
                return Trace(Status.FAILED, error=str(problem))
            if isinstance(answer, Recording):
                return self._refine(read_trace(answer, learned, defeat))
            if (fatal := fatal_problem(answer)) is not None:
                raise fatal
            newly = refused_fields(answer, optional.keys()) - tried
            tried |= newly
            if not newly or tried >= _LIMITS:
                return Trace(Status.FAILED, error=str(answer.problem()))
            refused |= newly
            if refused >= _LIMITS:
                # a server that changed its mind since the lesson was learned: the name refused now gives way
                refused -= _LIMITS - newly
            learned = {"refused_fields": sorted(refused)}

    def _attempt(self, client: ServerClient, ask: Ask, body: Mapping[str, Any]) -> Recording | Answer:
        """The recorded stream, or the answer that came in its place. Raises ServerProblem when there is none."""
        settings = client.settings
        with client.stream(CHAT, body, first_byte_timeout_s=settings.first_byte_timeout_s) as exchange:
            if not 200 <= exchange.status < 300 or exchange.status in _NO_BODY:
                exchange.deadline.set(settings.probe_timeout_s)
                return exchange.answer()
            return record(
                exchange,
                is_token,
                is_alive,
                first_token_timeout_s=settings.first_byte_timeout_s,
                idle_timeout_s=settings.idle_timeout_s,
                max_tokens=_TOKENS_BESIDE + _TOKENS_PER_TOKEN * ask.output_tokens,
                max_bytes=_BYTES_BESIDE + _BYTES_PER_TOKEN * ask.output_tokens,
            )

    def _defeat(self, ask: Ask, refused: Collection[str]) -> CacheDefeat:
        """What this request does against the prompt cache: the switch, and the nonce where there is none."""
        if ask.reuse_cache:
            return CacheDefeat.NONE
        if self.cache_switch is not None and self.cache_switch not in refused:
            return CacheDefeat.SWITCH
        return CacheDefeat.NONE if ask.nonce is None else CacheDefeat.NONCE

    def _required(self, ask: Ask, defeat: CacheDefeat) -> dict[str, Any]:
        prompt = f"{ask.nonce}\n{ask.prompt}" if defeat is CacheDefeat.NONCE else ask.prompt
        body: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}], "stream": True}
        return body if ask.model is None else {"model": ask.model, **body}

    def _optional(self, ask: Ask, refused: Collection[str]) -> dict[str, Any]:
        """The fields that a server may refuse by name, without those that it did refuse."""
        limit = "max_tokens" if "max_tokens" not in refused else "max_completion_tokens"
        fields = {
            limit: ask.output_tokens,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "seed": 1,
            **self._fields(ask),
        }
        return {name: value for name, value in fields.items() if name not in refused}

    def _fields(self, ask: Ask) -> dict[str, Any]:
        """Fields for a fixed output length, where the server is known to have them."""
        fields = {"ignore_eos": True, "min_tokens": ask.output_tokens}
        return {name: value for name, value in fields.items() if ask.capabilities.get(name) is True}

    def _refine(self, trace: Trace) -> Trace:
        """What an engine knows beyond the bytes of the stream."""
        return trace


ENGINE = OpenAI()


def _refused_before(ask: Ask) -> set[str]:
    fields = ask.capabilities.get("refused_fields")
    return {field for field in fields if isinstance(field, str)} if isinstance(fields, list) else set()


def _has_chat(client: ServerClient) -> bool:
    """Whether an empty request is refused the way a chat endpoint does it."""
    answer = client.post(CHAT, {})
    return answer.status in (400, 422) and answer.message is not None and "json" in answer.content_type


def _model(identifier: str, entry: Mapping[str, Any]) -> ModelFacts:
    context = next((count(entry.get(key)) for key in _CONTEXT_KEYS if count(entry.get(key))), None)
    return ModelFacts(
        identifier, shown_name(identifier), quantization_in(file_stem(identifier)), context_tokens=context
    )
