"""`transformers serve`: usage comes with the finish event, there is no last line, and faults are `{"detail": ...}`.

Its role chunk leaves long before the first token, so it never starts a clock.
"""

import re
from typing import Any, ClassVar

from app.engines.base import Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import CHAT, MODELS, OpenAI
from app.engines.protocol.health import health_of
from app.engines.protocol.json_helpers import object_at, object_in
from app.engines.protocol.models import listed_models

_PATHS = {CHAT, "/v1/responses", "/health"}


class Transformers(OpenAI):
    key: ClassVar[str] = "transformers"
    title: ClassVar[str] = "transformers serve"
    default_ports: ClassVar[tuple[int, ...]] = (8000,)
    rank: ClassVar[int] = 10
    fixed_length: ClassVar[bool | None] = False

    def recognise(self, client: ServerClient) -> ServerInfo | None:
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
        # it fails to list a model that is a folder; then a wrong name makes it say the right one
        models = listed_models(object_in(listing)) or {} if listing.status < 300 else _pinned_model(client)
        return self._facts(models)

    def health(self, client: ServerClient) -> Health:
        return health_of(client.get("/health"))


ENGINE = Transformers()


def _pinned_model(client: ServerClient) -> dict[str, dict[str, Any]]:
    refusal = client.post(CHAT, {"model": "?", "messages": []}).message or ""
    found = re.search(r"pinned to '([^']+)'", refusal)
    return {} if found is None else {found[1]: {}}
