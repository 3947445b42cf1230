"""SGLang 0.5.23, started without `--enable-cache-report` and with `--enable-metrics`."""

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, Server, chunk, models, no_choices, usage
from tests.replay import Script

INFO = {
    "model_path": "Qwen/Qwen3-8B-AWQ",
    "tp_size": 1,
    "version": "0.5.23",
    "kv_cache_dtype": "fp8_e5m2",
    "context_length": None,
    "max_total_num_tokens": 120000,
    "internal_states": [{}],
    "frontend": "python",
}
LOAD = {
    "dp_rank": 0,
    "num_running_reqs": 0,
    "num_waiting_reqs": 0,
    "token_usage": 0.0,
    "total_prefill_uncached_tokens": 5000,
    "total_prefill_busy_us": 2500000,
}
METRICS = (
    'sglang:num_running_reqs{model_name="m"} 0.0\nsglang:num_queue_reqs{model_name="m"} 0.0\n'
    'sglang:prompt_tokens_total{model_name="m"} 5000.0\nsglang:generation_tokens_total{model_name="m"} 900.0\n'
    'sglang:cached_tokens_total{model_name="m",cache_source="device"} 1200.0\n'
)
DRAFTS = {
    "spec_accept_rate": 0.6,
    "spec_accept_length": 2.2,
    "spec_num_correct_drafts": 12,
    "spec_num_proposed_drafts": 20,
    "spec_verify_ct": 10,
    "spec_correct_drafts_histogram": [1, 2, 7],
}


def server(version: str = "0.5.23") -> Server:
    chat = CachedChat(answer, salt="cache_salt" if version >= "0.5.11" else "")
    return Server(
        {
            "/server_info": Script.json({**INFO, "version": version}),
            "/ready": Script(framing="length"),
            "/health": Script(framing="length"),
            "/metrics": Script.text(METRICS),
            "/v1/loads": Script.json({"version": version, "loads": [LOAD]}),
            "/v1/models": models("Qwen/Qwen3-8B-AWQ", owned_by="sglang", max_model_len=40960),
            CHAT: lambda request: answer(Turn(100, body=request.json())),
        },
        version,
        [("Qwen/Qwen3-8B-AWQ", "Qwen3-8B", "AWQ", 40960)],
        settings={"context": 40960, "kv_type_k": "fp8_e5m2", "kv_type_v": "fp8_e5m2"},
        sent={
            "ignore_eos": True,
            "min_tokens": 8,
            "return_cached_tokens_details": True,
            "return_spec_tokens_details": True,
        },
        prompt_tokens=100,
        figures={"prompt_tokens": None, "output_tokens": None, "draft_tokens": 20, "draft_accepted_tokens": 12},
        live={CHAT: chat},
        error=(
            Script.json(
                {"object": "error", "message": "The input is longer than the model's context length", "code": 400}, 400
            ),
            "context length",
        ),
    )


def answer(turn: Turn) -> Script:
    """Cached tokens are told where they were asked for and where there are any; draft tokens where asked for."""
    wants = turn.body.get
    details = {"device": turn.cached_tokens, "host": 0} if turn.cached_tokens else None
    sglext = {
        **({"cached_tokens_details": details} if details and wants("return_cached_tokens_details") else {}),
        **({"spec_tokens_details": DRAFTS} if wants("return_spec_tokens_details") else {}),
    }
    counts = usage(turn.prompt_tokens, turn.output_tokens, prompt_tokens_details=None, reasoning_tokens=0)
    return turn.script(
        [ROLE],
        [
            chunk({"content": word}, **usage(turn.prompt_tokens, position + 1))
            for position, word in enumerate(turn.words)
        ],
        [
            chunk({}, "length"),
            *([no_choices(sglext=sglext)] if sglext else []),
            no_choices(**counts),
            "data: [DONE]\n\n",
        ],
    )
