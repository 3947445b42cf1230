"""The sensor readings of the machine during a sample (app.hardware.sensors; stored with the first stream of a
round)."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from app.core.i18n import N_, _, joined
from app.core.samples import Sample
from app.metrics import token_times

MIN_READINGS = 2
IDLE_PERCENT = 5.0
"""A card whose load never exceeds this only drives a screen, or nothing."""
SWAPPED_BYTES = 64 * 1024**2
"""From this many bytes on, swapping is more than another program's idle page."""
BUSY_CPU_SHARE = 0.5
"""The load of all cores from which on a processor counts as busy."""
Span = tuple[float, float]
"""Start and end in ms after the round's t0."""
_POWER = re.compile(r"(?:(gpu\d+)\.|cpu_)power_w")


def decode_span_ms(streams: Sequence[Sample]) -> Span | None:
    """Returns the span from the first token of any stream to the last of all, in ms after the round's t0; None when a
    stream has no token."""
    spans = [(token_times.first_token_ms(s.trace), token_times.last_token_ms(s.trace), s.sent_at_ms) for s in streams]
    begins = [first + sent for first, _, sent in spans if first is not None]
    ends = [last + sent for _, last, sent in spans if last is not None]
    return (min(begins), max(ends)) if streams and len(begins) == len(streams) else None


def within(sensors: Mapping[str, Any], name: str, from_ms: float, to_ms: float) -> list[float]:
    """Returns the readings of one quantity in a span; empty when there are none."""
    readings = sensors.get("values", {}).get(name, ())
    return [value for value in _in_span(sensors, readings, (from_ms, to_ms)) if value is not None]


def _in_span(sensors: Mapping[str, Any], readings: Sequence[Any], span: Span) -> Iterator[Any]:
    """Returns the values of a column within the span."""
    begin, end = span
    times = sensors.get("at_ms", ())
    return (reading for at_ms, reading in zip(times, readings, strict=False) if begin <= at_ms <= end)


def has_power(sensors: Mapping[str, Any]) -> bool:
    return any(_POWER.fullmatch(name) for name in sensors.get("values", {}))


def mean_power_w(sensors: Mapping[str, Any], from_ms: float, to_ms: float) -> float | str:
    """Returns the mean power of all processors and of the cards that worked, together, in the span; or the reason why
    it is unknown.

    A card that reports no load counts as one that worked. The means are added, so that a sensor that skips a reading
    lowers no sum.
    """
    powers: list[list[float]] = []
    is_idle = True
    for name in sensors.get("values", {}):
        if (match := _POWER.fullmatch(name)) is None:
            continue
        card = match[1]
        if card is not None:
            loads = within(sensors, f"{card}.load_percent", from_ms, to_ms)
            if loads and max(loads) <= IDLE_PERCENT:
                continue
        is_idle = False
        powers.append(within(sensors, name, from_ms, to_ms))
    if is_idle:
        return "idle_cards"
    if any(len(readings) < MIN_READINGS for readings in powers):
        return "few_readings"
    return sum(fmean(readings) for readings in powers)


def swapped(samples: Sequence[Sample]) -> int:
    """Returns the bytes swapped out and in between the first and the last reading; what was swapped out before does no
    harm."""
    counters = (sample.sensors.get("values", {}).get("swapped_bytes", ()) for sample in samples)
    readings = [reading for counter in counters for reading in counter if reading is not None]
    return max(0, round(readings[-1] - readings[0])) if readings else 0


# --- cards that are held back ----------------------------------------------------------------------------------------

_THROTTLES = {
    "power limit": N_("power limit"),
    "current limit": N_("current limit"),
    "temperature": N_("temperature"),
    "hardware slowdown": N_("hardware slowdown"),
    "power brake": N_("power brake"),
}


def is_usual_limit(throttle: str) -> bool:
    """Whether the throttle is the limit of power or current at which a card under load is meant to run."""
    return throttle.endswith((": power limit", ": current limit"))


def throttle_words(throttle: str) -> str:
    """Returns `gpu0: temperature` in words."""
    card, _colon, why = throttle.partition(": ")
    return joined(card_title(card), _(_THROTTLES[why]) if why in _THROTTLES else why, by=": ")


def card_title(card: str) -> str:
    """Returns the title of `gpu0`."""
    return f"GPU {card.removeprefix('gpu')}"


def throttled(rounds: Sequence[Sequence[Sample]], span_of: Callable[[Sequence[Sample]], Span | None]) -> Counter[str]:
    """Returns in how many rounds a card was throttled within the span, by throttle; without stored times, at any
    moment."""
    counts: Counter[str] = Counter()
    for streams in rounds:
        sensors, span = streams[0].sensors, span_of(streams)
        if span is None:
            continue
        for throttle in sensors.get("throttles", ()):
            marks = sensors.get("throttled", {}).get(throttle)
            if marks is None or any(_in_span(sensors, marks, span)):
                counts[throttle] += 1
    return counts


def readings_of(
    rounds: Sequence[Sequence[Sample]], name: str, span_of: Callable[[Sequence[Sample]], Span | None]
) -> list[float]:
    """Returns all readings of one quantity in the spans of all rounds."""
    return [
        value for streams in rounds if (span := span_of(streams)) for value in within(streams[0].sensors, name, *span)
    ]


def card_loads(
    rounds: Sequence[Sequence[Sample]], span_of: Callable[[Sequence[Sample]], Span | None]
) -> list[list[float]]:
    """Returns the load readings in per cent in the spans of all rounds, for each card that reports its load."""
    names = {name for streams in rounds for name in streams[0].sensors.get("values", {})}
    loads = [
        readings_of(rounds, name, span_of) for name in sorted(names) if re.fullmatch(r"gpu\d+\.load_percent", name)
    ]
    return [readings for readings in loads if readings]


def prefill_span_ms(streams: Sequence[Sample]) -> Span | None:
    """Returns the span from the round's t0 to the first token of any stream."""
    span = decode_span_ms(streams)
    return (0.0, span[0]) if span else None
