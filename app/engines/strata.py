"""Strata, an engine for mixtures of experts that do not fit into GPU memory.

Its `/metrics` has a record of each finished request; the one that is new after a request, and as long, is that
request's. Its log has each request in one line, and in the next one how often its cache of experts hit; other lines
with "hit" are about something else. A request that was broken off has processed a part of its prompt.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.errors import ServerError
from app.core.i18n import N_, _
from app.core.samples import ServerFigures, Status, Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import CompletionRequest, Counters, Health, LoggedRequest, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, list_models
from app.engines.protocol.answers import (
    busy_health,
    count,
    health_of,
    mapping,
    milliseconds,
    number,
    object_at,
    object_in,
    string,
)
from app.engines.protocol.log_lines import NUMBER, decimal, lines_of

_IDLE_STATES = ("idle", "ready", "loaded")
_TOTALS = N_("totals of /metrics, difference of two readings")
_LOADING = N_("The engine is loading its model.")
_LOGGED_REQUEST = re.compile(
    rf"prompt (?P<prompt>\d+) tokens = (?P<reused>\d+) reused \+ (?P<fresh>\d+)(?: of \d+)? "
    rf"read in (?P<prompt_ms>{NUMBER}) ms \([^)]*\), (?P<output>\d+) generated in (?P<decode_ms>{NUMBER}) ms \([^)]*\)"
    rf"(?:, drafts accepted (?P<accepted>\d+) of (?P<drafted>\d+))?"
)
_LOGGED_HITS = re.compile(rf"decode expert cache hit rate: {NUMBER}% \((?P<hits>\d+) hits / (?P<lookups>\d+) lookups\)")


class Strata(OpenAI):
    key = "strata"
    title = "Strata"
    default_ports = (8080,)
    caches_experts = True
    health_service = ("strata",)
    imitates = ("llama.cpp",)
    batches = False
    fixed_length = False

    def detect(self, client: ServerClient) -> ServerInfo | None:
        health = object_in(client.get("/health"))
        context = count(health.get("max_context"))
        if not context:
            return None
        if health.get("engine") == "loading":
            return ServerInfo(self.key, None, (), context_tokens=context, loading=True, notes=(_(_LOADING),))
        engine = mapping(object_at(client, "/metrics").get("engine"))
        kv_type = string(engine.get("kv"))
        return self._server_info(
            list_models(client) or ({} if (name := string(health.get("model"))) is None else {name: {}}),
            string(engine.get("version")),
            context,
            settings={} if kv_type is None else {"kv_type_k": kv_type, "kv_type_v": kv_type},
        )

    def health(self, client: ServerClient) -> Health:
        answer = client.get("/health")
        state = object_in(answer).get("engine")
        if state == "loading":
            return Health(ready=False, detail=_(_LOADING))
        health = health_of(answer)
        if not health.ready:
            return health
        if state == "unloaded":
            return replace(health, detail=_("The engine is unloaded: the first request loads the model."))
        activity = mapping(object_at(client, "/metrics").get("live")).get("state")
        return busy_health([None if activity is None else float(activity not in _IDLE_STATES)])

    def read_log(self, text: str) -> Sequence[LoggedRequest]:
        requests: list[LoggedRequest] = []
        is_request_last = False
        for line in lines_of(text):
            if match := _LOGGED_REQUEST.search(line):
                requests.append(_logged_request(match))
                is_request_last = True
            elif match := _LOGGED_HITS.search(line):
                lookups = int(match["lookups"])
                if is_request_last and lookups > 0:
                    hit_share = min(1.0, int(match["hits"]) / lookups)
                    figures = replace(requests[-1].figures, expert_hit_share=hit_share)
                    requests[-1] = replace(requests[-1], figures=figures)
                is_request_last = False
        return requests

    def counters(self, client: ServerClient) -> Counters | None:
        reported_totals = mapping(object_at(client, "/metrics").get("totals"))
        totals = {key: value for key, reported in reported_totals.items() if (value := number(reported)) is not None}
        if "requests" not in totals:
            return None
        prompt, reused = totals.get("prompt_tokens"), totals.get("reused")
        fresh = None if prompt is None else prompt - (reused or 0)
        since = totals.pop("since", None)
        return Counters(fresh, reused, totals.get("output_tokens"), totals["requests"], since, totals)

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        """Its decode time includes the first token: n tokens, not n - 1."""
        growth = {key: value - before.totals.get(key, 0.0) for key, value in after.totals.items()}
        fresh = growth.get("prompt_tokens", 0.0) - growth.get("reused", 0.0)
        counts = (
            ("requests", "", "requests"),
            ("prompt_tokens", "tokens", "prompt_tokens"),
            ("cached_tokens", "tokens", "reused"),
            ("output_tokens", "tokens", "output_tokens"),
        )
        rates = (
            ("prefill_tokens_per_s", fresh, growth.get("prompt_ms", 0.0)),
            ("decode_tokens_per_s", growth.get("output_tokens", 0.0), growth.get("decode_ms", 0.0)),
        )
        how = _(_TOTALS)
        return [
            *(ServerMetric(name, "total", unit, growth[key], how) for name, unit, key in counts if key in growth),
            *(
                ServerMetric(name, "mean", "tok/s", tokens / duration_ms * 1000, how)
                for name, tokens, duration_ms in rates
                if tokens > 0 and duration_ms > 0
            ),
        ]

    def stream_completion(self, client: ServerClient, request: CompletionRequest) -> Trace:
        before = _records(client)
        trace = super().stream_completion(client, request)
        record = _own_record(before, _records(client), trace.prompt_tokens) if trace.status is Status.OK else None
        return trace if record is None else _with_record(trace, record)


ENGINE = Strata()


def _logged_request(match: re.Match[str]) -> LoggedRequest:
    output, duration_ms = int(match["output"]), decimal(match["decode_ms"])
    return LoggedRequest(
        ServerFigures(
            prompt_tokens=int(match["fresh"]) or None,
            prompt_ms=decimal(match["prompt_ms"]) or None,
            output_tokens=output or None,
            # its time includes the first token: n tokens, not n - 1
            decode_ms=duration_ms * (output - 1) / output if output > 1 and duration_ms else None,
            draft_tokens=None if match["drafted"] is None else int(match["drafted"]),
            draft_accepted_tokens=None if match["accepted"] is None else int(match["accepted"]),
        ),
        prompt_tokens=int(match["prompt"]) or None,
        cached_tokens=int(match["reused"]),
    )


def _records(client: ServerClient) -> Sequence[Mapping[str, Any]]:
    """The server's records of finished requests."""
    try:
        records = object_at(client, "/metrics").get("requests")
    except ServerError:  # the answer itself reports what is wrong with the server
        return ()
    return [record for record in records if isinstance(record, dict)] if isinstance(records, list) else ()


def _own_record(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], prompt_tokens: int | None
) -> Mapping[str, Any] | None:
    """The one new record of a request of this length; None where there are several."""
    new = [record for record in after if record not in before]
    matching = [record for record in new if prompt_tokens in (None, count(record.get("prompt_tokens")))]
    return matching[0] if len(matching) == 1 else None


def _with_record(trace: Trace, record: Mapping[str, Any]) -> Trace:
    """The trace with the record's figures; those of the stream itself have priority.

    The record's rate counts steps: n tokens in their time, not n - 1.
    """
    rate, output = number(record.get("decode_tok_s")), trace.output_tokens
    hit_percent = number(record.get("hit_rate"))
    figures = trace.server or ServerFigures(
        prompt_tokens=count(record.get("prompt_read")) or None,
        prompt_ms=milliseconds(record.get("prompt_ms")),
        output_tokens=output,
        decode_ms=milliseconds((output - 1) / rate * 1000) if rate and output else None,
    )
    lacks_drafts = figures.draft_tokens is None
    return replace(
        trace,
        prompt_tokens=trace.prompt_tokens or count(record.get("prompt_tokens")),
        cached_tokens=count(record.get("reused")) if trace.cached_tokens is None else trace.cached_tokens,
        server=replace(
            figures,
            draft_tokens=count(record.get("drafts_offered")) if lacks_drafts else figures.draft_tokens,
            draft_accepted_tokens=(
                count(record.get("drafts_accepted")) if lacks_drafts else figures.draft_accepted_tokens
            ),
            expert_hit_share=hit_percent / 100 if hit_percent is not None and hit_percent <= 100 else None,
            raw={**record, **figures.raw},
        ),
    )
