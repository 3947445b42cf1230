"""Jan's local API server in front of llama.cpp and of a provider."""

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, Server
from tests.engines.written.llamaswap import llamacpp_answer
from tests.replay import Script


def server() -> Server:
    entry = {"object": "model", "created": 1}
    listed = [
        {"id": "janhq/Jan-v3-4b-Q4_K_XL", **entry, "owned_by": "llama.cpp"},
        {"id": "gpt-oss-120b", **entry, "owned_by": "remote"},
    ]
    chat = CachedChat(llamacpp_answer, is_cached=lambda body: body.get("cache_prompt") is not False)
    return Server(
        {
            "/openapi.json": Script.json(
                {"openapi": "3.0.0", "info": {"title": "Jan API Server Endpoints", "version": "1.0"}, "paths": {}}
            ),
            "/v1/models": Script.json({"object": "list", "data": listed}),
            CHAT: llamacpp_answer(Turn(prompt_tokens=5, output_tokens=8)),
        },
        None,
        [("janhq/Jan-v3-4b-Q4_K_XL", "Jan-v3-4b", "Q4_K_XL", None), ("gpt-oss-120b", "gpt-oss-120b", None, None)],
        prompt_tokens=5,
        cached_tokens=0,
        output_tokens=8,
        figures={"prompt_tokens": 5, "prompt_ms": 10.0, "output_tokens": 8, "decode_ms": 70.0},
        backend=("llama.cpp", None),
        live={CHAT: chat},
        error=(
            Script.text("No running session found for model 'x'", 404),
            "No running session found for model 'x'",
        ),
    )
