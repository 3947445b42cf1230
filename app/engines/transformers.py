"""`transformers serve`: usage comes with the finish event, there is no last line, and faults are `{"detail": ...}`.

Its role chunk leaves long before the first token, so it marks no token.
"""

import re
from typing import Any

from app.engines.base import ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import CHAT, MODELS, OpenAI
from app.engines.protocol.answers import object_at, object_in
from app.engines.protocol.models import listed_models

_PATHS = {CHAT, "/v1/responses", "/health"}


class Transformers(OpenAI):
    key = "transformers"
    title = "transformers serve"
    default_ports = (8000,)
    health_path = "/health"
    fixed_length = False

    def detect(self, client: ServerClient) -> ServerInfo | None:
        answer = client.get("/health")
        if object_in(answer).get("status") != "ok" or "x-request-id" not in answer.headers:
            return None
        schema = object_at(client, "/openapi.json")
        title, paths = schema.get("info"), schema.get("paths")
        if (
            title != {"title": "FastAPI", "version": "0.1.0"}
            or not isinstance(paths, dict)
            or not paths.keys() >= _PATHS
        ):
            return None
        listing = client.get(MODELS)
        # it cannot list a model that is a folder; its refusal of a wrong name has the right one
        models = listed_models(object_in(listing)) or {} if listing.status < 300 else _pinned_model(client)
        return self._server_info(models)


ENGINE = Transformers()


def _pinned_model(client: ServerClient) -> dict[str, dict[str, Any]]:
    refusal = client.post(CHAT, {"model": "?", "messages": []}).message or ""
    match = re.search(r"pinned to '([^']+)'", refusal)
    return {} if match is None else {match[1]: {}}
