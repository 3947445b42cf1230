"""vllm-mlx: continuous batching on Apple's GPUs; how it is doing is at `/v1/status`.

Read in its source (waybarrios/vllm-mlx) at 4b654c0 (0.4.1) and in 0.6.0, and measured on a running 0.6.0; nothing here
is only documented. It has neither `ignore_eos` nor a switch for its prefix cache, and its answers hold no durations.
The role chunk leaves before the prompt is read. `/metrics` is off unless asked for; `/v1/status` is always there and
counts the same. The version in its OpenAPI document stays behind: that of 0.6.0 says 0.4.1, so none is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.core.server_metrics import ServerMetric
from app.engines.base import Counters, Health, ServerInfo
from app.engines.flags import Flag, FlagTable, read_positive
from app.engines.http import ServerClient
from app.engines.openai import OpenAI, list_models
from app.engines.protocol.answers import busy_health, health_of, mapping, number, object_at, object_in
from app.engines.protocol.prometheus_engine import by_difference
from app.engines.protocol.trace_builder import Dialect

_STATUS = "/v1/status"
_TITLE = "vllm-mlx API"
_TOTALS = {
    "requests": ("total_requests_processed",),
    "prompt_tokens": ("total_prompt_tokens",),
    "output_tokens": ("total_completion_tokens",),
    "cached_tokens": ("cache", "tokens_saved"),
    "accepted": ("mtp", "accepted"),
    "rejected": ("mtp", "rejected"),
}
"""Where each total is in the status; the prompt's tokens include those from the cache."""


class VLLMMLX(OpenAI):
    key = "vllm-mlx"
    title = "vllm-mlx"
    programs = ("vllm-mlx", "vllm_mlx")
    owned_by = ("vllm-mlx", "vllm-mlx-embedding", "vllm-mlx-reranker")
    default_ports = (8000,)
    slots_option = "`--max-num-seqs`"
    prompt_options = "`--prefill-step-size`"
    fixed_length = False
    dialect = Dialect(is_named=True)
    flags = FlagTable({"--max-num-seqs": Flag(("parallel",), read_positive)})

    def detect(self, client: ServerClient) -> ServerInfo | None:
        about = mapping(object_at(client, "/openapi.json").get("info"))
        if about.get("title") != _TITLE:
            return None
        listed = {
            name: entry for name, entry in list_models(client).items() if entry.get("owned_by") == self.owned_by[0]
        }
        return self._server_info(listed)

    def health(self, client: ServerClient) -> Health:
        answer = client.get(_STATUS)
        health, status = health_of(answer), object_in(answer)
        if not health.ready or "num_running" not in status:
            return health
        return busy_health([number(status.get("num_running")), number(status.get("num_waiting"))])

    def load(self, client: ServerClient) -> Mapping[str, float]:
        status = object_at(client, _STATUS)
        gauges = {
            "requests_running": number(status.get("num_running")),
            "requests_waiting": number(status.get("num_waiting")),
        }
        return {name: value for name, value in gauges.items() if value is not None}

    def counters(self, client: ServerClient) -> Counters | None:
        totals = _totals(object_at(client, _STATUS))
        if "requests" not in totals:
            return None
        prompt, cached = totals.get("prompt_tokens"), totals.get("cached_tokens")
        return Counters(
            None if prompt is None else prompt - (cached or 0.0),
            cached,
            totals.get("output_tokens"),
            totals["requests"],
            totals=totals,
        )

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        growth = {name: value - before.totals.get(name, 0.0) for name, value in after.totals.items()}
        return list(_metrics(growth))


ENGINE = VLLMMLX()


def _totals(status: Mapping[str, Any]) -> dict[str, float]:
    totals = {}
    for name, (*parents, leaf) in _TOTALS.items():
        place = status
        for parent in parents:
            place = mapping(place.get(parent))
        if (value := number(place.get(leaf))) is not None:
            totals[name] = value
    return totals


def _metrics(growth: Mapping[str, float]) -> Iterator[ServerMetric]:
    for name in ("requests", "prompt_tokens", "cached_tokens", "output_tokens"):
        if name in growth:
            unit = "" if name == "requests" else "tokens"
            yield ServerMetric(name, "total", unit, growth[name], by_difference(f"{_TOTALS[name][-1]} of {_STATUS}"))
    drafts = growth.get("accepted", 0.0) + growth.get("rejected", 0.0)
    if drafts > 0:
        share = growth.get("accepted", 0.0) / drafts
        yield ServerMetric("draft_acceptance", "mean", "share", share, by_difference(f"mtp of {_STATUS}"))
