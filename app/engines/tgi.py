"""Hugging Face's Text Generation Inference: one model, told at `/info`; usage in a chunk without choices."""

from typing import ClassVar

from app.engines.base import Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI
from app.engines.protocol.health import health_of
from app.engines.protocol.json_helpers import object_at, string
from app.engines.protocol.openai_chunk import count


class TGI(OpenAI):
    key: ClassVar[str] = "tgi"
    title: ClassVar[str] = "TGI"
    default_ports: ClassVar[tuple[int, ...]] = (3000,)
    divides_layers: ClassVar[bool] = True
    shards_equally: ClassVar[bool] = True
    rank: ClassVar[int] = 30
    slots_option: ClassVar[str] = "`--max-batch-size`"
    prompt_options: ClassVar[str] = "`--max-batch-prefill-tokens`"
    fixed_length: ClassVar[bool | None] = False

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        told = object_at(client, "/info")
        model, context = string(told.get("model_id")), count(told.get("max_total_tokens"))
        if model is None or not context:
            return None
        return self._facts({model: {}}, string(told.get("version")), context)

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get("/health"))


ENGINE = TGI()
