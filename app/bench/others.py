"""Whether the server worked for somebody else: its own counters beside what we asked for."""

import time
from collections.abc import Sequence

from app.engines.base import Counters, Engine
from app.errors import ServerProblem
from app.http import ServerClient
from app.samples import Status, Trace
from app.units import plural

MISCOUNT_TOKENS = 4
"""Per request: what a server may count beside its usage, such as a start token. No stranger's prompt is as short."""
GRACE_S = 0.1
"""For which a server may still be at work on what it has just answered."""
LOOKS = 3


def counters(engine: Engine, client: ServerClient) -> Counters | None:
    """A server that has just broken down has no counters."""
    try:
        return engine.counters(client)
    except ServerProblem:  # unknown, and its run fails by itself
        return None


def work_of_others(traces: Sequence[Trace], before: Counters | None, after: Counters | None) -> str | None:
    """`3 requests` or `612 prompt tokens` beyond those of `traces`; empty for none, None where that cannot be known."""
    if before is None or after is None or any(trace.status is not Status.OK for trace in traces):
        return None
    if before.requests is not None and after.requests is not None:
        if after.requests < before.requests:  # a restart counts from zero again
            return None
        more = round(after.requests - before.requests) - len(traces)
        return plural(more, "request") if more > 0 else ""
    ours, began, ended = [trace.prompt_tokens for trace in traces], _prompt_tokens(before), _prompt_tokens(after)
    if began is None or ended is None or ended < began or None in ours:
        return None
    more = round(ended - began) - sum(count or 0 for count in ours)
    return plural(more, "prompt token") if more > MISCOUNT_TOKENS * len(traces) else ""


def is_still_busy(engine: Engine, client: ServerClient) -> bool:
    """Whether the server goes on working after it has answered us: then it works for somebody else."""
    for look in range(LOOKS):
        try:
            if not engine.health(client).busy:
                return False
        except ServerProblem:  # it has broken down, which the next request says
            return False
        if look < LOOKS - 1:
            time.sleep(GRACE_S / (LOOKS - 1))
    return True


def _prompt_tokens(counters: Counters) -> float | None:
    return None if counters.prompt_tokens is None else counters.prompt_tokens + (counters.cached_prompt_tokens or 0.0)
