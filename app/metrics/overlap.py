"""Whether the prompts of a round's streams were processed at the same time.

An engine that batches times a request's prefill while it also works on the other prompts of the batch: tokens over that
time are not the speed of one prompt. The client's clock shows where that happened: a server's prefill ended when the
first token came, and began as long before as the server states.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from app.core.samples import Sample
from app.metrics import token_times

Window = tuple[float, float]
"""Start and end in ms after the round's t0."""

OVERLAP_SHARE = 0.05
"""The share of a prefill's time that may overlap others before its speed no longer counts as its own."""
JITTER_MS = 2.0
"""By how much a first token may be late, so that prefills in turns seem to overlap."""


def with_prefill_overlaps(samples: Sequence[Sample]) -> list[Sample]:
    """Returns the samples, of any rounds, each with `prefill_overlaps`: whether its prefill overlapped another
    stream's.

    It stays unknown when a stream of the round is missing; a lone stream overlaps none and is left as it is.
    """
    if all(sample.point.concurrency == 1 or sample.prefill_overlaps is not None for sample in samples):
        return list(samples)
    rounds: dict[object, list[Sample]] = {}
    for sample in samples:
        if sample.point.concurrency > 1:
            key = (sample.point, sample.is_warmup, sample.reuses_cache, sample.round)
            rounds.setdefault(key, []).append(sample)
    overlapping = {id(sample): value for streams in rounds.values() for sample, value in _overlaps(streams)}
    return [
        replace(sample, prefill_overlaps=overlapping[id(sample)]) if id(sample) in overlapping else sample
        for sample in samples
    ]


def prefill_window(sample: Sample) -> Window | None:
    """Returns the window of a prefill: as long as the server states; else from t0 to the first token, or to the end
    when none came."""
    trace = sample.trace
    first_ms = token_times.first_token_ms(trace)
    end_ms = trace.end_ms if first_ms is None else first_ms
    if end_ms is None:
        return None
    stated_ms = trace.server.prompt_ms if trace.server is not None and first_ms is not None else None
    begin_ms = end_ms - stated_ms if stated_ms is not None else 0.0
    return sample.sent_at_ms + begin_ms, sample.sent_at_ms + end_ms


def _overlaps(streams: Sequence[Sample]) -> list[tuple[Sample, bool | None]]:
    if len(streams) < streams[0].point.concurrency:
        return [(sample, None if sample.engine_batches else False) for sample in streams]
    windows = [prefill_window(sample) for sample in streams]
    shared = shared_ms([window for window in windows if window is not None])
    lengths = iter(shared)
    return [
        (sample, window is not None and _is_shared(window, next(lengths)) and sample.engine_batches)
        for sample, window in zip(streams, windows, strict=True)
    ]


def _is_shared(window: Window, shared: float) -> bool:
    length_ms = window[1] - window[0]
    return shared > max(OVERLAP_SHARE * length_ms, min(JITTER_MS, length_ms / 2))


def shared_ms(windows: Sequence[Window]) -> list[float]:
    """Returns for how many ms of each window at least one of the others was open too.

    >>> shared_ms([(0, 10), (4, 6), (10, 12)])
    [2.0, 2.0, 0.0]
    """
    if not windows:
        return []
    changes = sorted([(begin, 1) for begin, _ in windows] + [(end, -1) for _, end in windows])
    times = [at for at, _ in changes]
    opened = accumulate(change for _, change in changes)
    # ms until each time during which two or more were open
    steps = [later - at if count > 1 else 0.0 for (at, later), count in zip(pairwise(times), opened, strict=False)]
    until = dict(zip(times, [0.0, *accumulate(steps)], strict=True))
    return [until[end] - until[begin] for begin, end in windows]
