"""Any server with OpenAI's chat completions: what all of them share, and the base of most other engines."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.engines.base import API_PREFIX, CompletionRequest, Health, ModelInfo, ServerInfo
from app.engines.http import DEFAULT_API_PREFIX, ServerClient
from app.engines.protocol.answers import count, health_of, object_in, string
from app.engines.protocol.chat_engine import ChatEngine
from app.engines.protocol.models import file_stem, listed_models, quantization_in, shown_name

CHAT = "/v1/chat/completions"
MODELS = "/v1/models"

# statuses with which a server may answer that has chat completions, but no list of models
_NO_LIST = frozenset({404, 405, 500, 501})
_CONTEXT_KEYS = ("max_model_len", "context_length", "max_context_length", "context_window", "n_ctx")


class OpenAI(ChatEngine):
    key = "openai"
    title = "OpenAI-compatible"
    chat_path = CHAT
    fixed_length: ClassVar[bool | None] = None
    """Whether the engine has `ignore_eos` and `min_tokens`; None where that differs from server to server."""
    counts_in_events: ClassVar[bool] = False
    """Each event says how many tokens there are so far, when asked to: an event may hold several."""

    def detect(self, client: ServerClient) -> ServerInfo | None:
        return self.describe(client)

    def describe(self, client: ServerClient) -> ServerInfo:
        """A description by the list of models, at the first of the client's API prefixes that has one."""
        first_problem: ServerError | None = None
        for prefix in client.api_prefixes:
            client.api_prefix = prefix
            try:
                return self._describe_at_prefix(client)
            except ServerError as problem:
                if problem.trouble is not ServerErrorKind.NOT_LLM:
                    raise
                first_problem = first_problem or problem
        client.api_prefix = client.api_prefixes[0]
        assert first_problem is not None, "there is at least one prefix"
        raise first_problem

    def _describe_at_prefix(self, client: ServerClient) -> ServerInfo:
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
        return self._server_info(models, capabilities=capabilities)

    def _server_info(
        self,
        listed: Mapping[str, Mapping[str, Any]],
        version: str | None = None,
        context: int | None = None,
        settings: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> ServerInfo:
        """The description of a server that lists these models; `context` is what one request may use, where known."""
        models = tuple(model_info(identifier, entry) for identifier, entry in listed.items())
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
        if self.health_path is None:
            return health_of(client.get(MODELS), cannot_tell=_NO_LIST)
        return super().health(client)

    def _optional(self, request: CompletionRequest) -> dict[str, Any]:
        return {
            "max_tokens": request.output_tokens,
            "stream_options.include_usage": True,
            **({"stream_options.continuous_usage_stats": True} if self.counts_in_events else {}),
            "temperature": 0,
            "seed": 1,
            **self._extra_fields(request),
        }

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        """Fields beyond OpenAI's; by default those for a fixed output length, where the server has them."""
        fields = {"ignore_eos": True, "min_tokens": request.output_tokens}
        if self.fixed_length is not None:
            return fields if self.fixed_length else {}
        return {name: value for name, value in fields.items() if request.capabilities.get(name) is True}


ENGINE = OpenAI()


def cache_salt(request: CompletionRequest) -> dict[str, str]:
    """The field by which vLLM and SGLang give a request a prefix cache of its own; none where it is to be reused."""
    return {} if request.reuse_cache else {"cache_salt": request.nonce or secrets.token_hex(8)}


def list_models(client: ServerClient) -> dict[str, Mapping[str, Any]]:
    """The models at `/v1/models`: each id with its entry. Raises ServerError."""
    return listed_models(client.get_json(MODELS)) or {}


def owners(client: ServerClient) -> frozenset[str]:
    """What the listed models say of who serves them, whatever the status of the list."""
    models = listed_models(object_in(client.get(MODELS))) or {}
    return frozenset(owner for entry in models.values() if (owner := string(entry.get("owned_by"))) is not None)


def model_info(identifier: str, entry: Mapping[str, Any]) -> ModelInfo:
    """The model of an entry in OpenAI's list, with the context and path that some servers add."""
    context = next((count(entry.get(key)) for key in _CONTEXT_KEYS if count(entry.get(key))), None)
    root = string(entry.get("root"))
    return ModelInfo(
        identifier,
        shown_name(identifier),
        quantization_in(file_stem(identifier)),
        context_tokens=context,
        # a path only where the server shows the model under another name; KoboldCpp has its own name there
        file_path=None if root in (identifier, entry.get("owned_by")) else root,
    )


def _has_chat(client: ServerClient) -> bool:
    """Whether an empty request is refused the way a chat endpoint does it."""
    answer = client.post(CHAT, {})
    return answer.status in (400, 422) and answer.message is not None and "json" in answer.content_type
