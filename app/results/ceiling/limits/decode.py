"""What decode stands against: memory bandwidth, and what keeps it from reaching that."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, median, stdev

from app.ceiling.decode import USUAL_SHARE
from app.ceiling.efficiency import describe, least_usual
from app.ceiling.number_formats import KV_BITS
from app.core.i18n import _, separator
from app.core.units import format_bytes, format_number, plural
from app.hardware.catalogue import built_in
from app.metrics import sensors
from app.metrics.summary import percentile
from app.results.ceiling.limits.evidence import NOTABLE, Evidence, Limit, decodes
from app.results.ceiling.limits.heat import held_back
from app.results.ceiling.limits.streams import covered_ms, engine_of, others_windows, prompts_remedy, until_decoding_ms
from app.results.ceiling.peers import decode_peers
from app.results.ceiling.placement import Placement
from app.results.ceiling.points import PointCeiling

STALL_TIMES = 4.0
"""A gap is a stall from so many times on what nine of ten gaps keep below: the bursts of a draft are a rhythm."""
STALLS_SHARE = 0.1
"""Of the decode time, in stalls."""
MIN_GAPS = 20
UNSTEADY = 0.08
"""Coefficient of variation of decode among samples of one point."""
FEW_ACCEPTED = 0.4
SHARED = 0.8
"""A stream among several that keeps less than this of a lone stream's decode."""
WHOLE = 0.99
"""Share of a model on cards from which on all of it is there."""
BUSY_PERCENT = 100 * sensors.BUSY_CPU_SHARE
MOSTLY = 0.5
"""Of the time in stalls, from which on what happened then is what they come from."""
SPOILERS = frozenset(
    {"swapping", "held_back", "power_limit", "offload", "busy_cpu", "stalls", "others_prefill", "drafts"}
)
"""What explains a decode that stays far below its ceiling."""


def rules(seen: Evidence) -> Iterator[Limit]:
    found = [*_swapping(seen), *_offload(seen), *_busy_cpu(seen), *_stalls(seen), *_rejected_drafts(seen.ceiling)]
    if not _is_usual(seen):  # what reaches what such hardware usually does was not held back by much
        found += held_back(seen, "Decode", sensors.decode_span_ms)
    yield from found
    yield from _kv_cache(seen)
    yield from _shared(seen)
    yield from _bandwidth(seen, is_explained=any(each.key in SPOILERS for each in found))
    yield from _unsteady(seen)


def unknown(seen: Evidence) -> Iterator[str]:
    """Why no rule speaks."""
    speeds, roof = decodes(seen.usable), seen.ceiling
    if not speeds:
        return
    if roof is None:
        why = seen.no_ceiling or _("There is no ceiling to hold it against.")
        yield _("Decode: nothing stands out in {speed} tok/s. {why}", speed=format_number(median(speeds)), why=why)
    elif roof.above:
        yield _(
            "Decode: it is faster than its ceiling, so the ceiling tells nothing: {why}.",
            why=separator("; ").join(roof.above),
        )
    elif roof.cache:
        yield _("Decode: {why}.", why=roof.cache)
    elif roof.mbu and roof.decode_tokens_per_s and seen.placement and not decode_peers(seen.placement, built_in()):
        yield _(
            "Decode: {share} % of its ceiling ({speed} of {ceiling} tok/s); too few results of its kind are published "
            "to say whether that is usual.",
            share=format_number(roof.mbu * 100),
            speed=format_number(roof.decode_tokens_per_s),
            ceiling=format_number(roof.decode.tokens_per_s),
        )


# --- the ceiling -----------------------------------------------------------------------------------------------------


def _usual(placement: Placement) -> tuple[float, str] | None:
    """The share of the ceiling from which on a decode is usual for its kind, in words; None: nobody knows."""
    group = decode_peers(placement, built_in())
    return (least_usual(group), describe(group)) if group else None


def _is_usual(seen: Evidence) -> bool:
    share = seen.ceiling.mbu if seen.ceiling else None
    usual = _usual(seen.placement) if seen.placement else None
    return bool(share and share >= (usual[0] if usual else USUAL_SHARE[0]))


def _bandwidth(seen: Evidence, is_explained: bool) -> Iterator[Limit]:
    roof, found = seen.ceiling, seen.placement
    if roof is None or found is None or roof.mbu is None or roof.decode_tokens_per_s is None:
        return
    usual = _usual(found)
    share, speed, ceiling = (
        format_number(roof.mbu * 100),
        format_number(roof.decode_tokens_per_s),
        format_number(roof.decode.tokens_per_s),
    )
    evidence = _("{share} % of the ceiling ({speed} of {ceiling} tok/s)", share=share, speed=speed, ceiling=ceiling)
    if usual:
        evidence = _("{evidence}; {usual}", evidence=evidence, usual=usual[1])
    if _is_usual(seen) and roof.mbu <= 1 and not roof.cache:
        yield Limit(
            "bandwidth",
            "Decode",
            _("Memory bandwidth."),
            evidence,
            _("Read fewer bytes for each token, or take faster memory: see what it would take."),
        )
    elif (
        roof.mbu < (usual[0] if usual else USUAL_SHARE[0])
        and not is_explained
        and (prompts := _prompts_share(seen)) > NOTABLE
    ):
        yield Limit(
            "others_prefill",
            "Decode",
            _("The throughput of several streams holds the processing of their prompts."),
            _(
                "{evidence}; {percent} % of a round's time passed until each stream had a token",
                evidence=evidence,
                percent=format_number(100 * prompts),
            ),
            prompts_remedy(engine_of(seen.engine)),
        )
    elif usual and roof.mbu < usual[0] and not is_explained:
        if loads := [fmean(readings) for readings in sensors.card_loads(seen.rounds, sensors.decode_span_ms)]:
            evidence += _("; the busiest GPU worked {percent} % of the time", percent=format_number(max(loads)))
        evidence += _("; the measurements do not show the cause")
        yield Limit(
            "other",
            "Decode",
            _("Something other than memory bandwidth."),
            evidence,
            _(
                "Measure another quantization on this machine to learn the fixed cost per layer, then try a newer "
                "build of the engine."
            ),
        )


def _prompts_share(seen: Evidence) -> float:
    """Of a round's time with several streams, until the last of them had its first token; 0 of a lone stream, whose
    decode speed holds nothing of that."""
    if seen.streams == 1:
        return 0.0
    parts = [part for streams in seen.rounds if (part := until_decoding_ms(streams)) is not None]
    return median(until_ms / whole_ms for until_ms, whole_ms in parts) if parts else 0.0


def _kv_cache(seen: Evidence) -> Iterator[Limit]:
    roof, found = seen.ceiling, seen.placement
    if roof is None or found is None or roof.mbu is None or not roof.step.kv_bytes:
        return
    kv_bytes = roof.step.batch * roof.step.kv_bytes
    share = kv_bytes / roof.step.n_bytes
    if share < NOTABLE:
        return
    remedy = (
        _("A smaller KV cache type (q8_0), or a shorter context.")
        if max(found.kv.bits) > KV_BITS["q8_0"]
        else _("A shorter context: its type, {kv}, is small already.", kv=found.kv)
    )
    yield Limit(
        "kv_cache",
        "Decode",
        _("The KV cache."),
        _(
            "{kv_share} % of the bytes read for a token, {kv_bytes}, at {context:,} tokens of context",
            kv_share=format_number(share * 100),
            kv_bytes=format_bytes(kv_bytes),
            context=roof.context,
        ),
        remedy,
    )


def _offload(seen: Evidence) -> Iterator[Limit]:
    """By the layers that the configuration states, else by the server's own word."""
    roof, found = seen.ceiling, seen.placement
    remedy = _("Bring more of it onto GPUs: a smaller quantization, a smaller KV cache, or one more GPU.")
    if roof is not None and found is not None and found.is_partly_in_ram:
        in_memory = found.ram_time_share(roof.step)
        if roof.mbu is not None and in_memory >= NOTABLE:
            evidence = _(
                "a part of the model is in system memory; reading it there is {in_memory} % of a token's reading time",
                in_memory=format_number(in_memory * 100),
            )
            if roof.decode.assumptions:
                evidence += _("; {how}", how=roof.decode.assumptions[0])
            yield Limit("offload", "Decode", _("A part of the model is not on a GPU."), evidence, remedy)
    elif seen.on_cards_share is not None and 0 < seen.on_cards_share < WHOLE:
        evidence = _(
            "the server says that {share} % of the model is in the memory of GPUs",
            share=format_number(seen.on_cards_share * 100),
        )
        yield Limit("offload", "Decode", _("A part of the model is not on a GPU."), evidence, remedy)


def _rejected_drafts(roof: PointCeiling | None) -> Iterator[Limit]:
    drafts = roof.drafts if roof else None
    if drafts and drafts.drafted and drafts.accepted < FEW_ACCEPTED * drafts.drafted:
        yield Limit(
            "drafts",
            "Decode",
            _("Most drafts are rejected."),
            _(
                "{accepted:,} of {drafted:,} drafted tokens were right",
                accepted=drafts.accepted,
                drafted=drafts.drafted,
            ),
            _("Draft fewer tokens at a time, or take another draft model."),
        )


# --- the machine -----------------------------------------------------------------------------------------------------


def _swapping(seen: Evidence) -> Iterator[Limit]:
    swapped_bytes = sensors.swapped(seen.measured_samples)
    if swapped_bytes >= sensors.SWAPPED_BYTES:
        yield Limit(
            "swapping",
            "Decode",
            _("The machine swapped."),
            _(
                "{swapped} went to or came from the swap space during {samples}",
                swapped=format_bytes(swapped_bytes),
                samples=plural(len(seen.measured_samples), "sample"),
            ),
            _("Stop what else holds memory, or take a smaller quantization or a shorter context."),
        )


def _busy_cpu(seen: Evidence) -> Iterator[Limit]:
    """Before the run, or beside a model that is on cards: one that is not keeps the processor busy itself."""
    before = 100 * (seen.cpu_load_share_before or 0)
    if before >= BUSY_PERCENT and decodes(seen.usable):
        yield Limit(
            "busy_cpu",
            "Decode",
            _("The processor was busy with something else."),
            _("{percent} % of all its cores just before the run", percent=format_number(before)),
            _("Stop what else runs on this machine, and measure again."),
        )
        return
    found = seen.placement
    if (
        found is None
        or any(device_share.is_ram for device_share in found.device_shares)
        or (seen.on_cards_share or 1) < WHOLE
    ):
        return
    loads = sensors.readings_of(seen.rounds, "cpu_load_percent", sensors.decode_span_ms)
    if loads and not _is_usual(seen) and fmean(loads) >= BUSY_PERCENT:
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


def _stalls(seen: Evidence) -> Iterator[Limit]:
    gaps = [
        (later.at_ms - earlier.at_ms, earlier.at_ms + sample.sent_at_ms, sample)
        for sample in seen.usable
        if not {"bundled", "buffered", "too_few_events"} & set(sample.flags)
        for earlier, later in pairwise(sample.trace.token_events)
    ]
    if len(gaps) < MIN_GAPS:
        return
    whole_ms, usual_ms = sum(gap_ms for gap_ms, *_ in gaps), percentile([gap_ms for gap_ms, *_ in gaps], 90)
    stalls = [gap for gap in gaps if gap[0] > STALL_TIMES * usual_ms]
    lost_ms = sum(gap_ms for gap_ms, *_ in stalls) - usual_ms * len(stalls)
    if usual_ms <= 0 or lost_ms <= STALLS_SHARE * whole_ms:
        return
    evidence = _(
        "{pauses} longer than {stall_times} ms cost {share} % of the decode time",
        pauses=plural(len(stalls), "pause"),
        stall_times=format_number(STALL_TIMES * usual_ms),
        share=format_number(100 * lost_ms / whole_ms),
    )
    in_prefill_ms = sum(
        covered_ms(others_windows(sample, seen.rounds), (from_ms, from_ms + gap_ms))
        for gap_ms, from_ms, sample in stalls
    )
    if seen.streams > 1 and in_prefill_ms >= MOSTLY * sum(gap_ms for gap_ms, *_ in stalls):
        yield Limit(
            "others_prefill",
            "Decode",
            _("Tokens wait while the prompts of this run's own other streams are processed."),
            evidence,
            prompts_remedy(engine_of(seen.engine)),
        )
        return
    yield Limit(
        "stalls",
        "Decode",
        _("The stream stalls."),
        evidence,
        _("Look for what else runs on the machine at these moments."),
    )


# --- the samples beside each other -----------------------------------------------------------------------------------


def _shared(seen: Evidence) -> Iterator[Limit]:
    together, single = decodes(seen.usable), decodes(seen.usable_alone)
    if not together or not single or seen.streams == 1:
        return
    kept = median(together) / median(single)
    if kept < SHARED:
        yield Limit(
            "shared",
            "Decode",
            _("Streams share what there is."),
            _(
                "each of {concurrency} gets {together} tok/s, {kept} % of the {single} of a lone stream",
                concurrency=seen.streams,
                together=format_number(median(together)),
                kept=format_number(kept * 100),
                single=format_number(median(single)),
            ),
            _("Fewer streams at once, where one person's speed matters more than throughput."),
        )


def _unsteady(seen: Evidence) -> Iterator[Limit]:
    speeds = decodes(seen.usable)
    if len(speeds) < 3 or seen.streams > 1:
        return
    variation = stdev(speeds) / fmean(speeds)
    if variation > UNSTEADY:
        yield Limit(
            "unsteady",
            "Decode",
            _("It is not the same from sample to sample."),
            _(
                "{low} to {high} tok/s among {samples}, a variation of {variation} %",
                low=format_number(min(speeds)),
                high=format_number(max(speeds)),
                samples=plural(len(speeds), "sample"),
                variation=format_number(variation * 100),
            ),
            _("Measure again on an idle machine: the median hides what disturbed it."),
        )
