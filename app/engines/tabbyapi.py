"""TabbyAPI (ExLlama): seconds with two decimals beside the usage.

Read in its source at e632af4 and in exllamav3's at 4f8ad01:

* Its total is queue + prompt + completion, so the queue is what the total has beyond the other two.
* Its prompt rate is that of the fresh tokens over the rounded time, so together they say how many were fresh: usage has
  no other word of cached tokens. A rate of a time that rounds to zero is the word "Indeterminate".
* Its completion time goes from the first sampled token to the last: n - 1 tokens.
* `/health` reads a list of faults.
"""

from collections.abc import Mapping
from typing import Any

from app.core.samples import ServerFigures
from app.engines.base import ServerInfo
from app.engines.flags import Flag, FlagTable, read_positive, read_ratios, read_type
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, list_models
from app.engines.protocol.answers import count, mapping, number, object_at, object_in, string, to_ms
from app.engines.protocol.server_timings import CACHE_REPORT, ReportedUsage, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect

# rounded to 10 ms, a shorter time would be off by more than 5 %
_SHORTEST_MS = 100.0
# three rounded times are added up
_SHORTEST_QUEUE_MS = 20.0


def _chunk(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The chunk with the cached tokens that follow from its prompt rate where ReportedUsage looks for them."""
    usage = mapping(value.get("usage"))
    total, seconds = count(usage.get("prompt_tokens")), number(usage.get("prompt_time"))
    rate = number(usage.get("prompt_tokens_per_sec"))
    if not total or not seconds or rate is None:
        return value
    fresh = round(rate * seconds)
    return {**value, CACHE_REPORT: {"cached_tokens": total - fresh}} if 0 <= fresh <= total else value


def _figures(reported: ReportedUsage) -> ServerFigures | None:
    usage = reported.usage
    if not {"prompt_time", "completion_time"} & usage.keys():
        return llamacpp_timings(reported)
    return ServerFigures(
        prompt_tokens=reported.fresh_prompt_tokens,
        prompt_ms=_long_enough(usage.get("prompt_time")),
        output_tokens=reported.output_tokens,
        decode_ms=_long_enough(usage.get("completion_time")),
        queue_ms=_queue_ms(usage),
        raw=reported.raw("usage"),
    )


def _long_enough(seconds: Any) -> float | None:
    ms = to_ms(seconds)
    return None if ms is None or ms < _SHORTEST_MS else ms


def _queue_ms(usage: Mapping[str, Any]) -> float | None:
    parts = [number(usage.get(name)) for name in ("total_time", "prompt_time", "completion_time")]
    if None in parts:
        return None
    total, prompt, completion = (part or 0.0 for part in parts)
    queue_ms = round(total - prompt - completion, 2) * 1000
    return queue_ms if queue_ms >= _SHORTEST_QUEUE_MS else None


class TabbyAPI(OpenAI):
    key = "tabbyapi"
    title = "TabbyAPI"
    programs = ("tabbyapi",)
    default_ports = (5000,)
    decode_intervals = "n-1"
    health_path = "/health"
    owned_by = ("tabbyAPI",)
    imitates = ("koboldcpp",)
    slots_option = "`max_batch_size`"
    prompt_options = "`chunk_size`"
    dialect = Dialect(_chunk, _figures)
    fixed_length = True
    flags = FlagTable(
        {
            "--max-seq-len": Flag(("context",), read_positive),
            "--max-batch-size": Flag(("parallel",), read_positive),
            "--chunk-size": Flag(("batch",), read_positive),
            "--cache-mode": Flag(("kv_type_k", "kv_type_v"), read_type),
            "--gpu-split": Flag(("tensor_split",), read_ratios),
        },
        ignored=frozenset((
            "--model-dir", "--inline-model-loading", "--use-dummy-models", "--dummy-model-names", "--use-as-default",
            "--disable-fetch-requests", "--send-tracebacks", "--api-servers", "--log-prompt",
            "--log-generation-params", "--log-requests", "--prompt-template", "--vision", "--lora-dir",
            "--override-preset", "--realtime-process-priority", "--embedding-model-dir", "--embeddings-device",
            "--embedding-model-name", "--draft-model-dir", "--tool-format", "--reasoning", "--reasoning-start-token",
            "--reasoning-end-token", "--force-enable-thinking", "--name",
        )),
        without_bytes=frozenset((
            "--cache-size", "--fasttensors", "--cuda-malloc-backend", "--uvloop", "--unsafe-launch",
            "--output-chunking", "--max-rq-tokens",
        )),
        unmodelled=frozenset((
            "--backend", "--model-name", "--tensor-parallel", "--tensor-parallel-backend", "--gpu-split-auto",
            "--autosplit-reserve", "--rope-scale", "--rope-alpha", "--num-experts-per-token", "--draft-model-name",
            "--draft-rope-scale", "--draft-rope-alpha", "--draft-cache-mode", "--draft-gpu-split", "--loras",
            "--override-base-seq-len",
        )),
        several=frozenset({"--gpu-split", "--autosplit-reserve"}),
    )  # fmt: skip
    config_flags = ("--config",)
    config_file = "config.yml"

    def detect(self, client: ServerClient) -> ServerInfo | None:
        # with an error status when something is wrong with the server
        if not {"status", "issues"} <= object_in(client.get("/health")).keys():
            return None
        models = list_models(client)
        loaded = object_at(client, "/v1/model")
        parameters = mapping(loaded.get("parameters"))
        if name := string(loaded.get("id")):
            models = {name: models.get(name, {}), **models}
        return self._server_info(
            models, None, count(parameters.get("max_seq_len")) or None, settings=_settings(parameters)
        )


ENGINE = TabbyAPI()


def _settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    mode = string(parameters.get("cache_mode"))
    settings = {
        "parallel": count(parameters.get("max_batch_size")) or None,
        "batch": count(parameters.get("chunk_size")) or None,
        "kv_type_k": mode and mode.lower(),
        "kv_type_v": mode and mode.lower(),
    }
    return {name: value for name, value in settings.items() if value is not None}
