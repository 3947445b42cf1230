"""TensorRT-LLM's `trtllm-serve`: usage in the stream; its Prometheus figures are at a path of their own."""

from typing import ClassVar

from app.engines._health import health_of
from app.engines._probing import object_at, string
from app.engines.base import Facts, Health
from app.engines.openai import OpenAI, listed
from app.http import ServerClient


class TensorRTLLM(OpenAI):
    key: ClassVar[str] = "trtllm"
    title: ClassVar[str] = "TensorRT-LLM"
    default_ports: ClassVar[tuple[int, ...]] = (8000,)
    rank: ClassVar[int] = 36
    fixed_length: ClassVar[bool | None] = True

    def recognise(self, client: ServerClient) -> Facts | None:
        version = string(object_at(client, "/version").get("version"))
        # even before the first request, when there are names but no samples
        if version is None or b"trtllm_" not in client.get("/prometheus/metrics").body:
            return None
        return self._facts(listed(client), version)

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get("/health"))


ENGINE = TensorRTLLM()
