"""What an answer reports about itself: token counts, and the server's own durations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.samples import CacheDefeat, CountSource, ServerFigures
from app.engines.http.text import TextCleaner
from app.engines.protocol.answers import count, is_plain, mapping, milliseconds

_DIFFERENCE = 0.03
"""Relative; two of a server's sources that differ by more do not mean the same."""
_ROUNDING_MS = 1.0
_ROUNDING_SHARE = 0.002
CACHE_REPORT = "cache_report"
"""Under this name a dialect puts `cached_tokens` that an engine states outside of its usage and timings."""
_EXTRA_EVENTS_SHARE = 0.05
_EXTRA_EVENTS = 4
"""So many more events than tokens are no contradiction: a server may cut the name of a tool into several."""
_MAX_SHARE_DIFFERENCE = 0.15
"""How far reasoning's share of the tokens may be from its share of the text."""


@dataclass(frozen=True)
class ReportedUsage:
    """The objects that came beside the text of one answer, by the server's names; of each name the last one."""

    objects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cache_defeat: CacheDefeat = CacheDefeat.NONE
    cleaner: TextCleaner = field(default_factory=TextCleaner)
    token_events: int = 0
    """Events with token text; each holds a token or more."""
    reasoning_share: float = 0.0
    """Reasoning's share of 1 of the visible text."""

    @property
    def usage(self) -> Mapping[str, Any]:
        return self.objects.get("usage", {})

    @property
    def timings(self) -> Mapping[str, Any]:
        return self.objects.get("timings", {})

    @property
    def prompt_tokens(self) -> int | None:
        """All prompt tokens, cached ones included; None where they are not reported, or reported as zero."""
        fresh, cached = count(self.timings.get("prompt_n")), count(self.timings.get("cache_n"))
        return count(self.usage.get("prompt_tokens")) or (None if fresh is None else fresh + (cached or 0)) or None

    @property
    def cached_tokens(self) -> int | None:
        """Cached prompt tokens; None where they are not reported, or are more than the prompt has."""
        reported = (
            count(mapping(self.usage.get("prompt_tokens_details")).get("cached_tokens")),
            count(self.usage.get("cached_tokens")),
            count(self.timings.get("cache_n")),
            count(self.objects.get(CACHE_REPORT, {}).get("cached_tokens")),
        )
        cached = next((value for value in reported if value is not None), None)
        total = self.prompt_tokens
        return None if cached is not None and total is not None and cached > total else cached

    @property
    def fresh_prompt_tokens(self) -> int | None:
        """Prompt tokens that were processed; None where the cache may have supplied some without a report."""
        if self.prompt_tokens is None or (self.cached_tokens is None and self.cache_defeat is CacheDefeat.NONE):
            return None
        return self.prompt_tokens - (self.cached_tokens or 0) or None

    @property
    def total_tokens(self) -> int | None:
        """Prompt and output together."""
        return count(self.usage.get("total_tokens")) or None

    @property
    def output_tokens(self) -> int | None:
        """Output tokens by usage, reasoning included even where the server counts it separately."""
        completion = count(self.usage.get("completion_tokens"))
        beyond_prompt = self._beyond_prompt
        if not completion:  # zero with visible token text is no count
            return None if beyond_prompt is None or self._has_more_events_than(beyond_prompt) else beyond_prompt
        reasoning = self._reasoning or 0
        if (
            beyond_prompt is not None
            and beyond_prompt > completion
            and beyond_prompt - completion != self.cached_tokens
        ):
            return completion if self._is_total_wrong(completion, beyond_prompt) else beyond_prompt
        has_other_text = reasoning == completion and self.token_events > 0 and self.reasoning_share < 1
        is_separate = (
            reasoning > completion or has_other_text or (reasoning > 0 and self._has_more_events_than(completion))
        )
        return completion + reasoning if is_separate else completion

    @property
    def reasoning_tokens(self) -> int | None:
        """Output tokens that are reasoning; where not reported, what output has beyond completion tokens."""
        output = self.output_tokens
        if output is None:
            return None
        reasoning = self._reasoning or output - (count(self.usage.get("completion_tokens")) or output)
        return reasoning if 0 < reasoning <= output else None

    @property
    def output(self) -> tuple[int | None, CountSource | None]:
        """The output tokens and their source, by the best source there is; None, None where there is none."""
        for reported, tokens, source in (
            (self.usage.get("completion_tokens"), self.output_tokens, CountSource.USAGE),
            (self.timings.get("predicted_n"), count(self.timings.get("predicted_n")), CountSource.TIMINGS),
        ):
            if tokens:
                return tokens, source
            if count(reported) == 0 and not self.token_events:
                return 0, source
        return (self.token_events, CountSource.EVENTS) if self.token_events else (None, None)

    @property
    def _reasoning(self) -> int | None:
        details = mapping(self.usage.get("completion_tokens_details"))
        places = (details.get("reasoning_tokens"), self.usage.get("reasoning_tokens"))
        return next((tokens for tokens in map(count, places) if tokens), None)

    @property
    def _beyond_prompt(self) -> int | None:
        """What the total has beyond the prompt; None where that is not positive or not reported."""
        total, prompt = self.total_tokens, count(self.usage.get("prompt_tokens"))
        return total - prompt if total and prompt and total > prompt else None

    def _has_more_events_than(self, tokens: int) -> bool:
        """Whether more token events came than an answer of so many tokens can have."""
        return self.token_events > (1 + _EXTRA_EVENTS_SHARE) * tokens + _EXTRA_EVENTS

    def _is_total_wrong(self, completion: int, beyond_prompt: int) -> bool:
        """Whether visible reasoning is too small or too large to be what the total has beyond completion tokens."""
        excess = beyond_prompt - completion
        if not self.reasoning_share or self._reasoning == excess or self._has_more_events_than(completion):
            return False
        return abs(self.reasoning_share - excess / beyond_prompt) > _MAX_SHARE_DIFFERENCE

    def raw(self, name: str) -> dict[str, Any]:
        """The plain values of the object `name` as it was sent, for `ServerFigures.raw`."""
        values = {key: value for key, value in self.objects.get(name, {}).items() if is_plain(value)}
        return dict(self.cleaner.clean(values))


def llamacpp_timings(usage: ReportedUsage) -> ServerFigures | None:
    """The figures in llama.cpp's `timings`, which several servers send; None where there are none.

    `prompt_n` is without cached tokens. How many steps `predicted_ms` covers is a fact of the engine that sent it
    (`Engine.decode_intervals`), which corrects it afterwards.
    """
    timings = usage.timings
    if not timings:
        return None
    return ServerFigures(
        prompt_tokens=count(timings.get("prompt_n")) or None,
        prompt_ms=milliseconds(timings.get("prompt_ms")),
        output_tokens=count(timings.get("predicted_n")) or None,
        decode_ms=milliseconds(timings.get("predicted_ms")),
        draft_tokens=count(timings.get("draft_n")),
        draft_accepted_tokens=count(timings.get("draft_n_accepted")),
        raw=usage.raw("timings"),
    )


def differing(figures: ServerFigures, others: ServerFigures) -> list[str]:
    """The names of figures of one request that two of a server's sources (its answer, record, log) state differently.

    Decode times are compared per token, since sources may count another end of the answer.
    """
    names = [
        name
        for name in ("prompt_tokens", "draft_tokens", "draft_accepted_tokens")
        if None not in (pair := (getattr(figures, name), getattr(others, name))) and pair[0] != pair[1]
    ]
    if _is_other_time(figures.prompt_ms, others.prompt_ms, 1):
        names.append("prompt_ms")
    steps = min(figures.output_tokens or 0, others.output_tokens or 0) - 1
    if steps > 0 and _is_other_time(_step_ms(figures), _step_ms(others), steps):
        names.append("decode_ms")
    shares = (figures.expert_hit_share, others.expert_hit_share)
    if shares[0] is not None and shares[1] is not None and abs(shares[0] - shares[1]) > _ROUNDING_SHARE:
        names.append("expert_hit_share")
    return names


def _step_ms(figures: ServerFigures) -> float | None:
    return None if figures.decode_ms is None else figures.decode_ms / ((figures.output_tokens or 0) - 1)


def _is_other_time(a_ms: float | None, b_ms: float | None, steps: int) -> bool:
    if a_ms is None or b_ms is None:
        return False
    return abs(a_ms - b_ms) * steps > _ROUNDING_MS and abs(a_ms - b_ms) > _DIFFERENCE * max(a_ms, b_ms)
