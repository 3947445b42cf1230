"""llamafile's own server (`--server --v2`, llamafiler).

Read in its source at 6b46419 (0.9.3 and three commits). The older server in the same file (`--server`) is llama.cpp's
of 2024 and says so in its `Server` header, and newer releases run llama.cpp's of today (documented only): those are
llama.cpp to Roofmark. This one has a stream of its own: `x_prefill_progress` while it reads the prompt, a role chunk
when that is done, usage on the finish chunk; it knows neither `ignore_eos` nor a switch for its cache of prompts, and
its count of the prompt includes what the cache had. A request without a model is refused.
"""

from collections.abc import Mapping
from typing import Any

from app.engines.base import ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import MODELS, OpenAI
from app.engines.protocol.answers import object_in
from app.engines.protocol.models import listed_models
from app.engines.protocol.trace_builder import Dialect

_SERVER = "llamafile/"
_PROGRESS = "x_prefill_progress"


def _as_openai(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """A report of progress comes in the form of a role chunk."""
    return {"prompt_progress": chunk[_PROGRESS]} if chunk.get(_PROGRESS) is not None else chunk


class Llamafile(OpenAI):
    key = "llamafile"
    title = "llamafile"
    programs = ("llamafile", "llamafiler")
    default_ports = (8080,)
    owned_by = ("llamafile",)
    server_header = ("llamafile",)
    fixed_length = False
    slots_option = "`--slots`"
    dialect = Dialect(_as_openai)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        answer = client.get(MODELS)
        server, listed = answer.headers.get("server", ""), listed_models(object_in(answer)) or {}
        is_named = server.startswith(_SERVER) or any(entry.get("owned_by") == self.key for entry in listed.values())
        if not is_named or not listed:
            return None
        version = server.removeprefix(_SERVER).partition(" ")[0] if server.startswith(_SERVER) else None
        return self._server_info(listed, version or None)


ENGINE = Llamafile()
