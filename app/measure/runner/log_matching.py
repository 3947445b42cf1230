"""Which request of a log is which of ours, and what the log adds to it."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from app.core.samples import CountSource, ServerFigures, Status, Trace
from app.engines.base import FROM_LOG, LOG_OVERLAP, Logged


def merge_log_figures(traces: Sequence[Trace], logged: Sequence[Logged]) -> list[Trace]:
    """The traces with what the log tells of them and their stream did not; each that it tells of is marked.

    A request is paired by its counts. Several of the same counts pair in the order in which they ended, but only where
    the log has exactly as many: with a stranger's among them nobody knows whose is whose. Even then the order in which
    streams that ran at once ended is but likely, so theirs are marked as overlapping.
    """
    fitting = [
        tuple(place for place, each in enumerate(logged) if trace.status is Status.OK and _counts_agree(trace, each))
        for trace in traces
    ]
    paired: dict[int, Logged] = {}
    for places in dict.fromkeys(filter(None, fitting)):
        ours = [stream for stream, each in enumerate(fitting) if each == places]
        shared = {place for each in fitting if each != places for place in each}
        if len(ours) == len(places) and not shared & set(places):
            ours.sort(key=lambda stream: traces[stream].sent_ns + (traces[stream].end_ms or 0.0) * 1e6)
            several = len(ours) > 1
            mine = (replace(logged[place], overlaps=logged[place].overlaps or several) for place in places)
            paired.update(zip(ours, mine, strict=True))
    return [
        _with_log_figures(trace, paired[stream]) if stream in paired else trace for stream, trace in enumerate(traces)
    ]


def _counts_agree(trace: Trace, logged: Logged) -> bool:
    """No count that both know differs, and one of them they both know."""
    told, fresh = logged.figures, None
    if trace.prompt_tokens is not None and trace.cached_tokens is not None:
        fresh = trace.prompt_tokens - trace.cached_tokens
    pairs = (
        (None if trace.count_source is CountSource.EVENTS else trace.output_tokens, told.output_tokens),
        (trace.prompt_tokens, logged.prompt_tokens),
        (fresh, told.prompt_tokens),
    )
    known = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
    return bool(known) and all(ours == theirs for ours, theirs in known)


def _with_log_figures(trace: Trace, logged: Logged) -> Trace:
    before = trace.server or ServerFigures()
    added = {
        field.name: value
        for field in fields(ServerFigures)
        if field.name != "raw"
        and getattr(before, field.name) is None
        and (value := getattr(logged.figures, field.name)) is not None
    }
    changes: dict[str, Any] = {}
    if trace.prompt_tokens is None and logged.prompt_tokens is not None:
        changes["prompt_tokens"] = logged.prompt_tokens
    if trace.cached_tokens is None and logged.cached_tokens is not None:
        changes["cached_tokens"] = logged.cached_tokens
    if trace.count_source in (None, CountSource.EVENTS) and logged.figures.output_tokens is not None:
        changes |= {"output_tokens": logged.figures.output_tokens, "count_source": CountSource.TIMINGS}
    raw: dict[str, Any] = {**before.raw, FROM_LOG: sorted({*added, *changes} - {"count_source"})}
    if logged.overlaps:
        raw[LOG_OVERLAP] = True
    return replace(trace, server=replace(before, **added, raw=raw), **changes)
