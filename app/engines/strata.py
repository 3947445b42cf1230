"""Strata, an engine for mixtures of experts that do not fit into GPU memory.

Read in its source: serve/server.py at 5f8f3f2 (0.1.4x), serve/prometheus.py at 6c0f3ce; the log in the samples of its
users. It answers for llama.cpp's clients too, but a chat request has no switch for its conversation cache.

* `/health` needs no key and says `service: strata`. While it is unloaded or starts again its context may be 0; the next
  request loads it, and waits for that.
* A finished request leaves a record in `/metrics` before its stream ends; the one that is new and as long is that
  request's. `hit_rate` is a share of 1. Its decode time is of `engine_generated` tokens, which may be more than the
  answer has, and includes the step that made the first one; so is `predicted_ms` of the `timings` in the stream.
* Prompt tokens in its totals include those that it had in its cache.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.errors import ServerError
from app.core.i18n import N_, _
from app.core.samples import ServerFigures, Status, Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import (
    DIFFERING,
    FROM_LOG,
    CompletionRequest,
    Counters,
    Health,
    LoggedRequest,
    ModelInfo,
    ServerInfo,
)
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, list_models
from app.engines.protocol import prometheus
from app.engines.protocol.answers import (
    busy_health,
    count,
    health_of,
    is_plain,
    mapping,
    milliseconds,
    number,
    object_at,
    object_in,
    string,
)
from app.engines.protocol.models import file_stem, quantization_in
from app.engines.protocol.prometheus_engine import after_the_run, distribution, over
from app.engines.protocol.server_timings import ReportedUsage, differing, llamacpp_timings
from app.engines.protocol.trace_builder import Dialect
from app.engines.strata_log import read_requests

_METRICS = "/metrics"
_HISTOGRAMS = f"{_METRICS}?format=prometheus"
_HEALTH_KEYS = frozenset({"max_context", "images", "api_key"})
"""Of its health before it said `service`."""
_BUSY_STATES = {"reading": 1.0, "generating": 1.0, "idle": 0.0, "unloaded": 0.0}
_UNLOADED = N_("The engine is unloaded: the first request loads the model.")
_TOTALS = N_("totals of /metrics, difference of two readings")
_RECORDS = N_("records of /metrics, sum over the requests between two readings")
# of each record: from which memory the experts came that no GPU had, as blobs, and the bytes read from files
_TIERS = {"ram_blobs": ("expert_reads_from_ram", ""), "file_blobs": ("expert_reads_from_files", ""),
          "file_mb": ("expert_file_reads", "MB")}  # fmt: skip
_SECONDS = {"ttft_ms": "vllm:time_to_first_token_seconds", "e2e_ms": "vllm:e2e_request_latency_seconds"}
_ITL = "vllm:inter_token_latency_seconds"
_GIB = float(1 << 30)
# name, unit, and how many of its own unit that is
_HARDWARE = {
    "gpu_power": ("gpu_power", "W", 1.0),
    "gpu_temp": ("gpu_temperature", "°C", 1.0),
    "gpu_util": ("gpu_use", "%", 1.0),
    "gpu_mem_used": ("gpu_memory", "GiB", _GIB),
    "ram_used": ("system_memory", "GiB", _GIB),
}


def _figures(usage: ReportedUsage) -> ServerFigures | None:
    """The stream's `timings`, whose time is of all tokens that the engine made, as the time of this answer's."""
    figures = llamacpp_timings(usage)
    per_token_ms = milliseconds(usage.timings.get("predicted_per_token_ms"))
    if figures is None or not figures.decode_ms or not figures.output_tokens or per_token_ms is None:
        return figures
    made = round(figures.decode_ms / per_token_ms)
    return figures if made < 1 else replace(figures, decode_ms=figures.decode_ms * figures.output_tokens / made)


class Strata(OpenAI):
    key = "strata"
    title = "Strata"
    default_ports = (8080,)
    caches_experts = True
    health_service = ("strata",)
    build_name = "Strata"
    imitates = ("llama.cpp",)
    batches = False
    fixed_length = False
    decode_intervals = "n"
    dialect = Dialect(figures=_figures)

    def detect(self, client: ServerClient) -> ServerInfo | None:
        health = object_in(client.get("/health"))
        is_itself = health.get("service") == "strata" or health.keys() >= _HEALTH_KEYS
        if not is_itself and not _build(object_at(client, "/props")).startswith(self.build_name):
            return None
        return self._describe_by(client, health)

    def describe(self, client: ServerClient) -> ServerInfo:
        return self._describe_by(client, object_in(client.get("/health")))

    def _describe_by(self, client: ServerClient, health: Mapping[str, Any]) -> ServerInfo:
        listed = {name: entry for name, entry in list_models(client).items() if "alias_of" not in entry}
        if not listed and (name := string(health.get("model"))) is not None:
            listed = {name: {}}
        props, engine = object_at(client, "/props"), mapping(object_at(client, _METRICS).get("engine"))
        context = count(health.get("max_context", engine.get("max_context"))) or None
        kv_type, slots = string(engine.get("kv")), count(props.get("total_slots")) or None
        settings = {"kv_type_k": kv_type, "kv_type_v": kv_type, "parallel": slots}
        is_loaded = health.get("loaded") if isinstance(health.get("loaded"), bool) else None
        version = string(engine.get("version")) or _build(props).removeprefix(self.build_name).strip()
        info = self._server_info(
            listed,
            version or None,
            context,
            settings={key: value for key, value in settings.items() if value is not None},
        )
        models = tuple(_with_file(model, string(props.get("model_path")), is_loaded) for model in info.models)
        return replace(info, models=models)

    def health(self, client: ServerClient) -> Health:
        answer = client.get("/health")
        health = health_of(answer)
        if not health.ready:
            return health
        live = _live(client)
        health = busy_health([live.get("requests_running"), live.get("requests_waiting")])
        if object_in(answer).get("loaded") is False and not health.busy:
            return replace(health, detail=_(_UNLOADED))
        return health

    def load(self, client: ServerClient) -> Mapping[str, float]:
        return _live(client)

    def read_log(self, text: str) -> Sequence[LoggedRequest]:
        return read_requests(text, self.decode_span_ms)

    def counters(self, client: ServerClient) -> Counters | None:
        document = object_at(client, f"{_METRICS}?requests=all")
        totals = _numbers(mapping(document.get("totals")))
        if "requests" not in totals:
            return None
        since = totals.pop("since", None)
        prompt, reused = totals.get("prompt_tokens"), totals.get("reused")
        tiers = {
            f"record {record.get('time')} {name}": value
            for record in _records_in(document)
            for name in _TIERS
            if (value := number(record.get(name))) is not None
        }
        hardware = {f"hardware {key}": value for key, value in _numbers(mapping(document.get("hardware"))).items()}
        return Counters(
            prompt_tokens=None if prompt is None or prompt < (reused or 0) else prompt - (reused or 0),
            cached_prompt_tokens=reused,
            output_tokens=totals.get("output_tokens"),
            requests=totals["requests"],
            since=since,
            totals=totals,
            # an older version sends the same JSON, in which there are no samples
            raw={**tiers, **hardware, **prometheus.scrape(client, _HISTOGRAMS)},
        )

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        """Its decode time includes the first token: n tokens, not n - 1."""
        growth = {key: value - before.totals.get(key, 0.0) for key, value in after.totals.items()}
        metrics = prometheus.growth(before.raw, after.raw)
        return [
            *_totals(growth),
            *_latencies(metrics, growth.get("requests", 0.0)),
            *_traffic(before.raw, after.raw),
            *_hardware(after.raw),
        ]

    def corrected(self, figures: ServerFigures) -> ServerFigures:
        """Earlier versions took its hit rate for percent, and its clock of n tokens for one of n - 1."""
        raw = figures.raw
        from_log = raw.get(FROM_LOG, ())
        timed = _figures(ReportedUsage({"timings": raw}))
        if timed is None or not timed.decode_ms:
            decode_ms = self._recorded_figures(raw, figures.output_tokens).decode_ms
        else:
            decode_ms = self.decode_span_ms(timed.decode_ms, timed.output_tokens)
        hit_share = self._recorded_figures(raw, figures.output_tokens).expert_hit_share
        return replace(
            figures,
            decode_ms=figures.decode_ms if "decode_ms" in from_log or decode_ms is None else decode_ms,
            expert_hit_share=(
                figures.expert_hit_share if "expert_hit_share" in from_log or hit_share is None else hit_share
            ),
        )

    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        before = _records(client)
        trace = super().stream_completion(client, request)
        record = _own_record(before, _records(client), trace) if trace.status is Status.OK else None
        return trace if record is None else self._with_record(trace, record)

    def _with_record(self, trace: Trace, record: Mapping[str, Any]) -> Trace:
        """The trace with the record's figures; those of the stream itself have priority."""
        recorded = self._recorded_figures(record, trace.output_tokens)
        figures = trace.server or recorded
        lacks_drafts = figures.draft_tokens is None
        raw = {**{name: value for name, value in record.items() if is_plain(value)}, **figures.raw}
        if names := differing(figures, recorded):
            raw[DIFFERING] = names
        return replace(
            trace,
            prompt_tokens=trace.prompt_tokens or count(record.get("prompt_tokens")),
            cached_tokens=count(record.get("reused")) if trace.cached_tokens is None else trace.cached_tokens,
            server=replace(
                figures,
                draft_tokens=recorded.draft_tokens if lacks_drafts else figures.draft_tokens,
                draft_accepted_tokens=recorded.draft_accepted_tokens if lacks_drafts else figures.draft_accepted_tokens,
                expert_hit_share=recorded.expert_hit_share,
                raw=raw,
            ),
        )

    def _recorded_figures(self, record: Mapping[str, Any], output_tokens: int | None) -> ServerFigures:
        """A record of an engine that does not say how much it read, or how much it made, lacks those figures."""
        output = count(record.get("output_tokens")) or output_tokens
        made, decode_ms = count(record.get("engine_generated")) or output, milliseconds(record.get("decode_ms"))
        rate = number(record.get("decode_tok_s"))
        if decode_ms is None and made and rate:
            decode_ms = made / rate * 1000
        prompt, reused = count(record.get("prompt_tokens")), count(record.get("reused"))
        read = count(record.get("prompt_read"))
        hit_share = number(record.get("hit_rate"))
        return ServerFigures(
            prompt_tokens=(read if read is not None or prompt is None else prompt - (reused or 0)) or None,
            prompt_ms=milliseconds(record.get("prompt_ms")),
            output_tokens=output,
            decode_ms=self.decode_span_ms(decode_ms * output / made if decode_ms and output and made else None, output),
            draft_tokens=count(record.get("drafts_offered")),
            draft_accepted_tokens=count(record.get("drafts_accepted")),
            expert_hit_share=hit_share if hit_share is not None and hit_share <= 1 else None,
        )


ENGINE = Strata()


def _build(props: Mapping[str, Any]) -> str:
    """Its version, in a document that is llama.cpp's otherwise."""
    return string(props.get("build_info")) or ""


def _with_file(model: ModelInfo, path: str | None, is_loaded: bool | None) -> ModelInfo:
    quantization = model.quantization or (None if path is None else quantization_in(file_stem(path)))
    return replace(model, quantization=quantization, file_path=path, is_loaded=is_loaded)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {key: parsed for key, value in values.items() if (parsed := number(value)) is not None}


def _live(client: ServerClient) -> dict[str, float]:
    """How many requests run and wait; empty where the server does not say. One with slots counts them itself."""
    live = mapping(object_at(client, _METRICS).get("live"))
    running = number(live.get("running"))
    if running is None:
        running = _BUSY_STATES.get(string(live.get("state")) or "")
    waiting = [value for key in ("queued", "waiting") if (value := number(live.get(key))) is not None]
    gauges = {"requests_running": running, "requests_waiting": sum(waiting) if waiting else None}
    return {key: value for key, value in gauges.items() if value is not None}


def _records_in(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    records = document.get("requests")
    return [record for record in records if isinstance(record, dict)] if isinstance(records, list) else ()


def _records(client: ServerClient) -> Sequence[Mapping[str, Any]]:
    """The server's last records of finished requests."""
    try:
        return _records_in(object_at(client, _METRICS))
    except ServerError:  # the answer itself reports what is wrong with the server
        return ()


def _own_record(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], trace: Trace
) -> Mapping[str, Any] | None:
    """The one new record of a request of this length, and where the stream has them with these times; None where there
    are several."""
    new = [record for record in after if record not in before]
    matching = [record for record in new if trace.prompt_tokens in (None, count(record.get("prompt_tokens")))]
    if len(matching) > 1 and trace.server is not None:
        times = _tenths(trace.server.raw, "prompt_ms", "predicted_ms")
        matching = [record for record in matching if _tenths(record, "prompt_ms", "decode_ms") == times]
    return matching[0] if len(matching) == 1 else None


def _tenths(values: Mapping[str, Any], *names: str) -> list[float | None]:
    """Times as the stream has them, which is rounded."""
    times = (number(values.get(name)) for name in names)
    return [None if ms is None else round(ms, 1) for ms in times]


def _totals(growth: Mapping[str, float]) -> Iterator[ServerMetric]:
    how = _(_TOTALS)
    for name, unit, key in (
        ("requests", "", "requests"),
        ("prompt_tokens", "tokens", "prompt_tokens"),
        ("cached_tokens", "tokens", "reused"),
        ("output_tokens", "tokens", "output_tokens"),
    ):
        if key in growth:
            yield ServerMetric(name, "total", unit, growth[key], how)
    fresh = growth.get("prompt_tokens", 0.0) - growth.get("reused", 0.0)
    for name, tokens, duration_ms in (
        ("prefill_tokens_per_s", fresh, growth.get("prompt_ms", 0.0)),
        ("decode_tokens_per_s", growth.get("output_tokens", 0.0), growth.get("decode_ms", 0.0)),
    ):
        if tokens > 0 and duration_ms > 0:
            yield ServerMetric(name, "mean", "tok/s", tokens / duration_ms * 1000, how)
    if (offered := growth.get("drafts_offered", 0.0)) > 0 and "drafts_accepted" in growth:
        source = over("drafts_accepted", "drafts_offered")
        yield ServerMetric("draft_acceptance", "mean", "share", growth["drafts_accepted"] / offered, source)


def _latencies(metrics: Mapping[str, float], requests: float) -> Iterator[ServerMetric]:
    """From its histograms. That of gaps divides the time of n steps by n - 1, which is put right here."""
    for name, key in _SECONDS.items():
        yield from distribution(name, (key,), metrics)
    gaps = prometheus.histogram(metrics, _ITL)
    if gaps is not None and requests > 0:
        source = _("{key}, sum over count and one more per request, difference of two readings", key=_ITL)
        yield ServerMetric("itl_ms", "mean", "ms", gaps.sum / (gaps.count + requests) * 1000, source)


def _traffic(before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[ServerMetric]:
    """What experts cost that no GPU had, summed over the records that are new."""
    for key, (name, unit) in _TIERS.items():
        values = [value for record, value in after.items() if record.endswith(f" {key}") and record not in before]
        if values:
            yield ServerMetric(name, "total", unit, sum(values), _(_RECORDS))


def _hardware(raw: Mapping[str, float]) -> Iterator[ServerMetric]:
    for key, (name, unit, size) in _HARDWARE.items():
        if (value := raw.get(f"hardware {key}")) is not None:
            yield ServerMetric(name, "now", unit, value / size, after_the_run(f"hardware.{key} of {_METRICS}"))
