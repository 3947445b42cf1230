"""What TTFT consists of, where the server states its own part of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from app.i18n import _
from app.metrics import clock, sensed
from app.metrics.ttft import read_ttft
from app.roof.limits.base import NOTABLE, Evidence, Limit
from app.roof.limits.heat import held_back
from app.samples import Sample
from app.units import number, plural

MOSTLY = 0.5
"""Share of TTFT from which on a part of it is what limits."""
NEGLIGIBLE_MS = 20.0
"""HTTP, template and the first decode step take some time everywhere."""
FAR = 0.25
"""Share of the prefill ceiling below which more than the prompt's length is to blame."""
MISSED = 0.5
"""Share of a repeated prompt below which the cache did not help."""


@dataclass(frozen=True)
class Parts:
    """Medians, in ms; None where the server does not state them."""

    ttft_ms: float
    prompt_ms: float | None
    queue_ms: float | None
    prompt_tokens: float | None

    @property
    def queue_share(self) -> float:
        return (self.queue_ms or 0) / self.ttft_ms

    @property
    def rest_ms(self) -> float | None:
        """Neither in the queue nor for the prompt."""
        return None if self.prompt_ms is None else self.ttft_ms - self.prompt_ms - (self.queue_ms or 0)


def rules(seen: Evidence) -> Iterator[Limit]:
    yield from _loading(seen)
    thinking = list(_thinking(seen.usable))
    yield from thinking
    parts = None if thinking else _parts(seen.usable)
    if parts is not None:
        yield from _queue(seen, parts)
        yield from _outside(seen, parts)
        yield from _prompt(seen, parts)
    yield from _cache(seen.reused)
    yield from held_back(seen, "TTFT", sensed.prefill_span_ms)


def unknown(seen: Evidence) -> Iterator[str]:
    """Why no rule speaks."""
    parts = _parts(seen.usable)
    if parts is None:
        return
    if parts.prompt_ms is None:
        yield _(
            "TTFT: the server does not state how long it worked on the prompt, so nobody can tell what the {ttft_ms} "
            "ms consist of.",
            ttft_ms=number(parts.ttft_ms),
        )
    else:
        yield _(
            "TTFT: nothing stands out; the server worked on the prompt for {prompt_ms} of {ttft_ms} ms.",
            prompt_ms=number(parts.prompt_ms),
            ttft_ms=number(parts.ttft_ms),
        )


def _parts(usable: Sequence[Sample]) -> Parts | None:
    """Of the samples that TTFT is taken from: none that loaded the model, or had its prompt in the cache."""
    fresh = [sample for sample in usable if not {"cold", "cached"} & set(sample.flags)]
    ttfts = [ttft for sample in fresh if (ttft := read_ttft(sample)[0].value)]
    if not ttfts:
        return None
    servers = [
        sample.trace.server
        for sample in fresh
        if sample.trace.server and not {"unit_mismatch", "implausible"} & set(sample.flags)
    ]
    return Parts(
        median(ttfts),
        _median([each.prompt_ms for each in servers]),
        _median([each.queue_ms for each in servers]),
        _median([each.prompt_tokens for each in servers]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _loading(seen: Evidence) -> Iterator[Limit]:
    cold = [sample for sample in seen.taken if "cold" in sample.flags]
    loads = [s.trace.server.load_ms for s in cold if s.trace.server and s.trace.server.load_ms]
    if loads:
        yield Limit(
            "loading",
            "TTFT",
            _("The model was being loaded."),
            _(
                "{samples} of {taken} waited {loads} ms for it",
                samples=plural(len(cold), "sample"),
                taken=len(seen.taken),
                loads=number(median(loads)),
            ),
            _("Keep the model loaded between requests (Ollama: `keep_alive`), or add a warm-up."),
        )


def _thinking(usable: Sequence[Sample]) -> Iterator[Limit]:
    """Reasoning that the server counts and keeps to itself: TTFT is its time, and nothing but that can be told."""
    hidden = [tokens for sample in usable if (tokens := clock.unseen_reasoning(sample.trace))]
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


def _queue(seen: Evidence, parts: Parts) -> Iterator[Limit]:
    """In the server's queue where it tells, else, of several streams, longer than a lone one, in all or beside the
    prompt: a lone one may have been slow for reasons of its own."""
    evidence = _(
        "{queue_ms} of {ttft_ms} ms passed in the server's queue",
        queue_ms=number(parts.queue_ms),
        ttft_ms=number(parts.ttft_ms),
    )
    if seen.streams == 1:
        if parts.queue_share > NOTABLE:
            yield Limit(
                "queue",
                "TTFT",
                _("The request waited in a queue."),
                evidence,
                _("Measure while nobody else uses the server."),
            )
        return
    if parts.queue_share <= NOTABLE:
        alone = _parts(seen.usable_alone)
        rest_ms, usual_ms = parts.rest_ms or 0, alone.rest_ms or 0 if alone else 0
        if alone is not None and parts.ttft_ms > (1 + NOTABLE) * alone.ttft_ms + NEGLIGIBLE_MS:
            evidence = _(
                "{ttft_ms} ms instead of the {alone_ms} ms of a lone stream",
                ttft_ms=number(parts.ttft_ms),
                alone_ms=number(alone.ttft_ms),
            )
        elif rest_ms - usual_ms > max(NEGLIGIBLE_MS, NOTABLE * parts.ttft_ms):
            evidence = _rest(rest_ms, parts)
        else:
            return
    yield Limit(
        "queue",
        "TTFT",
        _("Requests wait for each other."),
        _("{evidence}, with {streams} at once", evidence=evidence, streams=plural(seen.streams, "stream")),
        _("Give the server more parallel slots, or send it less at once."),
    )


def _rest(rest_ms: float, parts: Parts) -> str:
    return _(
        "{rest_ms} of {ttft_ms} ms passed outside of the prompt's processing",
        rest_ms=number(rest_ms),
        ttft_ms=number(parts.ttft_ms),
    )


def _outside(seen: Evidence, parts: Parts) -> Iterator[Limit]:
    """Of a lone stream: several ones wait for each other."""
    rest_ms = parts.rest_ms
    if seen.streams == 1 and rest_ms is not None and rest_ms > max(NEGLIGIBLE_MS, NOTABLE * parts.ttft_ms):
        yield Limit(
            "outside",
            "TTFT",
            _("Something beside the prompt's processing takes the time."),
            _rest(rest_ms, parts),
            _("Measure on the server's own machine and without a proxy, to see what remains."),
        )


def _prompt(seen: Evidence, parts: Parts) -> Iterator[Limit]:
    if parts.prompt_ms is None or parts.prompt_ms <= MOSTLY * parts.ttft_ms:
        return
    times = {"prompt_ms": number(parts.prompt_ms), "ttft_ms": number(parts.ttft_ms)}
    if parts.prompt_tokens:
        evidence = _("{prompt_ms} of {ttft_ms} ms for {tokens:,.0f} prompt tokens", tokens=parts.prompt_tokens, **times)
    else:
        evidence = _("{prompt_ms} of {ttft_ms} ms", **times)
    remedy = _("Send shorter prompts, or begin them alike so that the prompt cache helps.")
    roof = seen.roof
    if roof is not None and roof.prefill is not None and roof.prefill_share is not None:
        binds = _("computing") if roof.prefill.bound == "compute" else _("memory bandwidth")
        evidence += _(", {share} % of what {binds} allows", share=number(roof.prefill_share * 100), binds=binds)
        if roof.prefill_share < FAR:
            remedy = _(
                "The hardware allows much more: try larger batches of the prompt (llama.cpp: `-ub`), flash attention, "
                "or a newer build of the engine; and begin prompts alike so that the prompt cache helps."
            )
    yield Limit("prompt", "TTFT", _("The prompt's length: its processing is most of the time."), evidence, remedy)


def _cache(reused: Sequence[Sample]) -> Iterator[Limit]:
    """By the server's own count; where it does not tell, nothing is known."""
    told = [
        (cached, total)
        for sample in reused
        if (cached := sample.trace.cached_tokens) is not None and (total := sample.trace.prompt_tokens)
    ]
    missed = [(cached, total) for cached, total in told if cached < MISSED * total]
    if missed:
        yield Limit(
            "cache",
            "TTFT",
            _("The prompt cache did not help."),
            _(
                "{cached:,.0f} of {total:,.0f} tokens came from the cache, in {samples} of {reused} that repeated "
                "a prompt",
                cached=median(cached for cached, _total in missed),
                total=median(total for _cached, total in missed),
                samples=plural(len(missed), "sample"),
                reused=len(told),
            ),
            _("Turn prompt caching on in the server, or give it room for more prompts."),
        )
