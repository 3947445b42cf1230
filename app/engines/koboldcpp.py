"""KoboldCpp: OpenAI's requests; the figures of the last one are at `/api/extra/perf` afterwards.

Read in the source of 1.76 (gpttype_adapter.cpp) and, for `/api/extra/perf` with drafts, in a newer koboldcpp.py: its
clock of the generation starts when the first token is sampled and the last token is not evaluated any more, so that it
covers n - 1 steps. Drafted tokens are the accepted ones (`last_draft_success`) and the others (`last_draft_failed`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.errors import ServerError
from app.core.samples import CacheDefeat, CountSource, ServerFigures, Status, Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import CompletionRequest, Counters, Health, ServerInfo
from app.engines.flags import (
    Flag,
    FlagTable,
    read_layers,
    read_positive,
    read_ratios,
    read_switch,
    read_text,
)
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, list_models
from app.engines.protocol.answers import (
    busy_health,
    count,
    health_of,
    is_plain,
    number,
    object_at,
    object_in,
    string,
    to_ms,
)
from app.engines.protocol.prometheus_engine import by_difference

PERF = "/api/extra/perf"
_KV_TYPES = {"0": "f16", "1": "q8_0", "2": "q4_0", "f16": "f16", "q8_0": "q8_0", "q4_0": "q4_0"}
"""By the number that `--quantkv` takes."""


class KoboldCpp(OpenAI):
    key = "koboldcpp"
    title = "KoboldCpp"
    programs = ("koboldcpp", "koboldcpp.py")
    default_ports = (5001,)
    decode_intervals = "n-1"
    owned_by = ("koboldcpp",)
    server_header = ("ConcedoLlamaForKoboldServer",)
    imitates = ("llama.cpp", "ollama")
    batches = False
    flags = FlagTable(
        {
            "--gpulayers": Flag(("gpu_layers",), read_layers),
            "--moecpu": Flag(("n_cpu_moe",)),
            "--overridetensors": Flag(("override_tensor",), read_text, repeats=True),
            "--contextsize": Flag(("context",), read_positive),
            "--threads": Flag(("threads",), read_positive),
            "--blasbatchsize": Flag(("batch", "ubatch"), read_positive),
            "--batchsize": Flag(("batch", "ubatch"), read_positive),
            "--quantkv": Flag(("kv_type_k", "kv_type_v"), _KV_TYPES.get),
            "--flashattention": Flag(("flash_attention",), read_switch, constant="on"),
            "--tensor_split": Flag(("tensor_split",), read_ratios),
            "--maingpu": Flag(("main_gpu",)),
        },
        ignored=frozenset((
            "--launch", "--quiet", "--debugmode", "--multiuser", "--multiplayer", "--websearch", "--remotetunnel",
            "--skiplauncher", "--onready", "--preloadstory", "--savedatafile", "--ssl", "--nocertify", "--port_param",
            "--model_param", "--chatcompletionsadapter", "--jinja", "--jinja_tools", "--foreground", "--showgui",
            "--hordemodelname", "--hordeworkername", "--hordemaxctx", "--hordegenlen", "--maxrequestsize",
            "--defaultgenamt", "--nobostoken", "--enableguidance", "--admindir", "--admin", "--istemplate",
            "--unpack", "--exportconfig", "--exporttemplate", "--benchmark", "--prompt", "--cli", "--ratelimit",
            "--ignoremissing", "--singleinstance", "--gendefaults", "--genlimit", "--promptlimit",
        )),
        without_bytes=frozenset((
            "--blasthreads", "--batchthreads", "--usemmap", "--nommap", "--usemlock", "--noblas", "--nofastforward",
            "--noshift", "--useswa", "--smartcontext", "--smartcache", "--highpriority", "--lowvram",
            "--nopipelineparallel",
        )),
        unmodelled=frozenset((
            "--usecublas", "--usecuda", "--usehipblas", "--usevulkan", "--useclblast", "--usecpu", "--autofit",
            "--draftmodel", "--draftamount", "--draftgpulayers", "--draftgpusplit", "--ropeconfig", "--lora",
            "--loramult", "--mmproj", "--mmprojcpu", "--visionmaxres", "--overridekv", "--overridenativecontext",
            "--rowsplit", "--failsafe", "--sdmodel", "--whispermodel", "--ttsmodel", "--embeddingsmodel",
            "--moeexperts", "--quantkv-extra", "--device",
        )),
        several=frozenset((
            "--usecublas", "--usecuda", "--usehipblas", "--usevulkan", "--useclblast", "--tensor-split",
            "--tensor_split", "--ropeconfig", "--draftgpusplit",
        )),
    )  # fmt: skip
    config_flags = ("--config",)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        version = object_at(client, "/api/extra/version")
        # other servers claim to be KoboldCpp too, but only KoboldCpp has figures of its last request
        if version.get("result") != "KoboldCpp" or "last_token_count" not in object_at(client, PERF):
            return None
        context = count(object_at(client, "/api/extra/true_max_context_length").get("value")) or None
        return self._server_info(list_models(client), string(version.get("version")), context)

    def health(self, client: ServerClient) -> Health:
        answer = client.get(PERF)
        health, perf = health_of(answer), object_in(answer)
        if not health.ready:
            return health
        load = _load(perf)
        return busy_health([load.get("requests_running"), load.get("requests_waiting")])

    def load(self, client: ServerClient) -> Mapping[str, float]:
        return _load(object_at(client, PERF))

    def counters(self, client: ServerClient) -> Counters | None:
        generations = count(_perf(client).get("total_gens"))
        return None if generations is None else Counters(requests=generations, totals={"total_gens": generations})

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        finished = (after.requests or 0.0) - (before.requests or 0.0)
        return [ServerMetric("requests", "total", "", finished, by_difference(f"total_gens of {PERF}"))]

    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        before = count(_perf(client).get("total_gens"))
        trace = super().stream_completion(client, request)
        perf = _perf(client) if trace.status is Status.OK else {}
        # exactly one more generation than before: the figures are those of this answer
        is_own = before is not None and count(perf.get("total_gens")) == before + 1
        return _with_figures(trace, perf) if is_own else trace

    def _extra_fields(self, request: CompletionRequest) -> dict[str, Any]:
        return {"ignore_eos": True}


ENGINE = KoboldCpp()


def _perf(client: ServerClient) -> Mapping[str, Any]:
    try:
        return object_at(client, PERF)
    except ServerError:  # the answer itself reports what is wrong with the server
        return {}


def _load(perf: Mapping[str, Any]) -> dict[str, float]:
    idle, queue = number(perf.get("idle")), number(perf.get("queue"))
    gauges = {"requests_running": None if idle is None else float(not idle), "requests_waiting": queue}
    return {name: value for name, value in gauges.items() if value is not None}


def _with_figures(trace: Trace, perf: Mapping[str, Any]) -> Trace:
    """The figures are in seconds; the prompt's time is without cached tokens, but its count includes them."""
    prompt, output = count(perf.get("last_input_count")) or None, count(perf.get("last_token_count")) or None
    accepted, rejected = count(perf.get("last_draft_success")), count(perf.get("last_draft_failed"))
    drafted = (accepted or 0) + (rejected or 0) or None
    is_counted = trace.count_source in (CountSource.USAGE, CountSource.TIMINGS)
    return replace(
        trace,
        prompt_tokens=trace.prompt_tokens or prompt,
        output_tokens=trace.output_tokens if is_counted or output is None else output,
        count_source=trace.count_source if is_counted or output is None else CountSource.TIMINGS,
        server=ServerFigures(
            prompt_tokens=None if trace.cache_defeat is CacheDefeat.NONE else trace.prompt_tokens or prompt,
            prompt_ms=to_ms(perf.get("last_process_time")),
            output_tokens=trace.output_tokens if is_counted else output,
            decode_ms=to_ms(perf.get("last_eval_time")),
            draft_tokens=drafted,
            draft_accepted_tokens=None if drafted is None else accepted,
            raw={key: value for key, value in perf.items() if is_plain(value)},
        ),
    )
