"""LocalAI."""

from tests.engines.servers import CHAT, ROLE, WORDS, Server, chunk, models, stream, usage
from tests.replay import Script


def server() -> Server:
    timed = usage(512, 3, timing_prompt_processing=410.5, timing_token_generation=81.25)
    return Server(
        {
            "/readyz": Script.text("OK"),
            "/system": Script.json({"backends": ["llama-cpp"], "loaded_models": [{"id": "qwen3-8b"}]}),
            "/version": Script.json({"version": "v3.8.0"}),
            "/v1/models": models("qwen3-8b"),
            CHAT: stream(ROLE, *WORDS, chunk({}, "length", **timed)),
        },
        "v3.8.0",
        [("qwen3-8b", "qwen3-8b", None, None)],
        sent={"ignore_eos": True},
        headers={"extra-usage": "true"},
        prompt_tokens=512,
        figures={"prompt_tokens": 512, "prompt_ms": 410.5, "output_tokens": 3, "decode_ms": 81.25},
        error=(
            Script.json({"error": {"code": 500, "message": "rpc error: code = Unknown", "type": ""}}, 500),
            "rpc error",
        ),
    )
