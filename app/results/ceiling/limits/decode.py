"""The rules of decode: memory bandwidth, and what keeps decode from reaching it."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, median, stdev

from app.ceiling.decode import USUAL_SHARE
from app.ceiling.efficiency import describe, least_usual
from app.ceiling.number_formats import KV_BITS
from app.core.i18n import _, joined
from app.core.units import format_bytes, format_number, plural
from app.hardware.catalogue import built_in
from app.metrics import sensors
from app.metrics.summary import percentile
from app.results.ceiling.limits.evidence import NOTABLE, Evidence, Limit, decodes
from app.results.ceiling.limits.machine import WHOLE, busy_cpu, swapping, throttled_gpu
from app.results.ceiling.limits.streams import (
    covered_ms,
    engine_of,
    other_prefill_windows,
    prompts_remedy,
    until_decoding_ms,
)
from app.results.ceiling.placement import Placement, decode_peers
from app.results.ceiling.points import PointCeiling

STALL_TIMES = 4.0
"""A gap is a stall when it is this many times as long as nine of ten gaps: the bursts of drafts are regular."""
STALLS_SHARE = 0.1
"""The share of the decode time that stalls must take to count."""
MIN_GAPS = 20
UNSTEADY = 0.08
"""The coefficient of variation of decode among samples of one point from which on it counts as unsteady."""
FEW_ACCEPTED = 0.4
SHARED = 0.8
"""A stream counts as slowed down when it keeps less than this share of a lone stream's decode."""
MOSTLY = 0.5
"""The share of the time in stalls from which on what happened meanwhile is named as the cause."""
SPOILERS = frozenset(
    {"swapping", "held_back", "power_limit", "offload", "busy_cpu", "stalls", "others_prefill", "drafts"}
)
"""Limits that explain a decode far below its ceiling."""


def rules(evidence: Evidence) -> Iterator[Limit]:
    """All rules of decode."""
    is_usual = _is_usual(evidence)
    findings = [
        *swapping(evidence),
        *_offload(evidence),
        *busy_cpu(evidence, is_usual),
        *_stalls(evidence),
        *_rejected_drafts(evidence.ceiling),
    ]
    if not is_usual:  # a result that is usual for its hardware was not held back by much
        findings += throttled_gpu(evidence, "Decode", sensors.decode_span_ms)
    yield from findings
    yield from _kv_cache(evidence)
    yield from _shared(evidence)
    yield from _bandwidth(evidence, is_explained=any(limit.key in SPOILERS for limit in findings))
    yield from _unsteady(evidence)


def unknown(evidence: Evidence) -> Iterator[str]:
    """Returns what is known of decode where no rule applies."""
    speeds, ceiling = decodes(evidence.usable), evidence.ceiling
    if not speeds:
        return
    if ceiling is None:
        reason = evidence.no_ceiling or _("There is no ceiling to compare it with.")
        yield _("Decode: nothing stands out in {speed} tok/s. {why}", speed=format_number(median(speeds)), why=reason)
    elif ceiling.above:
        yield _(
            "Decode: it is faster than its ceiling, so the ceiling explains nothing: {why}.",
            why=joined(*ceiling.above, by="; "),
        )
    elif ceiling.cache:
        yield _("Decode: {why}.", why=ceiling.cache)
    elif (
        ceiling.mbu
        and ceiling.decode_tokens_per_s
        and evidence.placement
        and not decode_peers(evidence.placement, built_in())
    ):
        yield _(
            "Decode: {share} % of its ceiling ({speed} of {ceiling} tok/s); too few results of its kind are published "
            "to say whether that is usual.",
            share=format_number(ceiling.mbu * 100),
            speed=format_number(ceiling.decode_tokens_per_s),
            ceiling=format_number(ceiling.decode.tokens_per_s),
        )


# --- the ceiling -----------------------------------------------------------------------------------------------------


def _usual(placement: Placement) -> tuple[float, str] | None:
    """Returns the share of the ceiling that is usual for this kind of hardware, in words; None when it is unknown."""
    group = decode_peers(placement, built_in())
    return (least_usual(group), describe(group)) if group else None


def _is_usual(evidence: Evidence) -> bool:
    share = evidence.ceiling.mbu if evidence.ceiling else None
    usual = _usual(evidence.placement) if evidence.placement else None
    return bool(share and share >= (usual[0] if usual else USUAL_SHARE[0]))


def _bandwidth(evidence: Evidence, is_explained: bool) -> Iterator[Limit]:
    point_ceiling, placement = evidence.ceiling, evidence.placement
    if (
        point_ceiling is None
        or placement is None
        or point_ceiling.mbu is None
        or point_ceiling.decode_tokens_per_s is None
    ):
        return
    usual = _usual(placement)
    share, speed, ceiling = (
        format_number(point_ceiling.mbu * 100),
        format_number(point_ceiling.decode_tokens_per_s),
        format_number(point_ceiling.decode.tokens_per_s),
    )
    evidence_text = _(
        "{share} % of the ceiling ({speed} of {ceiling} tok/s)", share=share, speed=speed, ceiling=ceiling
    )
    if usual:
        evidence_text = _("{evidence}; {usual}", evidence=evidence_text, usual=usual[1])
    if _is_usual(evidence) and point_ceiling.mbu <= 1 and not point_ceiling.cache:
        yield Limit(
            "bandwidth",
            "Decode",
            _("Memory bandwidth."),
            evidence_text,
            _("Read fewer bytes for each token, or take faster memory: see what it would take."),
        )
    elif (
        point_ceiling.mbu < (usual[0] if usual else USUAL_SHARE[0])
        and not is_explained
        and (prompts := _prompts_share(evidence)) > NOTABLE
    ):
        yield Limit(
            "others_prefill",
            "Decode",
            _("The throughput of several streams includes the processing of their prompts."),
            _(
                "{evidence}; {percent} % of a round's time passed until each stream had a token",
                evidence=evidence_text,
                percent=format_number(100 * prompts),
            ),
            prompts_remedy(engine_of(evidence.engine)),
        )
    elif usual and point_ceiling.mbu < usual[0] and not is_explained:
        if loads := [fmean(readings) for readings in sensors.card_loads(evidence.rounds, sensors.decode_span_ms)]:
            busiest = _("; the busiest GPU worked {percent} % of the time", percent=format_number(max(loads)))
            evidence_text = joined(evidence_text, busiest, by="")
        evidence_text = joined(evidence_text, _("; the measurements do not show the cause"), by="")
        yield Limit(
            "other",
            "Decode",
            _("Something other than memory bandwidth."),
            evidence_text,
            _(
                "Measure another quantization on this machine to learn the fixed cost per layer, then try a newer "
                "build of the engine."
            ),
        )


def _prompts_share(evidence: Evidence) -> float:
    """Returns the share of a round's time until its last stream had a first token. It is 0 for a lone stream, whose
    decode speed includes none of that time."""
    if evidence.streams == 1:
        return 0.0
    parts = [part for streams in evidence.rounds if (part := until_decoding_ms(streams)) is not None]
    return median(until_ms / whole_ms for until_ms, whole_ms in parts) if parts else 0.0


def _kv_cache(evidence: Evidence) -> Iterator[Limit]:
    point_ceiling, placement = evidence.ceiling, evidence.placement
    if point_ceiling is None or placement is None or point_ceiling.mbu is None or not point_ceiling.step.kv_bytes:
        return
    kv_bytes = point_ceiling.step.batch * point_ceiling.step.kv_bytes
    share = kv_bytes / point_ceiling.step.n_bytes
    if share < NOTABLE:
        return
    remedy = (
        _("A smaller KV cache type (q8_0), or a shorter context.")
        if max(placement.kv.bits) > KV_BITS["q8_0"]
        else _("A shorter context: its type, {kv}, is small already.", kv=placement.kv)
    )
    yield Limit(
        "kv_cache",
        "Decode",
        _("The KV cache."),
        _(
            "{kv_share} % of the bytes read for a token, {kv_bytes}, at {context:,} tokens of context",
            kv_share=format_number(share * 100),
            kv_bytes=format_bytes(kv_bytes),
            context=point_ceiling.context,
        ),
        remedy,
    )


def _offload(evidence: Evidence) -> Iterator[Limit]:
    """Returns the limit of a model that is partly outside of the GPUs, by the stated layers, else by the server's
    report."""
    point_ceiling, placement = evidence.ceiling, evidence.placement
    remedy = _("Put more of it on GPUs: use a smaller quantization, a smaller KV cache, or one more GPU.")
    if point_ceiling is not None and placement is not None and placement.is_partly_in_ram:
        in_memory = placement.ram_time_share(point_ceiling.step)
        if point_ceiling.mbu is not None and in_memory >= NOTABLE:
            evidence_text = _(
                "a part of the model is in system memory; reading it there is {in_memory} % of a token's reading time",
                in_memory=format_number(in_memory * 100),
            )
            if point_ceiling.decode.assumptions:
                evidence_text = joined(evidence_text, _("; {how}", how=point_ceiling.decode.assumptions[0]), by="")
            yield Limit("offload", "Decode", _("A part of the model is not on a GPU."), evidence_text, remedy)
    elif evidence.on_cards_share is not None and 0 < evidence.on_cards_share < WHOLE:
        evidence_text = _(
            "the server says that {share} % of the model is in the memory of GPUs",
            share=format_number(evidence.on_cards_share * 100),
        )
        yield Limit("offload", "Decode", _("A part of the model is not on a GPU."), evidence_text, remedy)


def _rejected_drafts(point_ceiling: PointCeiling | None) -> Iterator[Limit]:
    drafts = point_ceiling.drafts if point_ceiling else None
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


def _stalls(evidence: Evidence) -> Iterator[Limit]:
    gaps = [
        (later.at_ms - earlier.at_ms, earlier.at_ms + sample.sent_at_ms, sample)
        for sample in evidence.usable
        if not {"multi_token_chunks", "buffered", "too_few_events"} & set(sample.flags)
        for earlier, later in pairwise(sample.trace.token_events)
    ]
    if len(gaps) < MIN_GAPS:
        return
    whole_ms, usual_ms = sum(gap_ms for gap_ms, *_ in gaps), percentile([gap_ms for gap_ms, *_ in gaps], 90)
    stalls = [gap for gap in gaps if gap[0] > STALL_TIMES * usual_ms]
    lost_ms = sum(gap_ms for gap_ms, *_ in stalls) - usual_ms * len(stalls)
    if usual_ms <= 0 or lost_ms <= STALLS_SHARE * whole_ms:
        return
    evidence_text = _(
        "{gaps} longer than {stall_times} ms took {share} % of the decode time",
        gaps=plural(len(stalls), "gap"),
        stall_times=format_number(STALL_TIMES * usual_ms),
        share=format_number(100 * lost_ms / whole_ms),
    )
    in_prefill_ms = sum(
        covered_ms(other_prefill_windows(sample, evidence.rounds), (from_ms, from_ms + gap_ms))
        for gap_ms, from_ms, sample in stalls
    )
    if evidence.streams > 1 and in_prefill_ms >= MOSTLY * sum(gap_ms for gap_ms, *_ in stalls):
        yield Limit(
            "others_prefill",
            "Decode",
            _("Tokens wait while the prompts of the run's other streams are processed."),
            evidence_text,
            prompts_remedy(engine_of(evidence.engine)),
        )
        return
    yield Limit(
        "stalls",
        "Decode",
        _("The stream stalls."),
        evidence_text,
        _("Check what else runs on the machine at these times."),
    )


# --- the samples beside each other -----------------------------------------------------------------------------------


def _shared(evidence: Evidence) -> Iterator[Limit]:
    together, single = decodes(evidence.usable), decodes(evidence.usable_alone)
    if not together or not single or evidence.streams == 1:
        return
    share = median(together) / median(single)
    if share < SHARED:
        yield Limit(
            "shared",
            "Decode",
            _("Streams share the hardware."),
            _(
                "each of {concurrency} gets {together} tok/s, {share} % of the {single} of a lone stream",
                concurrency=evidence.streams,
                together=format_number(median(together)),
                share=format_number(share * 100),
                single=format_number(median(single)),
            ),
            _("Fewer streams at once, where one person's speed matters more than throughput."),
        )


def _unsteady(evidence: Evidence) -> Iterator[Limit]:
    speeds = decodes(evidence.usable)
    if len(speeds) < 3 or evidence.streams > 1:
        return
    variation = stdev(speeds) / fmean(speeds)
    if variation > UNSTEADY:
        yield Limit(
            "unsteady",
            "Decode",
            _("It varies from sample to sample."),
            _(
                "{low} to {high} tok/s among {samples}, a variation of {variation} %",
                low=format_number(min(speeds)),
                high=format_number(max(speeds)),
                samples=plural(len(speeds), "sample"),
                variation=format_number(variation * 100),
            ),
            _("Measure again on an idle machine: the median hides what disturbed it."),
        )
