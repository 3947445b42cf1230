"""TabbyAPI (ExLlama): seconds with two decimals beside the usage; its rates may be words and are not read."""

from collections.abc import Mapping
from typing import Any

from app.core.samples import ServerFigures
from app.engines.base import ServerInfo
from app.engines.flags import Flag, FlagTable, read_positive
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, list_models
from app.engines.protocol.answers import count, mapping, object_at, object_in, string, to_ms
from app.engines.protocol.server_timings import ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect

# rounded to 10 ms, a shorter time would be off by more than 5 %
_SHORTEST_MS = 100.0


def _figures(reported: ReportedUsage) -> ServerFigures | None:
    usage = reported.usage
    if not {"prompt_time", "completion_time"} & usage.keys():
        return llamacpp_timings(reported)
    return ServerFigures(
        prompt_tokens=reported.fresh_prompt_tokens,
        prompt_ms=_long_enough(usage.get("prompt_time")),
        output_tokens=reported.output_tokens,
        decode_ms=_long_enough(usage.get("completion_time")),
        raw=reported.raw("usage"),
    )


def _long_enough(seconds: Any) -> float | None:
    ms = to_ms(seconds)
    return None if ms is None or ms < _SHORTEST_MS else ms


class TabbyAPI(OpenAI):
    key = "tabbyapi"
    title = "TabbyAPI"
    default_ports = (5000,)
    health_path = "/health"
    owned_by = ("tabbyAPI",)
    imitates = ("koboldcpp",)
    slots_option = "`max_batch_size`"
    prompt_options = "`chunk_size`"
    dialect = Dialect(figures=_figures)
    fixed_length = True
    flags = FlagTable({"--max-seq-len": Flag(("context",), read_positive)})

    def detect(self, client: ServerClient) -> ServerInfo | None:
        # with an error status when something is wrong with the server
        if not {"status", "issues"} <= object_in(client.get("/health")).keys():
            return None
        models = list_models(client)
        loaded = object_at(client, "/v1/model")
        parameters = mapping(loaded.get("parameters"))
        if name := string(loaded.get("id")):
            models = {name: models.get(name, {}), **models}
        return self._server_info(
            models, None, count(parameters.get("max_seq_len")) or None, settings=_cache(parameters)
        )


ENGINE = TabbyAPI()


def _cache(parameters: Mapping[str, Any]) -> dict[str, str]:
    mode = string(parameters.get("cache_mode"))
    return {} if mode is None else {"kv_type_k": mode.lower(), "kv_type_v": mode.lower()}
