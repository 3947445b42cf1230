"""Any server with OpenAI's chat completions: what all of them share, and nothing that only one of them has."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.engines.base import API_PREFIX, CompletionRequest, Health, ModelInfo, ServerInfo
from app.engines.http import DEFAULT_API_PREFIX, ServerClient
from app.engines.protocol.chat_engine import ChatEngine
from app.engines.protocol.health import health_of
from app.engines.protocol.json_helpers import string
from app.engines.protocol.models import file_stem, listed_models, quantization_in, shown_name
from app.engines.protocol.openai_chunk import count

CHAT = "/v1/chat/completions"
MODELS = "/v1/models"

# statuses with which a server may answer that has chat completions, but no list of models
_NO_LIST = frozenset({404, 405, 500, 501})
_CONTEXT_KEYS = ("max_model_len", "context_length", "max_context_length", "context_window", "n_ctx")


class OpenAI(ChatEngine):
    key: ClassVar[str] = "openai"
    title: ClassVar[str] = "OpenAI-compatible"
    rank: ClassVar[int] = 0
    path: ClassVar[str] = CHAT
    fixed_length: ClassVar[bool | None] = None
    """Whether the engine has `ignore_eos` and `min_tokens`; None where each server has to be known for it."""
    counts_in_events: ClassVar[bool] = False
    """It states in each event, when asked to, how many tokens there are so far: an event may hold several."""

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        return self.describe(client)

    def describe(self, client: ServerClient) -> ServerInfo:
        problem: ServerError | None = None
        for prefix in client.api_prefixes:
            client.api_prefix = prefix
            try:
                return self._described(client)
            except ServerError as error:
                if error.trouble is not ServerErrorKind.NOT_LLM:
                    raise
                problem = problem or error
        client.api_prefix = client.api_prefixes[0]
        assert problem is not None, "there is at least one place to look at"
        raise problem

    def _described(self, client: ServerClient) -> ServerInfo:
        """What is below the client's present prefix. Raises ServerError."""
        answer = client.get(MODELS)
        capabilities = {API_PREFIX: client.api_prefix} if client.api_prefix != DEFAULT_API_PREFIX else {}
        if answer.status in _NO_LIST and _has_chat(client):
            return ServerInfo(
                self.key, None, (), capabilities=capabilities, notes=(_("The server does not list its models."),)
            )
        models = listed_models(answer.json())
        if models is None:
            raise ServerError(
                _("The answer to {path} lists no models: this is no LLM server.", path=answer.path),
                ServerErrorKind.NOT_LLM,
            )
        return self._facts(models, capabilities=capabilities)

    def _facts(
        self,
        listed: Mapping[str, Mapping[str, Any]],
        version: str | None = None,
        context: int | None = None,
        settings: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> ServerInfo:
        """ServerInfo of a server that lists these models; `context` is what one request may use, where known."""
        models = tuple(model_facts(identifier, entry) for identifier, entry in listed.items())
        if context is not None:
            models = tuple(replace(model, context_tokens=context) for model in models)
        elif len(contexts := {model.context_tokens for model in models}) == 1:
            (context,) = contexts
        return ServerInfo(
            engine=self.key,
            engine_version=version,
            models=models,
            context_tokens=context,
            settings={**({} if context is None else {"context": context}), **(settings or {})},
            capabilities=capabilities or {},
            notes=() if models else (_("The server offers no model: load one first."),),
        )

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get(MODELS), cannot_tell=_NO_LIST)

    def _optional(self, ask: CompletionRequest) -> dict[str, Any]:
        return {
            "max_tokens": ask.output_tokens,
            "stream_options.include_usage": True,
            **({"stream_options.continuous_usage_stats": True} if self.counts_in_events else {}),
            "temperature": 0,
            "seed": 1,
            **self._fields(ask),
        }

    def _fields(self, ask: CompletionRequest) -> dict[str, Any]:
        """Fields beyond OpenAI's; here those for a fixed output length, where the server is known to have them."""
        fields = {"ignore_eos": True, "min_tokens": ask.output_tokens}
        if self.fixed_length is not None:
            return fields if self.fixed_length else {}
        return {name: value for name, value in fields.items() if ask.capabilities.get(name) is True}


ENGINE = OpenAI()


def listed(client: ServerClient) -> dict[str, Mapping[str, Any]]:
    """The models at `/v1/models`. Raises ServerError."""
    return listed_models(client.get_json(MODELS)) or {}


def model_facts(identifier: str, entry: Mapping[str, Any]) -> ModelInfo:
    context = next((count(entry.get(key)) for key in _CONTEXT_KEYS if count(entry.get(key))), None)
    root = string(entry.get("root"))
    return ModelInfo(
        identifier,
        shown_name(identifier),
        quantization_in(file_stem(identifier)),
        context_tokens=context,
        # what is served under a name of the server's own choice
        file_path=None if root == identifier else root,
    )


def _has_chat(client: ServerClient) -> bool:
    """Whether an empty request is refused the way a chat endpoint does it."""
    answer = client.post(CHAT, {})
    return answer.status in (400, 422) and answer.message is not None and "json" in answer.content_type
