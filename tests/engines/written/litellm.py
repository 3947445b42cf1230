"""LiteLLM's proxy. Its list of models names no owner of its own."""

from tests.engines.servers import CHAT, ROLE, WORDS, Server, chunk, models, no_choices, stream, usage
from tests.replay import Script


def server() -> Server:
    return Server(
        {
            "/health/liveliness": Script.json("I'm alive!"),
            "/health/readiness": Script.json({"status": "healthy", "db": "Not connected"}),
            "/v1/models": models("qwen3-8b", created=1677610602, owned_by="openai"),
            CHAT: stream(ROLE, *WORDS, chunk({}, "length"), no_choices(**usage(20, 3))),
        },
        None,
        [("qwen3-8b", "qwen3-8b", None, None)],
        prompt_tokens=20,
        error=(Script.json({"error": {"message": "litellm.BadRequestError: boom", "code": "400"}}, 400), "boom"),
    )
