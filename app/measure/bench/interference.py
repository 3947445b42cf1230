"""Whether the server worked for somebody else: its own counters beside what we asked for."""

import time
from collections.abc import Sequence

from app.core.errors import ServerError
from app.core.i18n import noun
from app.core.samples import CountSource, Status, Trace
from app.core.units import plural
from app.engines.base import Counters, Engine
from app.engines.http import ServerClient

MISCOUNT_TOKENS = 4
"""Per request: what a server may count beside its usage, such as a start token. No stranger's prompt is as short."""
GRACE_S = 0.1
"""For which a server may still be at work on what it has just answered."""
BUSY_CHECKS = 3


def read_counters(engine: Engine, client: ServerClient) -> Counters | None:
    """A server that has just broken down has no counters."""
    try:
        return engine.counters(client)
    except ServerError:  # unknown, and its run fails by itself
        return None


def foreign_work(traces: Sequence[Trace], before: Counters | None, after: Counters | None) -> str | None:
    """`3 requests`, `612 prompt tokens` or `200 output tokens` beyond those of `traces`; empty for none, None where
    that cannot be known."""
    if before is None or after is None or any(trace.status is not Status.OK for trace in traces):
        return None
    if after.began_anew(before):
        return None
    if before.requests is not None and after.requests is not None:
        if after.requests < before.requests:
            return None
        more = round(after.requests - before.requests) - len(traces)
        return plural(more, "request") if more > 0 else ""
    # a prompt that the server finds in its cache may have next to no tokens to count, but not so its answer
    known = [
        each
        for each in (_excess_prompt_tokens(traces, before, after), _excess_output_tokens(traces, before, after))
        if each
    ]
    if not known:
        return None
    return next((plural(more, what) for more, what in known if more > MISCOUNT_TOKENS * len(traces)), "")


def _excess_prompt_tokens(traces: Sequence[Trace], before: Counters, after: Counters) -> tuple[int, str] | None:
    """Fresh ones, and cached ones where the server counts those too."""
    ours = [trace.prompt_tokens for trace in traces]
    began, ended = before.prompt_tokens, after.prompt_tokens
    if before.cached_prompt_tokens is None or after.cached_prompt_tokens is None:
        ours = [None if n is None else n - (trace.cached_tokens or 0) for n, trace in zip(ours, traces, strict=True)]
    elif began is not None and ended is not None:
        began, ended = began + before.cached_prompt_tokens, ended + after.cached_prompt_tokens
    return _excess(ours, began, ended, noun("prompt token"))


def _excess_output_tokens(traces: Sequence[Trace], before: Counters, after: Counters) -> tuple[int, str] | None:
    ours = [None if trace.count_source is CountSource.EVENTS else trace.output_tokens for trace in traces]
    return _excess(ours, before.output_tokens, after.output_tokens, noun("output token"))


def _excess(ours: Sequence[int | None], began: float | None, ended: float | None, what: str) -> tuple[int, str] | None:
    """None where either side is unknown, or the server counts fewer than are ours: then it counts something else."""
    if began is None or ended is None or None in ours:
        return None
    more = round(ended - began) - sum(count or 0 for count in ours)
    return None if more < -MISCOUNT_TOKENS * len(ours) else (more, what)


def is_still_busy(engine: Engine, client: ServerClient) -> bool:
    """Whether the server goes on working after it has answered us: then it works for somebody else."""
    for look in range(BUSY_CHECKS):
        try:
            if not engine.health(client).busy:
                return False
        except ServerError:  # it has broken down, which the next request says
            return False
        if look < BUSY_CHECKS - 1:
            time.sleep(GRACE_S / (BUSY_CHECKS - 1))
    return True
