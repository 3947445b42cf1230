"""LocalAI: with the header `Extra-Usage` its usage holds two durations in milliseconds."""

from collections.abc import Mapping
from typing import Any, ClassVar

from app.core.samples import ServerFigures
from app.engines.base import CompletionRequest, Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, listed
from app.engines.protocol.health import NO_ENDPOINT, health_of
from app.engines.protocol.json_helpers import object_at, string
from app.engines.protocol.openai_chunk import milliseconds
from app.engines.protocol.server_timings import Stated, of_timings
from app.engines.protocol.trace_builder import Dialect


def _figures(stated: Stated) -> ServerFigures | None:
    usage = stated.usage
    if not {"timing_prompt_processing", "timing_token_generation"} & usage.keys():
        return of_timings(stated)
    return ServerFigures(
        prompt_tokens=stated.fresh_prompt_tokens,
        prompt_ms=milliseconds(usage.get("timing_prompt_processing")),
        output_tokens=stated.output_tokens,
        decode_ms=milliseconds(usage.get("timing_token_generation")),
        raw=stated.raw("usage"),
    )


class LocalAI(OpenAI):
    key: ClassVar[str] = "localai"
    title: ClassVar[str] = "LocalAI"
    default_ports: ClassVar[tuple[int, ...]] = (8080,)
    rank: ClassVar[int] = 32
    slots_option: ClassVar[str] = "`LLAMACPP_PARALLEL`"
    prompt_options: ClassVar[str] = "`batch`"
    headers: ClassVar[Mapping[str, str]] = {"Extra-Usage": "true"}
    dialect: ClassVar[Dialect] = Dialect(figures=_figures)

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        if not isinstance(object_at(client, "/system").get("backends"), list):
            return None
        return self._facts(listed(client), string(object_at(client, "/version").get("version")))

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get("/readyz"), cannot_tell=NO_ENDPOINT)

    def _fields(self, ask: CompletionRequest) -> dict[str, Any]:  # noqa: ARG002  # the same for each request
        return {"ignore_eos": True}


ENGINE = LocalAI()
