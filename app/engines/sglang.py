"""SGLang. It tells cached tokens only with cache reporting on, so a nonce keeps its prefix cache out."""

from typing import ClassVar

from app.engines import _prometheus
from app.engines._chunk import count
from app.engines._health import busy_health, health_of
from app.engines._probing import object_at, string
from app.engines.base import Counters, Facts, Health
from app.engines.openai import OpenAI, listed
from app.http import ServerClient

_INFO_PATHS = ("/server_info", "/get_server_info")


class SGLang(OpenAI):
    key: ClassVar[str] = "sglang"
    title: ClassVar[str] = "SGLang"
    default_ports: ClassVar[tuple[int, ...]] = (30000,)
    rank: ClassVar[int] = 38
    fixed_length: ClassVar[bool | None] = True

    def recognise(self, client: ServerClient) -> Facts | None:
        told = next((found for path in _INFO_PATHS if "model_path" in (found := object_at(client, path))), None)
        if told is None:
            return None
        kv_type = string(told.get("kv_cache_dtype"))
        return self._facts(
            listed(client),
            string(told.get("version")),
            count(told.get("context_length")) or None,
            settings={} if kv_type in (None, "auto") else {"kv_type_k": kv_type, "kv_type_v": kv_type},
        )

    def health(self, client: ServerClient) -> Health:
        health = health_of(client.get("/health"))
        if not health.ready:
            return health
        metrics = _prometheus.scrape(client)
        names = ("sglang:num_running_reqs", "sglang:num_queue_reqs")
        return busy_health([_prometheus.total(metrics, name) for name in names])

    def counters(self, client: ServerClient) -> Counters | None:
        metrics = _prometheus.scrape(client)
        prompt = _prometheus.total(metrics, "sglang:prompt_tokens_total")
        if prompt is None:
            return None
        cached = _prometheus.total(metrics, "sglang:cached_tokens_total")
        return Counters(
            prompt_tokens=prompt - (cached or 0),
            cached_prompt_tokens=cached,
            output_tokens=_prometheus.total(metrics, "sglang:generation_tokens_total"),
        )


ENGINE = SGLang()
