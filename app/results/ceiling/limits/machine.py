"""Rules about the machine: GPUs that were throttled, a busy processor, swapped memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal

from app.core.i18n import _, joined
from app.core.samples import Sample
from app.core.units import format_bytes, format_number, plural
from app.metrics import sensors
from app.metrics.sensors import Span
from app.results.ceiling.limits.evidence import Evidence, Limit, decodes

WHOLE = 0.99
"""The share of a model on cards from which on all of it counts as there."""
BUSY_PERCENT = 100 * sensors.BUSY_CPU_SHARE

SpanOf = Callable[[Sequence[Sample]], Span | None]


def throttled_gpu(evidence: Evidence, of: Literal["TTFT", "Decode"], span_of: SpanOf) -> Iterator[Limit]:
    """Returns the limit of a GPU that was throttled: by heat or a fault, which spoils a result, or by its power limit.

    `span_of` returns the part of a round that counts, such as prefill or decode.
    """
    counts = sensors.throttled(evidence.rounds, span_of)
    if not counts:
        return
    evidence_text = _(
        "reported by its driver: {throttles}{heat}",
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
            _("A GPU was throttled."),
            evidence_text,
            _("Cool it better, and measure again when it is cool."),
        )


def _throttles(evidence: Evidence, counts: Mapping[str, int]) -> str:
    watched = plural(sum("throttles" in streams[0].sensors for streams in evidence.rounds), "sample")
    clauses = [
        _("{throttle} in {count} of {rounds}", throttle=sensors.throttle_words(throttle), count=count, rounds=watched)
        for throttle, count in sorted(counts.items())
    ]
    return joined(*clauses, by="; ")


def _heat(evidence: Evidence, counts: Mapping[str, int], span_of: SpanOf) -> str:
    """Returns the highest temperature of the cards that were throttled."""
    cards = dict.fromkeys(throttle.partition(":")[0] for throttle in counts)
    temperatures = [
        temperature
        for card in cards
        for temperature in sensors.readings_of(evidence.rounds, f"{card}.temperature_c", span_of)
    ]
    return _(", at up to {degrees} °C", degrees=format_number(max(temperatures))) if temperatures else ""


def swapping(evidence: Evidence) -> Iterator[Limit]:
    """Returns the limit of a machine that swapped during the samples, which spoils a result."""
    swapped_bytes = sensors.swapped(evidence.measured_samples)
    if swapped_bytes >= sensors.SWAPPED_BYTES:
        yield Limit(
            "swapping",
            "Decode",
            _("The machine swapped."),
            _(
                "{swapped} went to or came from the swap space during {samples}",
                swapped=format_bytes(swapped_bytes),
                samples=plural(len(evidence.measured_samples), "sample"),
            ),
            _("Stop what else holds memory, or take a smaller quantization or a shorter context."),
        )


def busy_cpu(evidence: Evidence, is_usual: bool) -> Iterator[Limit]:
    """Returns the limit of a processor that was busy before the run, or is busy while the model is on cards; a model in
    memory keeps it busy itself.

    `is_usual`: decode reaches what is usual for its kind of hardware, so nothing held it back by much.
    """
    before = 100 * (evidence.cpu_load_share_before or 0)
    if before >= BUSY_PERCENT and decodes(evidence.usable):
        yield Limit(
            "busy_cpu",
            "Decode",
            _("The processor was busy with something else."),
            _("{percent} % of all its cores just before the run", percent=format_number(before)),
            _("Stop what else runs on this machine, and measure again."),
        )
        return
    placement = evidence.placement
    if (
        placement is None
        or any(device_share.is_ram for device_share in placement.device_shares)
        or (evidence.on_cards_share or 1) < WHOLE
    ):
        return
    loads = sensors.readings_of(evidence.rounds, "cpu_load_percent", sensors.decode_span_ms)
    if loads and not is_usual and fmean(loads) >= BUSY_PERCENT:
        yield Limit(
            "busy_cpu",
            "Decode",
            _("The processor is busy, although the model is on GPUs."),
            _(
                "{percent} % of all its cores on average during decode, in {readings}",
                percent=format_number(fmean(loads)),
                readings=plural(len(loads), "reading"),
            ),
            _("Stop what else runs on this machine, and measure again."),
        )
