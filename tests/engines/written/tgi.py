"""Text Generation Inference."""

from tests.engines.servers import CHAT, WORDS, Server, chunk, no_choices, stream, usage
from tests.replay import Script


def server() -> Server:
    info = {
        "model_id": "HuggingFaceH4/zephyr-7b-beta",
        "model_sha": "b7",
        "version": "3.3.4",
        "max_total_tokens": 4096,
        "max_input_tokens": 4095,
    }
    return Server(
        {
            "/info": Script.json(info),
            "/health": Script(framing="length"),
            CHAT: stream(
                chunk({"role": "assistant", "content": "one"}),
                *WORDS[1:],
                chunk({"role": "assistant", "content": ""}, "length"),
                no_choices(**usage(512, 3)),
            ),
        },
        "3.3.4",
        [("HuggingFaceH4/zephyr-7b-beta", "zephyr-7b-beta", None, 4096)],
        settings={"context": 4096},
        prompt_tokens=512,
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
