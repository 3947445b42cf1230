"""llamafile's own server, 0.9.3: role chunks while it reads the prompt, usage on the finish chunk, a cache per slot."""

from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, DONE, Server, chunk, encoded, models, usage, with_headers
from tests.replay import Script

HEADERS = {"server": "llamafile/0.9.3", "cache-control": "private; max-age=0"}


def _chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {**chunk(delta, finish), "object": "chat.completion", **more}


def answer(turn: Turn) -> Script:
    role = {"role": "assistant", "content": ""}
    progress = [_chunk(role, x_prefill_progress=share, usage=None) for share in (0.25, 0.75)]
    first, *others = turn.words
    script = turn.script(
        progress,
        [_chunk({"content": first}, usage=None), *(_chunk({"content": word}, usage=None) for word in others)],
        [_chunk({"content": ""}, "length", **usage(turn.prompt_tokens, turn.output_tokens)), DONE.decode()],
    )
    # the role chunk leaves when the prompt was read
    rows = list(script.rows)
    rows.insert(len(progress), (turn.prompt_ms, encoded(_chunk(role, usage=None))))
    return with_headers(HEADERS, Script(rows, headers=script.headers))


def server() -> Server:
    return Server(
        {
            "/v1/models": with_headers(HEADERS, models("Qwen3-8B-Q4_K_M", owned_by="llamafile")),
            CHAT: answer(Turn(prompt_tokens=5)),
        },
        "0.9.3",
        [("Qwen3-8B-Q4_K_M", "Qwen3-8B", "Q4_K_M", None)],
        prompt_tokens=5,
        live={CHAT: CachedChat(answer)},
        error=(
            with_headers(HEADERS, Script.text("out_of_context_due_to_long_message\r\n", 400)),
            "out_of_context_due_to_long_message",
        ),
    )
