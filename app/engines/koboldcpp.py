"""KoboldCpp: asked in OpenAI's way; the figures of the last request are at `/api/extra/perf` afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from app.core.errors import ServerError
from app.core.samples import CacheDefeat, CountSource, ServerFigures, Status, Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import CompletionRequest, Counters, Health, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, listed
from app.engines.protocol.health import busy_health, health_of
from app.engines.protocol.json_helpers import object_at, object_in, string
from app.engines.protocol.openai_chunk import count, is_plain
from app.engines.protocol.prometheus_engine import difference
from app.engines.protocol.server_timings import ms_of

PERF = "/api/extra/perf"


class KoboldCpp(OpenAI):
    key: ClassVar[str] = "koboldcpp"
    title: ClassVar[str] = "KoboldCpp"
    default_ports: ClassVar[tuple[int, ...]] = (5001,)
    # before llama.cpp and Ollama, whose endpoints it imitates
    rank: ClassVar[int] = 60
    batches: ClassVar[bool] = False

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        version = object_at(client, "/api/extra/version")
        # others say that they are KoboldCpp too, but only it has figures of its last request
        if version.get("result") != "KoboldCpp" or "last_token_count" not in object_at(client, PERF):
            return None
        context = count(object_at(client, "/api/extra/true_max_context_length").get("value")) or None
        return self._facts(listed(client), string(version.get("version")), context)

    def health(self, client: ServerClient) -> Health:
        answer = client.get(PERF)
        health, told = health_of(answer), object_in(answer)
        if not health.ready:
            return health
        idle, queue = told.get("idle"), count(told.get("queue"))
        return busy_health([None if idle is None else float(not idle), queue])

    def counters(self, client: ServerClient) -> Counters | None:
        made = count(_perf(client).get("total_gens"))
        return None if made is None else Counters(requests=float(made), totals={"total_gens": made})

    def counted(self, before: Counters, after: Counters, model: str | None, requests: int) -> Sequence[ServerMetric]:  # noqa: ARG002  # the base's signature
        grown = (after.requests or 0.0) - (before.requests or 0.0)
        return [ServerMetric("requests", "total", "", grown, difference(f"total_gens of {PERF}"))]

    def play(self, client: ServerClient, ask: CompletionRequest) -> Trace:
        before = _perf(client)
        trace = super().play(client, ask)
        after = _perf(client) if trace.status is Status.OK else {}
        # exactly one more generation than before: the figures are those of this very answer
        began, ended = count(before.get("total_gens")), count(after.get("total_gens"))
        return _with_figures(trace, after) if began is not None and ended == began + 1 else trace

    def _fields(self, ask: CompletionRequest) -> dict[str, Any]:  # noqa: ARG002  # the same for each request
        return {"ignore_eos": True}


ENGINE = KoboldCpp()


def _perf(client: ServerClient) -> Mapping[str, Any]:
    try:
        return object_at(client, PERF)
    except ServerError:  # what went wrong with the server, the answer itself tells
        return {}


def _with_figures(trace: Trace, perf: Mapping[str, Any]) -> Trace:
    """Seconds; the time of the prompt has no cached tokens in it, and where the cache was let in, its tokens do."""
    prompt, n = count(perf.get("last_input_count")) or None, count(perf.get("last_token_count")) or None
    is_counted = trace.count_source in (CountSource.USAGE, CountSource.TIMINGS)
    return replace(
        trace,
        prompt_tokens=trace.prompt_tokens or prompt,
        output_tokens=trace.output_tokens if is_counted or n is None else n,
        count_source=trace.count_source if is_counted or n is None else CountSource.TIMINGS,
        server=ServerFigures(
            prompt_tokens=None if trace.cache_defeat is CacheDefeat.NONE else trace.prompt_tokens or prompt,
            prompt_ms=ms_of(perf.get("last_process_time")),
            output_tokens=trace.output_tokens if is_counted else n,
            decode_ms=ms_of(perf.get("last_eval_time")),
            raw={key: value for key, value in perf.items() if is_plain(value)},
        ),
    )
