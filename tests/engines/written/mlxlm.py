"""MLX-LM's `mlx_lm.server`."""

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, WORDS, Server, chunk, models, no_choices, stream, usage, with_headers
from tests.replay import Script


def server() -> Server:
    last = no_choices(**usage(4096, 3, prompt_tokens_details={"cached_tokens": 0}))
    return Server(
        {
            "/health": with_headers({"server": "BaseHTTP/0.6 Python/3.13.1"}, Script.json({"status": "ok"})),
            "/v1/models": models("mlx-community/gemma-3-12b-4bit", "/Users/me/models/qwen3-8b-4bit"),
            CHAT: stream(
                ": keepalive 2048/4096\n\n", ": keepalive 4096/4096\n\n", *WORDS, chunk({"content": ""}, "length"),
                {**last, "object": "chat.completion"},
            ),
        },
        None,
        [
            ("/Users/me/models/qwen3-8b-4bit", "qwen3-8b-4bit", None, None),
            ("mlx-community/gemma-3-12b-4bit", "gemma-3-12b-4bit", None, None),
        ],
        prompt_tokens=4096,
        cached_tokens=0,
        is_known_without_headers=False,
        live={CHAT: CachedChat(_answer)},
        error=(Script.json({"error": "Repository Not Found for url"}, 404), "Repository Not Found"),
    )  # fmt: skip


def _answer(turn: Turn) -> Script:
    counts = usage(turn.prompt_tokens, turn.output_tokens, prompt_tokens_details={"cached_tokens": turn.cached_tokens})
    return turn.script(
        [f": keepalive {turn.fresh_tokens}/{turn.fresh_tokens}\n\n"],
        [chunk({"content": word}) for word in turn.words],
        [chunk({"content": ""}, "length"), {**no_choices(**counts), "object": "chat.completion"}, "data: [DONE]\n\n"],
    )
