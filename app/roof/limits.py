"""What limits a result: rules from what was measured, each naming its evidence and what to change first.

A rule that has no evidence says nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Literal

from app.ceiling.decode import USUAL_SHARE
from app.ceiling.efficiency import share_words
from app.i18n import _
from app.metrics import clock, is_usable, triple_of
from app.metrics.summary import percentile
from app.roof.foundation import Foundation
from app.roof.points import PointRoof
from app.samples import Sample
from app.units import number, plural, size

MOSTLY = 0.5
"""Share of TTFT from which on a part of it is what limits."""
NOTABLE = 0.25
NEGLIGIBLE_MS = 20.0
"""HTTP, template and the first decode step take some time everywhere."""
STALL_TIMES = 4.0
"""So many times the median is a gap a stall."""
STALLS_SHARE = 0.1
"""Of the decode time, in stalls."""
UNSTEADY = 0.08
"""Coefficient of variation of decode among samples of one point."""
FEW_ACCEPTED = 0.4
SHARED = 0.8
"""A stream among several that keeps less than this of a lone stream's decode."""


@dataclass(frozen=True)
class Limit:
    of: Literal["TTFT", "Decode"]
    sentence: str
    evidence: str
    remedy: str


def limits(
    samples: Sequence[Sample], point_roof: PointRoof | None, found: Foundation | None, alone: Sequence[Sample] = ()
) -> list[Limit]:
    """Of one point's samples; `alone`: those of the same run with a single stream, where the point has several."""
    taken = [sample for sample in samples if not sample.is_warmup and not sample.reuses_cache]
    usable = [sample for sample in taken if is_usable(sample)]
    reused = [sample for sample in samples if not sample.is_warmup and sample.reuses_cache]
    return [
        *_loading(taken),
        *_first_token(usable, point_roof),
        *_cache_miss(reused),
        *_held_back(taken),
        *(_memory(point_roof, found) if point_roof and found else ()),
        *_shared(usable, alone),
        *_stalls(usable),
        *_unsteady(usable),
        *_rejected_drafts(point_roof),
    ]


def _loading(taken: Sequence[Sample]) -> Iterator[Limit]:
    cold = [sample for sample in taken if "cold" in sample.flags]
    loads = [s.trace.server.load_ms for s in cold if s.trace.server and s.trace.server.load_ms]
    if loads:
        yield Limit(
            "TTFT",
            _("The model was being loaded."),
            _(
                "{samples} of {taken} waited {loads} ms for it",
                samples=plural(len(cold), "sample"),
                taken=len(taken),
                loads=number(median(loads)),
            ),
            _("Keep the model loaded between requests (Ollama: `keep_alive`), or add a warm-up."),
        )


def _first_token(usable: Sequence[Sample], point_roof: PointRoof | None) -> Iterator[Limit]:
    """Of what TTFT consists, where the server states its prompt processing."""
    rows = [
        (ttft, server.prompt_ms, server.queue_ms or 0.0)
        for sample in usable
        if (server := sample.trace.server) and server.prompt_ms and (ttft := clock.first_token_ms(sample.trace))
    ]
    if not rows:
        return
    ttft_ms, prompt_ms, queue_ms = (median(column) for column in zip(*rows, strict=True))
    rest_ms = ttft_ms - prompt_ms
    streams = usable[0].point.concurrency
    if rest_ms > max(NEGLIGIBLE_MS, NOTABLE * ttft_ms):
        evidence = _(
            "{rest_ms} of {ttft_ms} ms passed outside of the prompt's processing",
            rest_ms=number(rest_ms),
            ttft_ms=number(ttft_ms),
        )
        if queue_ms > NOTABLE * ttft_ms:
            evidence += _(", {queue_ms} ms of it in the server's queue", queue_ms=number(queue_ms))
        if streams > 1:
            yield Limit(
                "TTFT",
                _("Requests wait for each other."),
                _("{evidence}, with {streams} at once", evidence=evidence, streams=plural(streams, "stream")),
                _("Give the server more parallel slots, or send it less at once."),
            )
        elif queue_ms > NOTABLE * ttft_ms:
            yield Limit(
                "TTFT", _("The request waited in a queue."), evidence, _("Measure while nobody else uses the server.")
            )
        else:
            yield Limit(
                "TTFT",
                _("Something beside the prompt's processing takes the time."),
                evidence,
                _("Measure on the server's own machine and without a proxy, to see what remains."),
            )
    if prompt_ms > MOSTLY * ttft_ms:
        tokens = median([sample.trace.server.prompt_tokens or 0 for sample in usable if sample.trace.server])
        evidence = _(
            "{prompt_ms} of {ttft_ms} ms for {tokens:,.0f} prompt tokens",
            prompt_ms=number(prompt_ms),
            ttft_ms=number(ttft_ms),
            tokens=tokens,
        )
        if point_roof and point_roof.prefill_share is not None and point_roof.prefill:
            binds = _("computing") if point_roof.prefill.bound == "compute" else _("memory bandwidth")
            evidence += _(
                ", {share} % of what {binds} allows", share=number(point_roof.prefill_share * 100), binds=binds
            )
        yield Limit(
            "TTFT",
            _("The prompt's length: its processing is most of the time."),
            evidence,
            _("Send shorter prompts, or begin them alike so that the prompt cache helps."),
        )


def _cache_miss(reused: Sequence[Sample]) -> Iterator[Limit]:
    missed = [sample for sample in reused if sample.trace.cached_tokens == 0]
    if missed:
        yield Limit(
            "TTFT",
            _("The prompt cache did not help."),
            _(
                "no token came from the cache in {samples} of {reused} that repeated a prompt",
                samples=plural(len(missed), "sample"),
                reused=len(reused),
            ),
            _("Turn prompt caching on in the server, or give it room for more prompts."),
        )


def _held_back(taken: Sequence[Sample]) -> Iterator[Limit]:
    throttles = sorted({why for sample in taken for why in sample.sensors.get("throttles", ())})
    if throttles:
        yield Limit(
            "Decode",
            _("A card was held back."),
            _("its driver said so during the run: {throttles}", throttles=", ".join(throttles)),
            _("Cool it better, or raise its power limit, and measure again."),
        )


def _memory(roof: PointRoof, found: Foundation) -> Iterator[Limit]:
    now = roof.decode_tokens_per_s
    if roof.mbu is None or now is None:
        return
    words = share_words(roof.mbu, now, roof.decode.tokens_per_s)
    low, high = (f"{share:.0%}".replace("%", " %") for share in USUAL_SHARE)
    if USUAL_SHARE[0] <= roof.mbu <= 1:
        yield Limit(
            "Decode",
            _("Memory bandwidth."),
            _("{words} of the ceiling, where good results reach {low} to {high}", words=words, low=low, high=high),
            _("Only fewer bytes for each token or faster memory help: see what it would take."),
        )
    elif roof.mbu < USUAL_SHARE[0]:
        yield Limit(
            "Decode",
            _("Something other than memory bandwidth."),
            _("only {words} of the ceiling, where good results reach {low} to {high}", words=words, low=low, high=high),
            _("Look for other load on the machine, and try a newer build of the engine."),
        )
    kv_share = roof.step.sequence_bytes / roof.step.n_bytes
    if kv_share >= NOTABLE:
        yield Limit(
            "Decode",
            _("The KV cache."),
            _(
                "{kv_share} % of the bytes read for a token, {sequence_bytes}, at {context:,} tokens of context",
                kv_share=number(kv_share * 100),
                sequence_bytes=size(roof.step.sequence_bytes),
                context=roof.context,
            ),
            _("A smaller KV cache type (q8_0), or a shorter context."),
        )
    yield from _offload(roof, found)


def _offload(roof: PointRoof, found: Foundation) -> Iterator[Limit]:
    if found.layers_on_cards is None:
        return
    portions = found.portions(roof.step)
    times = [portion.share / portion.device.bandwidth_bytes_per_s for portion in portions]
    in_memory = times[-1] / sum(times)
    if in_memory >= NOTABLE:
        yield Limit(
            "Decode",
            _("Layers that are not on a card."),
            _(
                "{layers_on_cards} of {blocks} layers are on cards; reading the others from memory is "
                "{in_memory} % of a token's reading time",
                layers_on_cards=found.layers_on_cards,
                blocks=found.geometry.blocks,
                in_memory=number(in_memory * 100),
            ),
            _("Bring more layers onto cards: a smaller quantization, a smaller KV cache, or one more card."),
        )


def _shared(usable: Sequence[Sample], alone: Sequence[Sample]) -> Iterator[Limit]:
    together = _decodes(usable)
    single = _decodes([sample for sample in alone if is_usable(sample)])
    if not together or not single or usable[0].point.concurrency == 1:
        return
    kept = median(together) / median(single)
    if kept < SHARED:
        yield Limit(
            "Decode",
            _("Streams share what there is."),
            _(
                "each of {concurrency} gets {together} tok/s, {kept} % of the {single} of a lone stream",
                concurrency=usable[0].point.concurrency,
                together=number(median(together)),
                kept=number(kept * 100),
                single=number(median(single)),
            ),
            _("Fewer streams at once, where one person's speed matters more than throughput."),
        )


def _stalls(usable: Sequence[Sample]) -> Iterator[Limit]:
    gaps = [
        gap for s in usable if "bundled" not in s.flags and "buffered" not in s.flags for gap in clock.gaps_ms(s.trace)
    ]
    if len(gaps) < 20:
        return
    usual = percentile(gaps, 50)
    stalls = [gap for gap in gaps if gap > STALL_TIMES * usual]
    lost = sum(stalls) - usual * len(stalls)
    if usual > 0 and lost > STALLS_SHARE * sum(gaps):
        yield Limit(
            "Decode",
            _("The stream stalls."),
            _(
                "{pauses} longer than {stall_times} ms cost {share} % of the decode time",
                pauses=plural(len(stalls), "pause"),
                stall_times=number(STALL_TIMES * usual),
                share=number(100 * lost / sum(gaps)),
            ),
            _("Look for what else runs on the machine at these moments."),
        )


def _unsteady(usable: Sequence[Sample]) -> Iterator[Limit]:
    speeds = _decodes(usable)
    if len(speeds) < 3 or usable[0].point.concurrency > 1:
        return
    variation = stdev(speeds) / fmean(speeds)
    if variation > UNSTEADY:
        yield Limit(
            "Decode",
            _("It is not the same from sample to sample."),
            _(
                "{low} to {high} tok/s among {samples}, a variation of {variation} %",
                low=number(min(speeds)),
                high=number(max(speeds)),
                samples=plural(len(speeds), "sample"),
                variation=number(variation * 100),
            ),
            _("Measure again on an idle machine: the median hides what disturbed it."),
        )


def _rejected_drafts(roof: PointRoof | None) -> Iterator[Limit]:
    drafts = roof.drafts if roof else None
    if drafts and drafts.drafted and drafts.accepted < FEW_ACCEPTED * drafts.drafted:
        yield Limit(
            "Decode",
            _("Most drafts are rejected."),
            _(
                "{accepted:,} of {drafted:,} drafted tokens were right",
                accepted=drafts.accepted,
                drafted=drafts.drafted,
            ),
            _("Draft fewer tokens at a time, or take another draft model."),
        )


def _decodes(samples: Sequence[Sample]) -> list[float]:
    return [speed for sample in samples if (speed := triple_of(sample)["decode_tokens_per_s"])]
