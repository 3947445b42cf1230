"""KoboldCpp."""

from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, WORDS, Finishing, Server, at_root, chunk, models, stream
from tests.replay import Request, Script

PERF: dict[str, Any] = {
    "last_process_time": 0.0,
    "last_eval_time": 0.0,
    "last_token_count": 0,
    "last_input_count": 0,
    "last_draft_success": 0,
    "last_draft_failed": 0,
    "total_gens": 4,
    "queue": 0,
    "idle": 1,
    "stop_reason": -1,
}


class Process:
    """A process that remembers the figures of its last request."""

    def __init__(self) -> None:
        self.chat = CachedChat(self.answer)
        self.perf = PERF

    def answer(self, turn: Turn) -> Script:
        self.perf = {
            **self.perf,
            "last_process_time": turn.prompt_ms / 1000,
            "last_eval_time": turn.decode_ms("n-1") / 1000,
            "last_token_count": turn.output_tokens,
            "last_input_count": turn.prompt_tokens,
            "total_gens": self.perf["total_gens"] + 1,
        }
        return turn.script([ROLE], [chunk({"content": word}) for word in turn.words], [chunk({}, "length")])

    def status(self, _: Request) -> Script:
        return Script.json(self.perf)


def server() -> Server:
    ended = {
        **PERF,
        "last_process_time": 0.25,
        "last_eval_time": 0.05,
        "last_token_count": 3,
        "last_input_count": 120,
        "last_draft_success": 6,
        "last_draft_failed": 2,
        "total_gens": 5,
    }
    engine = Finishing(stream(ROLE, *WORDS, chunk({}, "length")), Script.json(PERF), Script.json(ended))
    process = Process()
    return Server(
        {
            "/api/extra/version": Script.json({"result": "KoboldCpp", "version": "1.101.1", "llm": True}),
            "/api/extra/perf": engine.status,
            "/api/extra/true_max_context_length": Script.json({"value": 8192}),
            # it answers for clients of llama.cpp and of Ollama as well
            "/props": Script.json(
                {"chat_template": "", "total_slots": 1, "default_generation_settings": {"n_ctx": 8192}}
            ),
            "/": at_root("Ollama is running"),
            "/api/version": Script.json({"version": "0.7.0"}),
            "/v1/models": models("koboldcpp/gemma-3-270m-Q4_K_M"),
            CHAT: engine.chat,
        },
        "1.101.1",
        [("koboldcpp/gemma-3-270m-Q4_K_M", "gemma-3-270m", "Q4_K_M", 8192)],
        settings={"context": 8192},
        sent={"ignore_eos": True},
        prompt_tokens=120,
        figures={
            "prompt_tokens": 120,
            "prompt_ms": 250.0,
            "output_tokens": 3,
            "decode_ms": 50.0,
            "draft_tokens": 8,
            "draft_accepted_tokens": 6,
        },
        live={CHAT: process.chat, "/api/extra/perf": process.status},
        error=(
            Script.json(
                {"detail": {"msg": "Server is busy; please try again later.", "type": "service_unavailable"}}, 503
            ),
            "Server is busy",
        ),
    )
