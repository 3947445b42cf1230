"""LocalAI: with the header `Extra-Usage` its usage holds two durations in milliseconds.

Read in its source at 82c191af: they are `prompt_ms` and `predicted_ms` of its llama.cpp, so the second one covers n - 1
tokens; usage says nothing of cached ones. `/readyz` answers without asking a backend. With users of its own, `/system`
is the administrator's; `/.well-known/localai.json` is anybody's, in newer versions.
"""

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
    decode_intervals = "n-1"
    health_path = "/readyz"
    slots_option = "`LLAMACPP_PARALLEL`"
    prompt_options = "`batch`"
    chat_headers: ClassVar[Mapping[str, str]] = {"Extra-Usage": "true"}
    dialect = Dialect(figures=_figures)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        card: Mapping[str, Any] = {}
        if not isinstance(object_at(client, "/system").get("backends"), list):
            card = object_at(client, "/.well-known/localai.json")
            if not isinstance(card.get("endpoints"), dict):
                return None
        version = string(card.get("version")) or string(object_at(client, "/version").get("version"))
        return self._server_info(list_models(client), version)

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {"ignore_eos": True}


ENGINE = LocalAI()
