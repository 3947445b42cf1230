"""Server-side metrics next to the client's: the same statistic of the same requests, and why they differ.

A server's counters include every request of the run, warm-ups too; so does the client's figure here.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from app.core.i18n import N_, _, joined
from app.core.samples import Sample, ServerFigures, Status, Trace
from app.core.server_metrics import ServerMetric
from app.core.units import format_number
from app.metrics import MetricResult, is_usable, metrics, token_times
from app.metrics.decode import DISAGREEMENT, Decode, client_decode
from app.metrics.load import COLD_LOAD_MS
from app.metrics.overlap import with_prefill_overlaps
from app.metrics.prefill import fresh_prompt_tokens
from app.metrics.summary import percentile
from app.metrics.ttft import read_ttft

CAUSES_BY_FLAG = {
    "buffered": N_("Something between server and Roofmark holds tokens back, most likely a buffering proxy."),
    "token_count_estimated": N_(
        "The server gives no token count, so events were counted, and an event may hold several."
    ),
    "hidden_tokens": N_("The server counts tokens that never appeared in the stream."),
    "multi_token_chunks": N_(
        "Events hold several tokens each, so the first and the last event are not the first and last token."
    ),
    "client_scheduling_delay": N_("Roofmark's own reader was late, because this machine had no processor free."),
}
"""Causes, the likeliest first; a flag explains a difference when at least half of the samples have it."""

_OUTSIDE = N_("Roofmark's time also includes HTTP, the chat template and tokenizing, which the server's leaves out.")
_CAUSES = {
    "ttft_ms": _OUTSIDE,
    "prefill_ms": _OUTSIDE,
    "prefill_tokens_per_s": _OUTSIDE,
    "e2e_ms": _OUTSIDE,
}
_OF_PREFILL = frozenset({"prefill_ms", "prefill_tokens_per_s"})
_BY_CLOCK = frozenset({"itl_ms", "tpot_ms", "decode_ms", "decode_tokens_per_s"})
_HELD_BACK = N_(
    "The tokens arrived faster than the server says it made them: something held the first ones back, most likely a "
    "buffering proxy."
)
_NETWORK = N_(
    "Likely causes are a slow network between them, or a server that leaves part of its work out of its time."
)


@dataclass(frozen=True)
class ServerClientComparison:
    server_metric: ServerMetric
    client: float | None
    """The client's value of the same metric; None without one."""
    difference: float | None = None
    """The client's value over the server's, minus one; None when either is unknown or a range, or the requests
    differ."""
    cause: str = ""
    """The likely cause of a difference worth a warning; else empty."""
    null_reason: str | None = None
    """Why the server has no value (see `NULL_REASONS`); None when it has one."""


def compare_with_client(
    server_metrics: Sequence[ServerMetric], samples: Sequence[Sample]
) -> list[ServerClientComparison]:
    """Returns the comparison of each server-side metric with the client; `samples` are all of the run."""
    samples = with_prefill_overlaps(samples)
    complete = [sample for sample in samples if sample.trace.status is Status.OK]
    requests = next(
        (metric.value for metric in server_metrics if (metric.name, metric.statistic) == ("requests", "total")), None
    )
    strangers = 0 if requests is None or len(complete) != len(samples) else round(requests) - len(samples)
    # it is unknown whether the server counted the failed ones
    are_same = len(complete) == len(samples) or (requests is not None and round(requests) == len(complete))
    sums = {figure.name: figure for figure in stated(samples)}
    pairs = []
    for figure in server_metrics:
        if figure.name == "prefill_tokens_per_s" and _is_of_many(figure, complete, sums):
            pairs.append(ServerClientComparison(replace(figure, value=None), None, null_reason="overlapping_prefill"))
        elif figure.origin == "answers":
            pairs.append(_beside(sums.get(figure.name, figure), _stating(figure.name, complete), True, 0))
        else:
            pairs.append(_beside(figure, complete, are_same, strangers))
    return pairs


def _is_of_many(figure: ServerMetric, complete: Sequence[Sample], sums: Mapping[str, ServerMetric]) -> bool:
    """Whether the metric contains times of prompts that were processed at the same time, so that it is no single
    prompt's speed."""
    if figure.origin == "answers" and figure.name in sums:
        return False
    return any(sample.point.concurrency > 1 and sample.prefill_overlaps is not False for sample in complete)


def _beside(figure: ServerMetric, samples: Sequence[Sample], are_same: bool, strangers: int) -> ServerClientComparison:
    """Returns one comparison; `samples` are those of the client's value; `are_same`: the server's value is of the same
    requests, except for those of other clients."""
    client = client_figure(figure.name, figure.statistic, samples)
    if client is None or not figure.value or figure.is_range or not are_same:
        return ServerClientComparison(figure, client)
    difference = client / figure.value - 1
    if abs(difference) <= DISAGREEMENT:
        return ServerClientComparison(figure, client, difference)
    return ServerClientComparison(figure, client, difference, _cause(figure, samples, difference, strangers))


def _cause(metric: ServerMetric, complete: Sequence[Sample], difference: float, others: int) -> str:
    if others > 0:
        return N_("The server's value includes requests of other clients.")
    if metric.name in _BY_CLOCK:
        faster = difference if metric.name in _SPEEDS else 1 / (1 + difference) - 1
        return decode_cause(faster, complete)
    return _CAUSES.get(metric.name, N_("The server's counters do not match its answers."))


def decode_cause(difference: float, samples: Sequence[Sample]) -> str:
    """Returns the likely cause of a decode speed that differs by `difference`: the client's over the server's, minus
    one."""
    flags = Counter(flag for sample in samples for flag in sample.flags)
    by_flag = next((cause for flag, cause in CAUSES_BY_FLAG.items() if 2 * flags[flag] >= len(samples) > 0), None)
    return by_flag or _counting_cause(difference, samples) or (_HELD_BACK if difference > 0 else _NETWORK)


def _counting_cause(difference: float, samples: Sequence[Sample]) -> str | None:
    """Returns a cause when the difference is one interval too many or too few on either side: an error of 1 / (n - 1)
    for n tokens."""
    tokens = max((sample.trace.output_tokens or 0 for sample in samples), default=0)
    if tokens < 2 or abs(abs(difference) - 1 / (tokens - 1)) >= 0.3 / (tokens - 1):
        return None
    if difference < 0:
        return N_("The server seems to divide all n tokens by the time of n - 1 intervals.")
    return N_("The server's time seems to include its first token, which its speed does not count.")


def disagreement(results: Sequence[MetricResult], samples: Sequence[Sample]) -> str | None:
    """Returns one warning with its likely cause when client and server differ too much on decode of the same
    samples."""
    sources = {
        result.source for result in results if result.metric == "decode_tokens_per_s" and result.value is not None
    }
    if not sources >= {"client", "server"}:
        return None
    usable = [sample for sample in samples if is_usable(sample)]
    pairs = []
    for sample in usable:
        values = {reading.source: reading.value for reading in metrics()["decode_tokens_per_s"].read([sample])}
        if (of_client := values.get("client")) and (of_server := values.get("server")):
            pairs.append((sample, of_client, of_server))
    if not pairs:
        return None
    client, server = median(pair[1] for pair in pairs), median(pair[2] for pair in pairs)
    difference = client / server - 1
    if abs(difference) <= DISAGREEMENT:
        return None
    figures = {
        "client": format_number(client),
        "server": format_number(server),
        "difference": format_number(abs(difference) * 100),
    }
    cause = decode_cause(difference, [sample for sample, *_values in pairs])
    if difference > 0:
        message = N_("Roofmark timed {client} tok/s decode, the server states {server} tok/s: {difference} % more.")
    else:
        message = N_("Roofmark timed {client} tok/s decode, the server states {server} tok/s: {difference} % less.")
    return joined(_(message, **figures), _(cause))


# --- the client's figures --------------------------------------------------------------------------------------------


def client_figure(name: str, statistic: str, samples: Sequence[Sample]) -> float | None:
    if not samples:
        return None
    if statistic == "total":
        return _total(name, samples)
    if name in _OF_PREFILL and any(sample.point.concurrency > 1 for sample in samples):
        return None  # the client's time is then mostly waiting for other streams
    if name in _SPEEDS:
        parts = [_SPEEDS[name](sample) for sample in samples]
        known_parts = [part for part in parts if part is not None]
        tokens, spent_ms = sum(part[0] for part in known_parts), sum(part[1] for part in known_parts)
        return tokens / spent_ms * 1000 if known_parts and spent_ms > 0 else None
    if name not in _TIMES:
        return None
    values = [value for sample in samples for value in _TIMES[name](sample)]
    if not values:
        return None
    return fmean(values) if statistic == "mean" else percentile(values, int(statistic[1:]))


def _total(name: str, samples: Sequence[Sample]) -> float | None:
    if name == "requests":
        return float(len(samples))
    if name not in _COUNTS:
        return None
    counts = [_COUNTS[name](sample.trace) for sample in samples]
    return None if None in counts else float(sum(count or 0 for count in counts))


def _fresh(trace: Trace) -> int | None:
    are_known = trace.prompt_tokens is not None and trace.cached_tokens is not None
    return (trace.prompt_tokens or 0) - (trace.cached_tokens or 0) if are_known else None


_COUNTS: Mapping[str, Callable[[Trace], int | None]] = {
    "prompt_tokens": lambda trace: trace.prompt_tokens,
    "fresh_prompt_tokens": _fresh,
    "cached_tokens": lambda trace: trace.cached_tokens,
    "output_tokens": lambda trace: trace.output_tokens,
}


def _first(sample: Sample) -> list[float]:
    return [ttft_ms for reading in read_ttft(sample) if (ttft_ms := reading.value) is not None]


def _last(sample: Sample) -> list[float]:
    at_ms = token_times.last_token_ms(sample.trace)
    return [] if at_ms is None else [at_ms]


def _decode(sample: Sample) -> Decode | None:
    decode = client_decode(sample)
    return decode if isinstance(decode, Decode) else None


def _span(sample: Sample) -> list[float]:
    decode = _decode(sample)
    return [decode.span_ms] if decode else []


def _per_token(sample: Sample) -> list[float]:
    decode = _decode(sample)
    return [decode.span_ms / decode.steps] if decode else []


def _gaps(sample: Sample) -> list[float]:
    """Returns one gap per token when events hold one each; the mean is right either way."""
    gaps, decode = token_times.gaps_ms(sample.trace), _decode(sample)
    if decode is None or len(gaps) == decode.steps:
        return gaps if decode else []
    return _per_token(sample) * round(decode.steps)


def _decoded(sample: Sample) -> tuple[float, float] | None:
    return _decode(sample)


def _prefilled(sample: Sample) -> tuple[float, float] | None:
    fresh, first_ms = fresh_prompt_tokens(sample), _first(sample)
    return (float(fresh), first_ms[0]) if fresh and first_ms else None


_TIMES: Mapping[str, Callable[[Sample], Sequence[float]]] = {
    "ttft_ms": _first,
    "prefill_ms": _first,
    "itl_ms": _gaps,
    "tpot_ms": _per_token,
    "e2e_ms": _last,
    "decode_ms": _span,
}
_SPEEDS: Mapping[str, Callable[[Sample], tuple[float, float] | None]] = {
    "prefill_tokens_per_s": _prefilled,
    "decode_tokens_per_s": _decoded,
}


# --- what came with each answer --------------------------------------------------------------------------------------


def stated(samples: Sequence[Sample]) -> list[ServerMetric]:
    """Returns metrics summed over what the server states with each answer, for a server without counters that cover
    several requests."""
    complete = [sample for sample in with_prefill_overlaps(samples) if sample.trace.status is Status.OK]
    sound = _sound(complete)
    server_metrics = []
    for name, part_of in _STATED_SPEEDS.items():
        if parts := [part for sample in sound if (part := part_of(sample))]:
            speed = sum(tokens for tokens, _ in parts) / sum(spent_ms for _, spent_ms in parts) * 1000
            server_metrics.append(
                ServerMetric(name, "mean", "tok/s", speed, _stated_with(len(parts), complete), origin="answers")
            )
    servers = [sample.trace.server for sample in sound if sample.trace.server]
    how = _stated_with(len(servers), complete)
    for name in ("load_ms", "queue_ms", "overhead_ms"):
        values = [value for server in servers if (value := _stated_ms(server, name)) is not None]
        how_many = _stated_with(len(values), complete)
        if values:
            server_metrics.append(ServerMetric(name, "mean", "ms", fmean(values), how_many, origin="answers"))
    drafts = [(server.draft_accepted_tokens or 0, server.draft_tokens) for server in servers if server.draft_tokens]
    if drafts:
        accepted = sum(part for part, _ in drafts) / sum(whole for _, whole in drafts)
        server_metrics.append(ServerMetric("draft_acceptance", "mean", "share", accepted, how, origin="answers"))
    hits = [server.expert_hit_share for server in servers if server.expert_hit_share is not None]
    if hits:
        server_metrics.append(
            ServerMetric("expert_cache_hit_rate", "mean", "share", fmean(hits), how, origin="answers")
        )
    return server_metrics


def _stated_ms(server: ServerFigures, name: str) -> float | None:
    """A duration; of the load, only where the model was loaded: the rest are no loads."""
    value: float | None = getattr(server, name)
    return None if name == "load_ms" and (value or 0) < COLD_LOAD_MS else value


def _stated_with(count: int, complete: Sequence[Sample]) -> str:
    return _("stated with {n:,} of {all:,} answers", n=count, all=len(complete))


def _sound(complete: Sequence[Sample]) -> list[Sample]:
    """Returns the samples whose server figures are plausible."""
    return [s for s in complete if s.trace.server and not {"unit_mismatch", "implausible"} & set(s.flags)]


def _stating(name: str, complete: Sequence[Sample]) -> list[Sample]:
    """Returns the samples that contribute to a metric of `stated`."""
    part_of = _STATED_SPEEDS.get(name)
    return [sample for sample in _sound(complete) if part_of is None or part_of(sample)]


def _stated_prefill(sample: Sample) -> tuple[int, float] | None:
    server = sample.trace.server
    if server is None or not server.prompt_tokens or not server.prompt_ms:
        return None
    is_own = sample.point.concurrency == 1 or sample.prefill_overlaps is False
    return (server.prompt_tokens, server.prompt_ms) if is_own else None


def _stated_decode(sample: Sample) -> tuple[int, float] | None:
    server = sample.trace.server
    if server is None or (server.output_tokens or 0) < 2 or not server.decode_ms:
        return None
    return (server.output_tokens or 0) - 1, server.decode_ms


_STATED_SPEEDS: Mapping[str, Callable[[Sample], tuple[int, float] | None]] = {
    "prefill_tokens_per_s": _stated_prefill,
    "decode_tokens_per_s": _stated_decode,
}
"""Functions that return the tokens and the server's milliseconds for them; None when the answer does not state both."""
