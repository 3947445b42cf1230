"""LocalAI, whose durations are those of its llama.cpp."""

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, Server, chunk, models, usage
from tests.replay import Script


def server() -> Server:
    return Server(
        {
            "/readyz": Script.text("OK"),
            "/system": Script.json({"backends": ["llama-cpp"], "loaded_models": [{"id": "qwen3-8b"}]}),
            "/version": Script.json({"version": "v3.8.0"}),
            "/v1/models": models("qwen3-8b"),
            CHAT: lambda request: answer(Turn(512, headers=request.headers)),
        },
        "v3.8.0",
        [("qwen3-8b", "qwen3-8b", None, None)],
        sent={"ignore_eos": True},
        headers={"extra-usage": "true"},
        prompt_tokens=512,
        figures={"prompt_tokens": 512, "prompt_ms": 1024.0, "output_tokens": 3, "decode_ms": 20.0},
        live={CHAT: CachedChat(answer)},
        error=(
            Script.json({"error": {"code": 500, "message": "rpc error: code = Unknown", "type": ""}}, 500),
            "rpc error",
        ),
    )


def answer(turn: Turn) -> Script:
    """Durations come to those only who ask for them."""
    timed = {"timing_prompt_processing": turn.prompt_ms, "timing_token_generation": turn.decode_ms("n-1")}
    extra = timed if turn.headers.get("extra-usage") else {}
    return turn.script(
        [ROLE],
        [chunk({"content": word}) for word in turn.words],
        [chunk({}, "length", **usage(turn.prompt_tokens, turn.output_tokens, **extra)), "data: [DONE]\n\n"],
    )
