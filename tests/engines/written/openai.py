"""A server with nothing but OpenAI's API, and a prompt cache of which it reports nothing."""

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, Server, chunk, models, no_choices, usage
from tests.replay import Script


def server() -> Server:
    return Server(
        {"/v1/models": models("tiny-Q8_0", max_model_len=2048), CHAT: _answer(Turn(prompt_tokens=20))},
        None,
        [("tiny-Q8_0", "tiny", "Q8_0", 2048)],
        settings={"context": 2048},
        prompt_tokens=20,
        live={CHAT: CachedChat(_answer)},
        error=(Script.json({"error": {"message": "boom"}}, 500), "boom"),
    )


def _answer(turn: Turn) -> Script:
    return turn.script(
        [ROLE],
        [chunk({"content": word}) for word in turn.words],
        [chunk({}, "length"), no_choices(**usage(turn.prompt_tokens, turn.output_tokens)), "data: [DONE]\n\n"],
    )
