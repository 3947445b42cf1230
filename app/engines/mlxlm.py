"""MLX-LM's `mlx_lm.server`: comments keep the connection alive while the prompt is processed; usage on request.

Read in its source at d78bf58e: `/health` is a constant, and it states no durations.
"""

from app.engines.base import ServerInfo
from app.engines.flags import Flag, FlagTable, read_positive
from app.engines.http import ServerClient
from app.engines.openai import MODELS, OpenAI
from app.engines.protocol.answers import object_in
from app.engines.protocol.models import listed_models

STARTED_WITH = "default_model"
"""The name that it accepts for the model that it was started with."""


class MLXLM(OpenAI):
    key = "mlx-lm"
    title = "MLX-LM"
    programs = ("mlx_lm.server", "mlx_lm")
    default_ports = (8080,)
    health_path = "/health"
    slots_option = "`--decode-concurrency`"
    prompt_options = "`--prompt-concurrency`, `--prefill-step-size`"
    fixed_length = False
    flags = FlagTable(
        {"--decode-concurrency": Flag(("parallel",), read_positive)},
        ignored=frozenset({"--max-tokens", "--use-default-chat-template", "--chat-template-args"}),
        without_bytes=frozenset((
            "--prompt-concurrency", "--prefill-step-size", "--prompt-cache-size", "--prompt-cache-bytes",
            "--num-draft-tokens", "--pipeline",
        )),
        unmodelled=frozenset({"--draft-model", "--adapter-path"}),
    )  # fmt: skip

    def detect(self, client: ServerClient) -> ServerInfo | None:
        answer = client.get("/health")
        # the only engine on Python's own HTTP server
        if object_in(answer) != {"status": "ok"} or not answer.headers.get("server", "").startswith("BaseHTTP/"):
            return None
        # where nothing was ever downloaded it does not even list the model that it runs
        models = listed_models(object_in(client.get(MODELS))) or {STARTED_WITH: {}}
        # a model in a folder, which it was started with, is listed behind all that were ever downloaded
        return self._server_info(dict(sorted(models.items(), key=lambda item: not item[0].startswith("/"))))


ENGINE = MLXLM()
