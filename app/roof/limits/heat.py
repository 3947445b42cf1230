"""Cards that were held back while something was waited for."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from app.i18n import _
from app.metrics import sensed
from app.metrics.sensed import Span
from app.roof.limits.base import Evidence, Limit
from app.samples import Sample
from app.units import number, plural


def held_back(
    seen: Evidence, of: Literal["TTFT", "Decode"], span_of: Callable[[Sequence[Sample]], Span | None]
) -> Iterator[Limit]:
    counts = sensed.held_back(seen.rounds, span_of)
    if not counts:
        return
    watched = plural(sum("throttles" in streams[0].sensors for streams in seen.rounds), "sample")
    said = [
        _("{throttle} in {count} of {watched}", throttle=sensed.throttle_words(throttle), count=count, watched=watched)
        for throttle, count in sorted(counts.items())
    ]
    cards = dict.fromkeys(throttle.partition(":")[0] for throttle in counts)
    hottest = [
        degrees for card in cards for degrees in sensed.readings_of(seen.rounds, f"{card}.temperature_c", span_of)
    ]
    heat = _(", at up to {degrees} °C", degrees=number(max(hottest))) if hottest else ""
    yield Limit(
        "held_back",
        of,
        _("A card was held back."),
        _("its driver said so: {throttles}{heat}", throttles="; ".join(said), heat=heat),
        _("Cool it better, or raise its power limit, and measure again."),
    )
