"""TabbyAPI (ExLlama): seconds with two decimals beside the usage; a rate may even be a word, and is not needed."""

from collections.abc import Mapping
from typing import Any, ClassVar

from app.core.samples import ServerFigures
from app.engines.base import Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, listed
from app.engines.protocol.health import health_of
from app.engines.protocol.json_helpers import object_at, object_in, string
from app.engines.protocol.openai_chunk import count, mapping
from app.engines.protocol.server_timings import Stated, ms_of, of_timings
from app.engines.protocol.trace_builder import Dialect

# rounded to 10 ms, a shorter time would be off by more than 5 %
_SHORTEST_MS = 100.0


def _figures(stated: Stated) -> ServerFigures | None:
    usage = stated.usage
    if not {"prompt_time", "completion_time"} & usage.keys():
        return of_timings(stated)
    return ServerFigures(
        prompt_tokens=stated.fresh_prompt_tokens,
        prompt_ms=_long_enough(usage.get("prompt_time")),
        output_tokens=stated.output_tokens,
        decode_ms=_long_enough(usage.get("completion_time")),
        raw=stated.raw("usage"),
    )


def _long_enough(seconds: Any) -> float | None:
    ms = ms_of(seconds)
    return None if ms is None or ms < _SHORTEST_MS else ms


class TabbyAPI(OpenAI):
    key: ClassVar[str] = "tabbyapi"
    title: ClassVar[str] = "TabbyAPI"
    default_ports: ClassVar[tuple[int, ...]] = (5000,)
    # before KoboldCpp, whose endpoints it imitates
    rank: ClassVar[int] = 70
    slots_option: ClassVar[str] = "`max_batch_size`"
    prompt_options: ClassVar[str] = "`chunk_size`"
    dialect: ClassVar[Dialect] = Dialect(figures=_figures)
    fixed_length: ClassVar[bool | None] = True

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        # it says so with an error status when something is wrong with it
        if not {"status", "issues"} <= object_in(client.get("/health")).keys():
            return None
        models = listed(client)
        loaded = object_at(client, "/v1/model")
        parameters = mapping(loaded.get("parameters"))
        if name := string(loaded.get("id")):
            models = {name: models.get(name, {}), **models}
        return self._facts(models, None, count(parameters.get("max_seq_len")) or None, settings=_cache(parameters))

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get("/health"))


ENGINE = TabbyAPI()


def _cache(parameters: Mapping[str, Any]) -> dict[str, str]:
    mode = string(parameters.get("cache_mode"))
    return {} if mode is None else {"kv_type_k": mode.lower(), "kv_type_v": mode.lower()}
