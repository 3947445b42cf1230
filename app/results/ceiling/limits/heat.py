"""Cards that were held back while something was waited for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from app.core.i18n import _, separator
from app.core.samples import Sample
from app.core.units import format_number, plural
from app.metrics import sensors
from app.metrics.sensors import Span
from app.results.ceiling.limits.evidence import Evidence, Limit

SpanOf = Callable[[Sequence[Sample]], Span | None]


def held_back(evidence: Evidence, of: Literal["TTFT", "Decode"], span_of: SpanOf) -> Iterator[Limit]:
    """By heat or a fault, which spoils a result, else by the power that a card is meant to draw at most."""
    counts = sensors.throttled(evidence.rounds, span_of)
    if not counts:
        return
    evidence_text = _(
        "its driver said so: {throttles}{heat}",
        throttles=_throttles(evidence, counts),
        heat=_heat(evidence, counts, span_of),
    )
    if all(map(sensors.is_usual_limit, counts)):
        yield Limit(
            "power_limit",
            of,
            _("A GPU ran at its power limit."),
            evidence_text,
            _("Raise the limit where its maker allows that, and measure again."),
        )
    else:
        yield Limit(
            "held_back",
            of,
            _("A GPU was held back."),
            evidence_text,
            _("Cool it better, and measure again when it is cool."),
        )


def _throttles(evidence: Evidence, counts: Mapping[str, int]) -> str:
    watched = plural(sum("throttles" in streams[0].sensors for streams in evidence.rounds), "sample")
    return separator("; ").join(
        _("{throttle} in {count} of {watched}", throttle=sensors.throttle_words(throttle), count=count, watched=watched)
        for throttle, count in sorted(counts.items())
    )


def _heat(evidence: Evidence, counts: Mapping[str, int], span_of: SpanOf) -> str:
    """The highest temperature of the cards that were held back."""
    cards = dict.fromkeys(throttle.partition(":")[0] for throttle in counts)
    temperatures = [
        temperature
        for card in cards
        for temperature in sensors.readings_of(evidence.rounds, f"{card}.temperature_c", span_of)
    ]
    return _(", at up to {degrees} °C", degrees=format_number(max(temperatures))) if temperatures else ""
