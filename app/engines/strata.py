"""Strata, an engine for mixtures of experts that do not fit into GPU memory.

Its `/metrics` keeps a record of each request it finished; the one that is new after ours, and as long, is ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from app.core.errors import ServerError
from app.core.i18n import N_, _
from app.core.samples import ServerFigures, Status, Trace
from app.core.server_metrics import ServerMetric
from app.engines.base import CompletionRequest, Counters, Health, Logged, ServerInfo
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, listed
from app.engines.protocol import strata_log
from app.engines.protocol.health import busy_health, health_of
from app.engines.protocol.json_helpers import object_at, object_in, string
from app.engines.protocol.openai_chunk import count, mapping, milliseconds, number

_RESTING = ("idle", "ready", "loaded")
_TOTALS = N_("totals of /metrics, difference of two readings")
_LOADING = N_("The engine is loading its model.")


class Strata(OpenAI):
    key: ClassVar[str] = "strata"
    title: ClassVar[str] = "Strata"
    default_ports: ClassVar[tuple[int, ...]] = (8080,)
    caches_experts: ClassVar[bool] = True
    rank: ClassVar[int] = 45
    batches: ClassVar[bool] = False
    has_log: ClassVar[bool] = True
    fixed_length: ClassVar[bool | None] = False

    def recognise(self, client: ServerClient) -> ServerInfo | None:
        told = object_in(client.get("/health"))
        context = count(told.get("max_context"))
        if not context:
            return None
        if told.get("engine") == "loading":
            return ServerInfo(self.key, None, (), context_tokens=context, loading=True, notes=(_LOADING,))
        engine = mapping(object_at(client, "/metrics").get("engine"))
        kv_type = string(engine.get("kv"))
        return self._facts(
            _models(client, told),
            string(engine.get("version")),
            context,
            settings={} if kv_type is None else {"kv_type_k": kv_type, "kv_type_v": kv_type},
        )

    def health(self, client: ServerClient) -> Health:
        answer = client.get("/health")
        state = object_in(answer).get("engine")
        if state == "loading":
            return Health(ready=False, detail=_LOADING)
        health = health_of(answer)
        if not health.ready:
            return health
        if state == "unloaded":
            return replace(health, detail=_("The engine is unloaded: the first request loads the model."))
        live = mapping(object_at(client, "/metrics").get("live")).get("state")
        return busy_health([None if live is None else float(live not in _RESTING)])

    def read_log(self, text: str) -> Sequence[Logged]:
        return strata_log.read(text)

    def counters(self, client: ServerClient) -> Counters | None:
        totals = mapping(object_at(client, "/metrics").get("totals"))
        raw = {key: value for key, each in totals.items() if (value := number(each)) is not None}
        if "requests" not in raw:
            return None
        prompt, reused = raw.get("prompt_tokens"), raw.get("reused")
        fresh = None if prompt is None else prompt - (reused or 0)
        since = raw.pop("since", None)
        return Counters(fresh, reused, raw.get("output_tokens"), raw["requests"], since, raw)

    def counted(self, before: Counters, after: Counters, model: str | None, requests: int) -> Sequence[ServerMetric]:  # noqa: ARG002  # the base's signature
        """Its decode time holds n tokens, not n - 1, as its rate does."""
        grown = {key: value - before.totals.get(key, 0.0) for key, value in after.totals.items()}
        fresh = grown.get("prompt_tokens", 0.0) - grown.get("reused", 0.0)
        counts = {"requests": "requests", "prompt_tokens": "prompt_tokens", "cached_tokens": "reused"}
        counts["output_tokens"] = "output_tokens"
        speeds = {
            "prefill_tokens_per_s": (fresh, grown.get("prompt_ms", 0.0)),
            "decode_tokens_per_s": (grown.get("output_tokens", 0.0), grown.get("decode_ms", 0.0)),
        }
        return [
            *(
                ServerMetric(name, "total", "" if name == "requests" else "tokens", grown[key], _(_TOTALS))
                for name, key in counts.items()
                if key in grown
            ),
            *(
                ServerMetric(name, "mean", "tok/s", tokens / spent_ms * 1000, _(_TOTALS))
                for name, (tokens, spent_ms) in speeds.items()
                if tokens > 0 and spent_ms > 0
            ),
        ]

    def play(self, client: ServerClient, ask: CompletionRequest) -> Trace:
        before = _finished(client)
        trace = super().play(client, ask)
        own = _own(before, _finished(client), trace.prompt_tokens) if trace.status is Status.OK else None
        return trace if own is None else _with_record(trace, own)


ENGINE = Strata()


def _models(client: ServerClient, told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found = listed(client)
    name = string(told.get("model"))
    return found if found or name is None else {name: {}}


def _finished(client: ServerClient) -> Sequence[Mapping[str, Any]]:
    try:
        records = object_at(client, "/metrics").get("requests")
    except ServerError:  # what went wrong with the server, the answer itself tells
        return ()
    return [record for record in records if isinstance(record, dict)] if isinstance(records, list) else ()


def _own(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], prompt_tokens: int | None
) -> Mapping[str, Any] | None:
    """The record of our request; None where it cannot be told from others'."""
    new = [record for record in after if record not in before]
    ours = [record for record in new if prompt_tokens in (None, count(record.get("prompt_tokens")))]
    return ours[0] if len(ours) == 1 else None


def _with_record(trace: Trace, record: Mapping[str, Any]) -> Trace:
    """What the stream itself tells outranks the record. Its rate counts steps: n tokens in their time, not n - 1."""
    rate, n = number(record.get("decode_tok_s")), trace.output_tokens
    hit_rate = number(record.get("hit_rate"))
    figures = trace.server or ServerFigures(
        prompt_tokens=count(record.get("prompt_read")) or None,
        prompt_ms=milliseconds(record.get("prompt_ms")),
        output_tokens=n,
        decode_ms=milliseconds((n - 1) / rate * 1000) if rate and n else None,
    )
    drafts = figures.draft_tokens is None
    return replace(
        trace,
        prompt_tokens=trace.prompt_tokens or count(record.get("prompt_tokens")),
        cached_tokens=count(record.get("reused")) if trace.cached_tokens is None else trace.cached_tokens,
        server=replace(
            figures,
            draft_tokens=count(record.get("drafts_offered")) if drafts else figures.draft_tokens,
            draft_accepted_tokens=count(record.get("drafts_accepted")) if drafts else figures.draft_accepted_tokens,
            expert_hit_share=hit_rate / 100 if hit_rate is not None and hit_rate <= 100 else None,
            raw={**record, **figures.raw},
        ),
    )
