"""LiteLLM's proxy: a gateway to other servers, whose models it lists as its own.

Read in the source of 1.110.2: its `/health` sends a request to every model that it has, each time it is asked;
`/health/liveliness` answers a constant. Its list of models names the owner of each as `openai`, and one moment as the
time when each was made. That moment is a mark too, but other servers may have copied it: it counts only where the path
of the constant is there and does not answer well.
"""

from app.engines.base import ServerInfo
from app.engines.http import Answer, ServerClient
from app.engines.openai import MODELS, OpenAI, list_models
from app.engines.protocol.answers import NO_ENDPOINT, object_in
from app.engines.protocol.models import listed_models

LIVENESS, ALIVE = "/health/liveliness", "I'm alive!"
_CREATED = 1677610602


class LiteLLM(OpenAI):
    key = "litellm"
    title = "LiteLLM"
    has_costly_paths = True
    default_ports = (4000,)
    health_path = LIVENESS

    def detect(self, client: ServerClient) -> ServerInfo | None:
        liveness = client.get(LIVENESS)
        if not _is_alive(liveness) and not (_is_hindered(liveness) and _is_own_list(client)):
            return None
        return self._server_info(list_models(client))


ENGINE = LiteLLM()


def _is_alive(answer: Answer) -> bool:
    return answer.status < 300 and answer.body.strip(b' "\r\n') == ALIVE.encode()


def _is_hindered(answer: Answer) -> bool:
    return answer.status >= 400 and answer.status not in NO_ENDPOINT


def _is_own_list(client: ServerClient) -> bool:
    models = listed_models(object_in(client.get(MODELS))) or {}
    return bool(models) and all(
        (entry.get("owned_by"), entry.get("created")) == ("openai", _CREATED) for entry in models.values()
    )
