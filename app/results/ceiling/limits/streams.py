"""What the streams of one round do to each other: one waits while the prompt of another is processed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from app import engines
from app.core.i18n import _
from app.core.samples import Sample
from app.core.units import format_number
from app.metrics import is_usable, token_times
from app.metrics.overlap import Window, prefill_window

if TYPE_CHECKING:
    from app.engines.base import Engine


@dataclass(frozen=True)
class Wait:
    """The parts of a stream's TTFT besides its own prompt, in ms, when several run at once."""

    ttft_ms: float
    others_prefill_ms: float
    """The time while at least one other stream's prompt was processed, with its own at the same time or waiting."""
    slot_ms: float
    """The time before its own prompt was begun while no other prompt was processed: the others were decoded, or nothing
    was."""


def waits(rounds: Sequence[Sequence[Sample]], alone_ms: float | None) -> list[Wait]:
    """Splits the TTFT of each usable stream that has a token; `alone_ms` is a lone stream's TTFT, if there is one.

    The server's own prompt times are used when it states all of a round, else the work of a lone prompt; empty when
    neither is known.
    """
    return [wait for streams in rounds for wait in _waits(streams, alone_ms)]


def _waits(streams: Sequence[Sample], alone_ms: float | None) -> Iterator[Wait]:
    timed = [sample for sample in streams if token_times.first_token_ms(sample.trace) is not None]
    stated = all(sample.trace.server is not None and sample.trace.server.prompt_ms is not None for sample in timed)
    for sample in timed:
        if not is_usable(sample) or not _is_of_prompt(sample):
            continue
        other_samples = [stream for stream in timed if stream is not sample]
        if stated:
            yield _by_windows(sample, other_samples)
        elif alone_ms is not None:
            yield _by_work(sample, other_samples, alone_ms)


def _is_of_prompt(sample: Sample) -> bool:
    """Whether TTFT is the prompt's time: no model was loaded, and the prompt was not in the cache."""
    return not {"model_load", "cached", "not_streamed"} & set(sample.flags)


def _by_windows(sample: Sample, other_samples: Sequence[Sample]) -> Wait:
    ttft_ms = token_times.first_token_ms(sample.trace) or 0.0
    begin, end = sample.sent_at_ms, sample.sent_at_ms + ttft_ms
    windows = [window for stream in other_samples if (window := prefill_window(stream)) is not None]
    own_window = prefill_window(sample) or (begin, end)
    before = max(0.0, own_window[0] - begin)
    return Wait(ttft_ms, covered_ms(windows, (begin, end)), before - covered_ms(windows, (begin, begin + before)))


def _by_work(sample: Sample, other_samples: Sequence[Sample], alone_ms: float) -> Wait:
    """Splits TTFT by work: each other prompt takes as long as a lone one, and is done before that stream's own first
    token."""
    ttft_ms = token_times.first_token_ms(sample.trace) or 0.0
    first = sample.sent_at_ms + ttft_ms
    done_ms = 0.0
    for stream in other_samples:
        after = stream.sent_at_ms + (token_times.first_token_ms(stream.trace) or 0.0) - first
        done_ms += min(alone_ms, max(0.0, alone_ms - after))
    late_ms = max(0.0, ttft_ms - alone_ms)
    prefill_ms = min(late_ms, done_ms)
    return Wait(ttft_ms, prefill_ms, late_ms - prefill_ms)


def covered_ms(windows: Sequence[Window], span: Window) -> float:
    """Returns for how many ms of a span at least one of the windows was open.

    >>> covered_ms([(0, 4), (3, 6), (9, 20)], (2, 10))
    5.0
    """
    covered, until = 0.0, span[0]
    for begin, end in sorted(windows):
        begin, end = max(begin, until), min(end, span[1])
        if end > begin:
            covered, until = covered + end - begin, end
    return covered


def other_prefill_windows(sample: Sample, rounds: Sequence[Sequence[Sample]]) -> list[Window]:
    """Returns the windows in which the other streams of a sample's round had their prompts processed, or waited for
    that."""
    streams = next((streams for streams in rounds if any(stream is sample for stream in streams)), ())
    return [window for stream in streams if stream is not sample and (window := prefill_window(stream)) is not None]


def until_decoding_ms(streams: Sequence[Sample]) -> tuple[float, float] | None:
    """Returns the ms of a round until its last stream had a first token, and until its last token; None when a stream
    has none."""
    firsts = [token_times.first_token_ms(sample.trace) for sample in streams]
    lasts = [token_times.last_token_ms(sample.trace) for sample in streams]
    if not streams or None in firsts or None in lasts:
        return None
    sent = [sample.sent_at_ms for sample in streams]
    return (
        max(at + (first or 0.0) for at, first in zip(sent, firsts, strict=True)),
        max(at + (last or 0.0) for at, last in zip(sent, lasts, strict=True)),
    )


# --- what to do about it, in the engine's own words -----------------------------------------------------------------


def engine_of(key: str) -> Engine | None:
    """Returns the engine of this key; None for one that Roofmark does not know."""
    return engines.get(key)


def slots_remedy(engine: Engine | None) -> str:
    """Says how to let the engine work on more requests at once."""
    if engine is not None and not engine.batches:
        return _("{engine} works on one request at a time: send it less at once.", engine=engine.title)
    if engine is not None and engine.slots_option:
        return _(
            "Give {engine} more parallel slots ({option}), or send it less at once.",
            engine=engine.title,
            option=engine.slots_option,
        )
    return _("Give the server more parallel slots, or send it less at once.")


def prompts_remedy(engine: Engine | None) -> str:
    """Says how to shorten the work on prompts: more slots would not help."""
    if engine is not None and engine.prompt_options:
        return _(
            "Send fewer or shorter prompts at once, or change how much of them {engine} processes in one step "
            "({options}).",
            engine=engine.title,
            options=engine.prompt_options,
        )
    return _("Send fewer or shorter prompts at once.")


def median_wait(waits: Sequence[Wait]) -> Wait | None:
    """Returns the median of each part over all waits."""
    if not waits:
        return None
    return Wait(
        median(wait.ttft_ms for wait in waits),
        median(wait.others_prefill_ms for wait in waits),
        median(wait.slot_ms for wait in waits),
    )


def prefill_words(wait: Wait, streams: str) -> str:
    """Returns a sentence about how much of TTFT passed for the prompts of other streams."""
    return _(
        "{prefill_ms} of {ttft_ms} ms passed while other prompts were processed, with {streams} at once",
        prefill_ms=format_number(wait.others_prefill_ms),
        ttft_ms=format_number(wait.ttft_ms),
        streams=streams,
    )
