"""LiteLLM's proxy: a gateway to other servers, whose models it lists as its own.

Read in the source of 1.110.2: its `/health` sends a request to every model that it has, each time it is asked;
`/health/liveliness` answers a constant. Its list of models names the owner of each as `openai`, so that the constant is
its only mark.
"""

from app.core.errors import ServerError
from app.engines.base import ServerInfo
from app.engines.http import Answer, ServerClient
from app.engines.openai import OpenAI, list_models

LIVENESS, ALIVE = "/health/liveliness", "I'm alive!"


class LiteLLM(OpenAI):
    key = "litellm"
    title = "LiteLLM"
    has_costly_paths = True
    default_ports = (4000,)
    health_path = LIVENESS

    def detect(self, client: ServerClient) -> ServerInfo | None:
        return self._server_info(list_models(client)) if _is_alive(client.get(LIVENESS)) else None


ENGINE = LiteLLM()


def _is_alive(answer: Answer) -> bool:
    try:
        return bool(answer.json() == ALIVE)
    except ServerError:  # another server
        return False
