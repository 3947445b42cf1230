"""Cards that were held back while something was waited for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from app.i18n import _, pause
from app.metrics import sensed
from app.metrics.sensed import Span
from app.roof.limits.base import Evidence, Limit
from app.samples import Sample
from app.units import number, plural

SpanOf = Callable[[Sequence[Sample]], Span | None]


def held_back(seen: Evidence, of: Literal["TTFT", "Decode"], span_of: SpanOf) -> Iterator[Limit]:
    """By heat or a fault, which spoils a result, else by the power that a card is meant to draw at most."""
    counts = sensed.held_back(seen.rounds, span_of)
    if not counts:
        return
    evidence = _(
        "its driver said so: {throttles}{heat}", throttles=_throttles(seen, counts), heat=_heat(seen, counts, span_of)
    )
    if all(map(sensed.is_usual_limit, counts)):
        yield Limit(
            "power_limit",
            of,
            _("A GPU ran at its power limit."),
            evidence,
            _("Raise the limit where its maker allows that, and measure again."),
        )
    else:
        yield Limit(
            "held_back",
            of,
            _("A GPU was held back."),
            evidence,
            _("Cool it better, and measure again when it is cool."),
        )


def _throttles(seen: Evidence, counts: Mapping[str, int]) -> str:
    watched = plural(sum("throttles" in streams[0].sensors for streams in seen.rounds), "sample")
    return pause("; ").join(
        _("{throttle} in {count} of {watched}", throttle=sensed.throttle_words(throttle), count=count, watched=watched)
        for throttle, count in sorted(counts.items())
    )


def _heat(seen: Evidence, counts: Mapping[str, int], span_of: SpanOf) -> str:
    """The highest temperature of the cards that were held back."""
    cards = dict.fromkeys(throttle.partition(":")[0] for throttle in counts)
    found = [told for card in cards for told in sensed.readings_of(seen.rounds, f"{card}.temperature_c", span_of)]
    return _(", at up to {degrees} °C", degrees=number(max(found))) if found else ""
