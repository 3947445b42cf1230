"""Text Generation Inference."""

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, Server, chunk, models, no_choices, usage
from tests.replay import Script

MODEL = "HuggingFaceH4/zephyr-7b-beta"


def server() -> Server:
    info = {
        "model_id": MODEL,
        "model_sha": "b7",
        "version": "3.3.4",
        "max_total_tokens": 4096,
        "max_input_tokens": 4095,
    }
    return Server(
        {
            "/info": Script.json(info),
            "/health": Script(framing="length"),
            "/metrics": Script.text("tgi_batch_current_size 0\ntgi_queue_size 0\n"),
            "/v1/models": models(MODEL, created=0, owned_by=MODEL),
            CHAT: answer(Turn(512)),
        },
        "3.3.4",
        [(MODEL, "zephyr-7b-beta", None, 4096)],
        settings={"context": 4096},
        prompt_tokens=512,
        live={CHAT: CachedChat(answer)},
        error=(
            Script.json(
                {
                    "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
                    "error_type": "validation",
                },
                422,
            ),
            "Input validation error",
        ),
    )


def answer(turn: Turn) -> Script:
    return turn.script(
        [],
        [chunk({"role": "assistant", "content": word}) for word in turn.words],
        [
            chunk({"role": "assistant", "content": ""}, "length"),
            no_choices(**usage(turn.prompt_tokens, turn.output_tokens)),
            "data: [DONE]\n\n",
        ],
    )
