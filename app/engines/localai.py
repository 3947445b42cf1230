"""LocalAI: with the header `Extra-Usage` its usage holds two durations in milliseconds."""

from collections.abc import Mapping
from typing import Any, ClassVar

from app.core.samples import ServerFigures
from app.engines.base import CompletionRequest, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, list_models
from app.engines.protocol.answers import milliseconds, object_at, string
from app.engines.protocol.server_timings import ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect


def _figures(reported: ReportedUsage) -> ServerFigures | None:
    usage = reported.usage
    if not {"timing_prompt_processing", "timing_token_generation"} & usage.keys():
        return llamacpp_timings(reported)
    return ServerFigures(
        prompt_tokens=reported.fresh_prompt_tokens,
        prompt_ms=milliseconds(usage.get("timing_prompt_processing")),
        output_tokens=reported.output_tokens,
        decode_ms=milliseconds(usage.get("timing_token_generation")),
        raw=reported.raw("usage"),
    )


class LocalAI(OpenAI):
    key = "localai"
    title = "LocalAI"
    default_ports = (8080,)
    health_path = "/readyz"
    slots_option = "`LLAMACPP_PARALLEL`"
    prompt_options = "`batch`"
    chat_headers: ClassVar[Mapping[str, str]] = {"Extra-Usage": "true"}
    dialect = Dialect(figures=_figures)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        if not isinstance(object_at(client, "/system").get("backends"), list):
            return None
        return self._server_info(list_models(client), string(object_at(client, "/version").get("version")))

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {"ignore_eos": True}


ENGINE = LocalAI()
