"""Jan's local API server, a gateway to a llama.cpp server per model, on macOS to its own MLX server, and to providers.

Read in its source at 0035982 and in newer versions of the same file as search shows them (the repository is too large
to fetch): only running models are listed, today with the engine as `owned_by` (`llama.cpp`, `mlx`, or `remote` for a
provider), before with `user`. Requests for chat pass unchanged to the model's server; nothing else of it can be
reached. The document about its API is the only place where it says its name.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app import engines
from app.engines.base import ModelInfo, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import list_models, model_info
from app.engines.protocol.answers import mapping, object_at, string
from app.engines.protocol.gateway import Gateway, with_backend

_OPENAPI = "/openapi.json"
_ELSEWHERE = "remote"
_LLAMACPP = ("llama.cpp", "user")
"""What it says of models that llama.cpp runs: for long nothing else could."""


class Jan(Gateway):
    key = "jan"
    title = "Jan"
    default_ports = (1337,)
    fixed_length = False

    def detect(self, client: ServerClient) -> ServerInfo | None:
        title = string(mapping(object_at(client, _OPENAPI).get("info")).get("title")) or ""
        return self.describe(client) if title.startswith("Jan ") else None

    def describe(self, client: ServerClient) -> ServerInfo:
        listed = super().describe(client)
        models = [_model(name, entry) for name, entry in list_models(client).items()]
        models.sort(key=lambda model: model.runs_on is not None)
        return replace(listed, models=tuple(models))


ENGINE = Jan()


def _model(name: str, entry: Mapping[str, Any]) -> ModelInfo:
    model, owner = model_info(name, entry), entry.get("owned_by")
    if owner == _ELSEWHERE:
        return replace(model, runs_on=_ELSEWHERE)
    engine = engines.get("llama.cpp") if owner in _LLAMACPP else None
    return model if engine is None else with_backend(model, engine)
