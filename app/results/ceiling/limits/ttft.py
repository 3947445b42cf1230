"""What TTFT consists of, when the server states its part of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from app.ceiling.efficiency import describe, is_slow_prefill
from app.core.i18n import _, joined
from app.core.samples import Sample, Trace
from app.core.units import format_number, plural
from app.hardware.catalogue import built_in
from app.metrics import sensors, token_times
from app.metrics.ttft import read_ttft
from app.results.ceiling.limits.evidence import NOTABLE, Evidence, Limit
from app.results.ceiling.limits.machine import throttled_gpu
from app.results.ceiling.limits.streams import (
    engine_of,
    median_wait,
    prefill_words,
    prompts_remedy,
    slots_remedy,
    waits,
)
from app.results.ceiling.placement import prefill_peers

MOSTLY = 0.5
"""The share of TTFT from which on a part of it is the limit."""
NEGLIGIBLE_MS = 20.0
"""HTTP, template and the first decode step take some time everywhere."""
MISSED = 0.5
"""The share of a repeated prompt in the cache below which the cache did not help."""


@dataclass(frozen=True)
class TtftParts:
    """The parts of one sample's TTFT in ms; None when the server does not state it, or it includes other prompts."""

    ttft_ms: float
    prompt_ms: float | None
    queue_ms: float | None
    prompt_tokens: float | None

    @property
    def rest_ms(self) -> float | None:
        """The time that passed neither in the queue nor for the prompt, in ms."""
        return None if self.prompt_ms is None else self.ttft_ms - self.prompt_ms - (self.queue_ms or 0)


class PointTtftParts:
    """The parts of TTFT of a point's samples. All medians of one sentence are of the same samples."""

    def __init__(self, parts: Sequence[TtftParts]) -> None:
        self.parts = parts

    @property
    def ttft_ms(self) -> float:
        """Median TTFT of all samples."""
        return median(part.ttft_ms for part in self.parts)

    def medians(self, *names: str) -> tuple[float, ...] | None:
        """Returns the medians of TTFT and of these parts over the samples that have all of them; None when no sample
        has."""
        rows = self._rows(names)
        return tuple(median(values) for values in zip(*rows, strict=True)) if rows else None

    def are_all(self, *names: str) -> bool:
        """Whether all samples have these parts."""
        return len(self._rows(names)) == len(self.parts)

    def where(self, *names: str) -> str:
        """Returns which samples such medians are of, when they are not of all."""
        count = len(self._rows(names))
        if count == len(self.parts):
            return ""
        return _(", in {count} of {samples}", count=count, samples=plural(len(self.parts), "sample"))

    def _rows(self, names: Sequence[str]) -> list[list[float]]:
        rows = [[getattr(part, name) for name in ("ttft_ms", *names)] for part in self.parts]
        return [row for row in rows if None not in row]


def rules(evidence: Evidence) -> Iterator[Limit]:
    """All rules of TTFT."""
    yield from _loading(evidence)
    thinking = list(_thinking(evidence.usable))
    yield from thinking
    parts = None if thinking else _parts(evidence.usable)
    if parts is not None:
        yield from _queue(parts) if evidence.streams == 1 else _several_streams(evidence, parts)
        yield from _outside(evidence, parts)
        yield from _prompt(evidence, parts)
    yield from _cache(evidence.reused)
    yield from throttled_gpu(evidence, "TTFT", sensors.prefill_span_ms)


def unknown(evidence: Evidence) -> Iterator[str]:
    """Returns what is known of TTFT where no rule applies."""
    parts = _parts(evidence.usable)
    if parts is None:
        return
    if (medians := parts.medians("prompt_ms")) is not None:
        yield _(
            "TTFT: nothing stands out; the server worked on the prompt for {prompt_ms} of {ttft_ms} ms{where}.",
            prompt_ms=format_number(medians[1]),
            ttft_ms=format_number(medians[0]),
            where=parts.where("prompt_ms"),
        )
    elif any(sample.trace.server and sample.trace.server.prompt_ms for sample in evidence.usable):
        if evidence.streams == 1:
            yield _(
                "TTFT: the server's time for the prompt does not count, so the parts of the {ttft_ms} ms are unknown.",
                ttft_ms=format_number(parts.ttft_ms),
            )
            return
        yield _(
            "TTFT: several prompts were processed at the same time, so the parts of one prompt's {ttft_ms} ms are "
            "unknown.",
            ttft_ms=format_number(parts.ttft_ms),
        )
    else:
        yield _(
            "TTFT: the server does not state how long it worked on the prompt, so the parts of the {ttft_ms} ms are "
            "unknown.",
            ttft_ms=format_number(parts.ttft_ms),
        )


def _parts(usable: Sequence[Sample]) -> PointTtftParts | None:
    """Returns the parts of the samples that count for TTFT: without those that loaded the model or had their prompt in
    the cache."""
    parts = [
        _part(sample, ttft_ms)
        for sample in usable
        if not {"model_load", "cached"} & set(sample.flags) and (ttft_ms := read_ttft(sample)[0].value)
    ]
    return PointTtftParts(parts) if parts else None


def _part(sample: Sample, ttft_ms: float) -> TtftParts:
    server = sample.trace.server
    if server is None or {"unit_mismatch", "implausible"} & set(sample.flags):
        return TtftParts(ttft_ms, None, None, None)
    is_own = sample.point.concurrency == 1 or sample.prefill_overlaps is False
    return TtftParts(ttft_ms, server.prompt_ms if is_own else None, server.queue_ms, server.prompt_tokens)


def _loading(evidence: Evidence) -> Iterator[Limit]:
    cold = [sample for sample in evidence.measured_samples if "model_load" in sample.flags]
    loads = [s.trace.server.load_ms for s in cold if s.trace.server and s.trace.server.load_ms]
    if loads:
        yield Limit(
            "loading",
            "TTFT",
            _("The model was being loaded."),
            _(
                "{loading} of {samples} waited {load_ms} ms for it",
                loading=plural(len(loads), "sample"),
                samples=len(evidence.measured_samples),
                load_ms=format_number(median(loads)),
            ),
            _("Keep the model loaded between requests (Ollama: `keep_alive`), or add a warm-up."),
        )


def _thinking(usable: Sequence[Sample]) -> Iterator[Limit]:
    """Returns the limit of reasoning that the server counts and does not send: TTFT includes its time, and no other
    part is known."""
    hidden = [tokens for sample in usable if (tokens := _unseen_tokens(sample.trace))]
    if 2 * len(hidden) > len(usable):
        yield Limit(
            "thinking",
            "TTFT",
            _("The model thinks before its first visible token."),
            _(
                "{tokens:,.0f} tokens of reasoning were counted and never sent, in {samples}",
                tokens=median(hidden),
                samples=plural(len(hidden), "sample"),
            ),
            _("Turn thinking off or down, or let the server send its reasoning: then TTFT is the prompt's time."),
        )


def _unseen_tokens(trace: Trace) -> int:
    """Returns how many tokens came before the first one that was seen."""
    if token_times.is_mostly_unseen(trace):
        return (trace.output_tokens or 0) - len(trace.token_events)
    return token_times.unseen_reasoning(trace)


def _queue(parts: PointTtftParts) -> Iterator[Limit]:
    """Returns the limit of a lone stream that waited in the server's queue, when the server states the wait."""
    medians = parts.medians("queue_ms")
    if medians is not None and medians[1] > NOTABLE * medians[0]:
        yield Limit(
            "queue",
            "TTFT",
            _("The request waited in a queue."),
            joined(_queue_words(medians), parts.where("queue_ms"), by=""),
            _("Measure while nobody else uses the server."),
        )


def _queue_words(medians: Sequence[float]) -> str:
    return _(
        "{queue_ms} of {ttft_ms} ms passed in the server's queue",
        queue_ms=format_number(medians[1]),
        ttft_ms=format_number(medians[0]),
    )


def _several_streams(evidence: Evidence, parts: PointTtftParts) -> Iterator[Limit]:
    """Returns what slowed several streams: while one waited, the prompts of others were processed or their answers held
    the slots. A lone stream may have been slow for reasons of its own."""
    alone, queue_medians = _parts(evidence.usable_alone), parts.medians("queue_ms")
    wait = median_wait(waits(evidence.rounds, alone.ttft_ms if alone else None))
    is_slower = alone is None or parts.ttft_ms > (1 + NOTABLE) * alone.ttft_ms + NEGLIGIBLE_MS
    at_once = plural(evidence.streams, "stream")
    if (
        wait is not None
        and is_slower
        and _is_notable(wait.others_prefill_ms, wait.ttft_ms)
        and wait.others_prefill_ms >= wait.slot_ms
    ):
        yield Limit(
            "others_prefill",
            "TTFT",
            _("The prompts of the run's other streams take the time."),
            prefill_words(wait, at_once),
            prompts_remedy(engine_of(evidence.engine)),
        )
        return
    alone_medians = alone.medians("rest_ms") if alone else None
    if queue_medians is not None and queue_medians[1] > NOTABLE * queue_medians[0]:
        evidence_text = joined(_queue_words(queue_medians), parts.where("queue_ms"), by="")
    elif alone is not None and is_slower:
        evidence_text = _(
            "{ttft_ms} ms instead of the {alone_ms} ms of a lone stream",
            ttft_ms=format_number(parts.ttft_ms),
            alone_ms=format_number(alone.ttft_ms),
        )
    elif wait is not None and _is_notable(wait.slot_ms - (alone_medians[1] if alone_medians else 0.0), wait.ttft_ms):
        evidence_text = _rest(wait.slot_ms, wait.ttft_ms)
    else:
        return
    yield Limit(
        "queue",
        "TTFT",
        _("Requests wait for each other."),
        _("{evidence}, with {streams} at once", evidence=evidence_text, streams=at_once),
        slots_remedy(engine_of(evidence.engine)),
    )


def _is_notable(part_ms: float, ttft_ms: float) -> bool:
    return part_ms > max(NEGLIGIBLE_MS, NOTABLE * ttft_ms)


def _rest(rest_ms: float, ttft_ms: float) -> str:
    return _(
        "{rest_ms} of {ttft_ms} ms passed outside of the prompt's processing",
        rest_ms=format_number(rest_ms),
        ttft_ms=format_number(ttft_ms),
    )


def _outside(evidence: Evidence, parts: PointTtftParts) -> Iterator[Limit]:
    """Returns the limit of a lone stream's time besides its prompt; several streams wait for each other instead."""
    medians = parts.medians("rest_ms") if evidence.streams == 1 else None
    if medians is not None and _is_notable(medians[1], medians[0]):
        yield Limit(
            "outside",
            "TTFT",
            _("Something other than prompt processing takes the time."),
            joined(_rest(medians[1], medians[0]), parts.where("rest_ms"), by=""),
            _("Measure on the server's own machine and without a proxy, to see what remains."),
        )


def _prompt(evidence: Evidence, parts: PointTtftParts) -> Iterator[Limit]:
    medians, medians_with_tokens = parts.medians("prompt_ms"), parts.medians("prompt_ms", "prompt_tokens")
    if medians is None or medians[1] <= MOSTLY * medians[0]:
        return
    if medians_with_tokens is not None and medians_with_tokens[2]:
        ttft_ms, prompt_ms, tokens = medians_with_tokens
        evidence_text = _(
            "{prompt_ms} of {ttft_ms} ms for {tokens:,.0f} prompt tokens",
            tokens=tokens,
            prompt_ms=format_number(prompt_ms),
            ttft_ms=format_number(ttft_ms),
        )
        where = parts.where("prompt_ms", "prompt_tokens")
    else:
        evidence_text = _(
            "{prompt_ms} of {ttft_ms} ms", prompt_ms=format_number(medians[1]), ttft_ms=format_number(medians[0])
        )
        where = parts.where("prompt_ms")
    remedy = _("Send shorter prompts, or give them the same beginning so that the prompt cache helps.")
    share = usual = ""
    ceiling = evidence.ceiling
    # the speed is over all samples, so only times over all of them belong to it
    if (
        ceiling is not None
        and ceiling.prefill is not None
        and ceiling.prefill_share is not None
        and parts.are_all("prompt_ms")
    ):
        binds = _("compute") if ceiling.prefill.bound == "compute" else _("memory bandwidth")
        share = _(
            ", {share} % of the prefill ceiling, which {binds} sets",
            share=format_number(ceiling.prefill_share * 100),
            binds=binds,
        )
        group = prefill_peers(evidence.placement, built_in()) if evidence.placement else None
        if group and is_slow_prefill(ceiling.prefill_share, group):
            usual = _("; {usual}", usual=describe(group))
            remedy = _(
                "Such hardware is usually much faster: try larger batches of the prompt (llama.cpp: `-ub`), flash "
                "attention, or a newer build of the engine; and give prompts the same beginning so that the prompt "
                "cache helps."
            )
    yield Limit(
        "prompt",
        "TTFT",
        _("The prompt's length: its processing is most of the time."),
        joined(evidence_text, where, share, usual, by=""),
        remedy,
    )


def _cache(reused: Sequence[Sample]) -> Iterator[Limit]:
    """Returns the limit of a prompt cache that missed, by the server's count; without a count nothing is known."""
    token_pairs = [
        (cached, total)
        for sample in reused
        if (cached := sample.trace.cached_tokens) is not None and (total := sample.trace.prompt_tokens)
    ]
    missed_pairs = [(cached, total) for cached, total in token_pairs if cached < MISSED * total]
    if missed_pairs:
        yield Limit(
            "cache",
            "TTFT",
            _("The prompt cache did not help."),
            _(
                "{cached:,.0f} of {total:,.0f} tokens came from the cache, in {samples} of {reused} that repeated "
                "a prompt",
                cached=median(cached for cached, _total in missed_pairs),
                total=median(total for _cached, total in missed_pairs),
                samples=plural(len(missed_pairs), "sample"),
                reused=len(token_pairs),
            ),
            _("Turn prompt caching on in the server, or give it room for more prompts."),
        )
