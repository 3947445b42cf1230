"""MLX-LM's `mlx_lm.server`: comments keep the connection alive while the prompt is processed; usage on request."""

from typing import ClassVar

from app.engines.base import Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import MODELS, OpenAI
from app.engines.protocol.health import health_of
from app.engines.protocol.json_helpers import object_in
from app.engines.protocol.models import listed_models

STARTED_WITH = "default_model"
"""Its own name for the model that it was started with."""


class MLXLM(OpenAI):
    key: ClassVar[str] = "mlx-lm"
    title: ClassVar[str] = "MLX-LM"
    default_ports: ClassVar[tuple[int, ...]] = (8080,)
    rank: ClassVar[int] = 12
    slots_option: ClassVar[str] = "`--decode-concurrency`"
    prompt_options: ClassVar[str] = "`--prompt-concurrency`, `--prefill-step-size`"
    fixed_length: ClassVar[bool | None] = False

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        answer = client.get("/health")
        # it is written on Python's own server, like no other engine here
        if object_in(answer) != {"status": "ok"} or not answer.headers.get("server", "").startswith("BaseHTTP/"):
            return None
        # where nothing was ever downloaded it fails to list even the one that it has
        models = listed_models(object_in(client.get(MODELS))) or {STARTED_WITH: {}}
        # the model it was started with, where that is a folder, is listed behind all that were ever downloaded
        return self._facts(dict(sorted(models.items(), key=lambda item: not item[0].startswith("/"))))

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get("/health"))


ENGINE = MLXLM()
