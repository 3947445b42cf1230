"""What the server counted beside what Roofmark timed: the same statistic of the same requests, and why they differ.

A server's counters hold every request of the run, warm-ups too; so does the client's figure here.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from app.counted import Counted
from app.i18n import _, joined, marked
from app.metrics import Measured, clock, is_usable
from app.metrics.decode import DISAGREEMENT, Decode, client_decode
from app.metrics.prefill import fresh_prompt_tokens
from app.metrics.summary import percentile
from app.metrics.ttft import read_ttft
from app.samples import Sample, Status, Trace
from app.units import number

CAUSES_BY_FLAG = {
    "buffered": marked("Something between server and Roofmark holds tokens back, most likely a buffering proxy."),
    "token_count_estimated": marked(
        "The server gives no token count, so events were counted, and an event may hold several."
    ),
    "hidden_tokens": marked("The server counts tokens that never showed in the stream."),
    "bundled": marked(
        "Events hold several tokens each, so the first and the last event are not the first and last token."
    ),
    "loop_lag": marked("Roofmark's own reader was late, because this machine had no processor free."),
}
"""Likeliest first; a flag explains a difference when at least half of the samples have it."""

_OUTSIDE = marked("Roofmark's time also holds HTTP, the chat template and tokenizing, which the server's leaves out.")
_CAUSES = {
    "ttft_ms": _OUTSIDE,
    "prefill_ms": _OUTSIDE,
    "prefill_tokens_per_s": _OUTSIDE,
    "e2e_ms": _OUTSIDE,
}
_OF_PREFILL = frozenset({"prefill_ms", "prefill_tokens_per_s"})
_BY_CLOCK = frozenset({"itl_ms", "tpot_ms", "decode_ms", "decode_tokens_per_s"})
_HELD_BACK = marked(
    "The tokens arrived faster than the server says it made them: something held the first ones back, most likely a "
    "buffering proxy."
)
_NETWORK = marked(
    "Likely causes are a slow network between them, or a server that leaves part of its work out of its time."
)


@dataclass(frozen=True)
class Beside:
    counted: Counted
    client: float | None
    """The client's figure of the same; None where it has none."""
    difference: float | None
    """Client over server, minus one."""
    cause: str
    """Likely one, of a difference worth a warning; else empty."""


def beside(found: Sequence[Counted], taken: Sequence[Sample]) -> list[Beside]:
    """`taken`: all samples of the run."""
    complete = [sample for sample in taken if sample.trace.status is Status.OK]
    requests = next((each.value for each in found if (each.name, each.statistic) == ("requests", "total")), None)
    others = 0 if requests is None or len(complete) != len(taken) else round(requests) - len(taken)
    return [_beside(each, complete, others) for each in found]


def _beside(counted: Counted, complete: Sequence[Sample], others: int) -> Beside:
    client = client_figure(counted.name, counted.statistic, complete)
    difference = client / counted.value - 1 if client is not None and counted.value else None
    is_certain = client is not None and counted.low is not None and counted.high is not None
    if is_certain and counted.low <= client <= counted.high:  # type: ignore[operator]  # known by is_certain
        return Beside(counted, client, difference, "")
    if difference is None or abs(difference) <= DISAGREEMENT:
        return Beside(counted, client, difference, "")
    return Beside(counted, client, difference, _cause(counted, complete, difference, others))


def _cause(counted: Counted, complete: Sequence[Sample], difference: float, others: int) -> str:
    if others > 0:
        return marked("The server's figure holds requests of others too.")
    if counted.name in _BY_CLOCK:
        faster = difference if counted.name in _SPEEDS else 1 / (1 + difference) - 1
        return decode_cause(faster, complete)
    return _CAUSES.get(counted.name, marked("The server counts otherwise than its answers say."))


def decode_cause(difference: float, samples: Sequence[Sample]) -> str:
    """Likely one of a decode speed that differs: the client's over the server's, minus one."""
    flags = Counter(flag for sample in samples for flag in sample.flags)
    by_flag = next((said for flag, said in CAUSES_BY_FLAG.items() if 2 * flags[flag] >= len(samples) > 0), None)
    return by_flag or _counting_cause(difference, samples) or (_HELD_BACK if difference > 0 else _NETWORK)


def _counting_cause(difference: float, samples: Sequence[Sample]) -> str | None:
    """One interval too many or too few on either side: an error of 1 / (n - 1) for n tokens."""
    tokens = max((sample.trace.output_tokens or 0 for sample in samples), default=0)
    if tokens < 2 or abs(abs(difference) - 1 / (tokens - 1)) >= 0.3 / (tokens - 1):
        return None
    if difference < 0:
        return marked("The server seems to divide all tokens by the time of one interval less.")
    return marked("The server's time seems to hold its first token too, which its speed does not count.")


def disagreement(found: Sequence[Measured], samples: Sequence[Sample]) -> str | None:
    """One warning with its likely cause when client and server differ too much on decode."""
    decode = {e.source: e.value for e in found if e.metric == "decode_tokens_per_s" and e.value is not None}
    client, server = decode.get("client"), decode.get("server")
    if not client or not server:
        return None
    difference = client / server - 1
    if abs(difference) <= DISAGREEMENT:
        return None
    figures = {"client": number(client), "server": number(server), "difference": number(abs(difference) * 100)}
    cause = decode_cause(difference, [sample for sample in samples if is_usable(sample)])
    if difference > 0:
        said = marked("Roofmark timed {client} tok/s decode, the server states {server} tok/s: {difference} % more.")
    else:
        said = marked("Roofmark timed {client} tok/s decode, the server states {server} tok/s: {difference} % less.")
    return joined(_(said, **figures), _(cause))


# --- the client's figures --------------------------------------------------------------------------------------------


def client_figure(name: str, statistic: str, samples: Sequence[Sample]) -> float | None:
    if not samples:
        return None
    if statistic == "total":
        return _total(name, samples)
    if name in _OF_PREFILL and any(sample.point.concurrency > 1 for sample in samples):
        return None  # what the client times of it is then mostly waiting for other streams
    if name in _SPEEDS:
        parts = [_SPEEDS[name](sample) for sample in samples]
        known = [part for part in parts if part is not None]
        tokens, spent_ms = sum(part[0] for part in known), sum(part[1] for part in known)
        return tokens / spent_ms * 1000 if known and spent_ms > 0 else None
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
    found = [_COUNTS[name](sample.trace) for sample in samples]
    return None if None in found else float(sum(count or 0 for count in found))


def _fresh(trace: Trace) -> int | None:
    known = trace.prompt_tokens is not None and trace.cached_tokens is not None
    return (trace.prompt_tokens or 0) - (trace.cached_tokens or 0) if known else None


_COUNTS: Mapping[str, Callable[[Trace], int | None]] = {
    "prompt_tokens": lambda trace: trace.prompt_tokens,
    "fresh_prompt_tokens": _fresh,
    "cached_tokens": lambda trace: trace.cached_tokens,
    "output_tokens": lambda trace: trace.output_tokens,
}


def _first(sample: Sample) -> list[float]:
    return [ttft_ms for reading in read_ttft(sample) if (ttft_ms := reading.value) is not None]


def _last(sample: Sample) -> list[float]:
    at_ms = clock.last_token_ms(sample.trace)
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
    """One gap per token, where events hold one each; the mean is right either way."""
    gaps, decode = clock.gaps_ms(sample.trace), _decode(sample)
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


def stated(taken: Sequence[Sample]) -> list[Counted]:
    """The sum of what the server said of each request, where it has no counters that outlive one."""
    complete = [sample for sample in taken if sample.trace.status is Status.OK]
    sound = [
        sample.trace.server
        for sample in complete
        if sample.trace.server and not {"unit_mismatch", "implausible"} & set(sample.flags)
    ]
    how = marked("stated with {n:,} of {all:,} answers", n=len(sound), all=len(complete))
    prefills = [(n, ms) for each in sound if (n := each.prompt_tokens or 0) and (ms := each.prompt_ms)]
    decodes = [(n - 1, ms) for each in sound if (n := each.output_tokens or 0) > 1 and (ms := each.decode_ms)]
    drafts = [(each.draft_accepted_tokens or 0, each.draft_tokens) for each in sound if each.draft_tokens]
    speeds = {"prefill_tokens_per_s": prefills, "decode_tokens_per_s": decodes}
    found = [
        Counted(name, "mean", "tok/s", sum(n for n, _ in pairs) / sum(ms for _, ms in pairs) * 1000, how)
        for name, pairs in speeds.items()
        if pairs
    ]
    for name in ("load_ms", "queue_ms"):
        values = [value for each in sound if (value := getattr(each, name)) is not None]
        found += [Counted(name, "mean", "ms", fmean(values), how)] if values else []
    if drafts:
        accepted = sum(part for part, _ in drafts) / sum(whole for _, whole in drafts)
        found.append(Counted("draft_acceptance", "mean", "share", accepted, how))
    hits = [each.expert_hit_share for each in sound if each.expert_hit_share is not None]
    if hits:
        found.append(Counted("expert_cache_hit_rate", "mean", "share", fmean(hits), how))
    return found
