"""OpenVINO Model Server 2026.3, which answers under `/v1` as well: chunks without an id, errors as a text."""

from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, Server, models
from tests.replay import Script

MODEL = "OpenVINO/Qwen3-8B-int4-ov"
CHAT_V3 = "/v3/chat/completions"
STREAM_OPTIONS = frozenset({"include_usage"})


def server() -> Server:
    cached = CachedChat(answer)
    return Server(
        {
            "/v2": Script.json({"name": "OpenVINO Model Server", "version": "2026.3", "extensions": []}),
            "/v2/health/ready": Script(framing="length"),
            "/metrics": metrics(),
            "/v1/models": models(MODEL, owned_by="OVMS"),
            "/v3/models": models(MODEL, owned_by="OVMS"),
            CHAT: answer(Turn(prompt_tokens=20)),
        },
        "2026.3",
        [(MODEL, "Qwen3-8B-int4-ov", "INT4", None)],
        sent={"ignore_eos": True, "stream_options": {"include_usage": True}},
        prompt_tokens=20,
        live={CHAT: cached, CHAT_V3: cached},
        error=(
            Script.json({"error": "Mediapipe graph definition with requested name is not found"}, 404),
            "Mediapipe graph definition with requested name is not found",
        ),
    )


def metrics(graphs: int = 0) -> Script:
    return Script.text(
        "# TYPE ovms_current_graphs gauge\n"
        f'ovms_current_graphs{{name="{MODEL}"}} {graphs}\n'
        f'ovms_requests_accepted{{api="V3",interface="REST",method="Stream",name="{MODEL}"}} 4\n'
    )


def answer(turn: Turn) -> Script:
    """The first token has no text yet: a chunk with the role says that the prompt has been read."""
    if not turn.body.get("stream_options", {}).keys() <= STREAM_OPTIONS:
        return Script.json({"error": "Found unexpected stream options."}, 400)
    usage = {
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
    }
    pieces = [_chunk({"content": word}) for word in turn.words]
    last = {"choices": [], "created": 1, "model": MODEL, "object": "chat.completion.chunk", "usage": usage}
    return turn.script([], pieces, [_chunk({}, "length"), last, "data: [DONE]\n\n"])


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "logprobs": None, "delta": delta, "finish_reason": finish}
    return {"choices": [choice], "created": 1, "model": MODEL, "object": "chat.completion.chunk", "usage": None}
