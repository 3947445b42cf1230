"""What an answer states about itself: counts, and the server's own durations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.samples import CacheDefeat, CountSource, ServerFigures
from app.engines.http.text import TextCleaner
from app.engines.protocol.openai_chunk import count, is_plain, mapping, milliseconds, number

_SPARE_SHARE = 0.05
_SPARE_EVENTS = 4
"""So many more events than tokens are no contradiction: a server may cut the name of a tool into several."""
_SHARE_DIFFERENCE = 0.15
"""How far a share of the tokens may be from that of the text."""


@dataclass(frozen=True)
class Stated:
    """The objects that came beside the text, under the names the server gave them; of each name the last one counts."""

    objects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cache_defeat: CacheDefeat = CacheDefeat.NONE
    cleaner: TextCleaner = field(default_factory=TextCleaner)
    token_events: int = 0
    """How many were seen; each holds a token or more."""
    reasoning_share: float = 0.0
    """Of the text that was seen."""

    @property
    def usage(self) -> Mapping[str, Any]:
        return self.objects.get("usage", {})

    @property
    def timings(self) -> Mapping[str, Any]:
        return self.objects.get("timings", {})

    @property
    def prompt_tokens(self) -> int | None:
        """All of them; a prompt of none does not exist."""
        fresh, cached = count(self.timings.get("prompt_n")), count(self.timings.get("cache_n"))
        return count(self.usage.get("prompt_tokens")) or (None if fresh is None else fresh + (cached or 0)) or None

    @property
    def cached_tokens(self) -> int | None:
        """None where the server does not say, or says more than the prompt has."""
        stated = (
            count(mapping(self.usage.get("prompt_tokens_details")).get("cached_tokens")),
            count(self.usage.get("cached_tokens")),
            count(self.timings.get("cache_n")),
        )
        cached = next((value for value in stated if value is not None), None)
        total = self.prompt_tokens
        return None if cached is not None and total is not None and cached > total else cached

    @property
    def fresh_prompt_tokens(self) -> int | None:
        """Those that a duration without cached tokens belongs to; None where the cache may have given some unseen."""
        if self.prompt_tokens is None or (self.cached_tokens is None and self.cache_defeat is CacheDefeat.NONE):
            return None
        return self.prompt_tokens - (self.cached_tokens or 0) or None

    @property
    def total_tokens(self) -> int | None:
        return count(self.usage.get("total_tokens")) or None

    @property
    def output_tokens(self) -> int | None:
        """Reasoning included, even where the server counts it beside its completion tokens."""
        counted = count(self.usage.get("completion_tokens"))
        beyond_prompt = self._beyond_prompt
        if not counted:  # a count of none beside token text was never made
            return None if beyond_prompt is None or self._holds_more_than(beyond_prompt) else beyond_prompt
        reasoning = self._reasoning or 0
        if beyond_prompt is not None and beyond_prompt > counted and beyond_prompt - counted != self.cached_tokens:
            return counted if self._is_total_wrong(counted, beyond_prompt) else beyond_prompt
        has_answer_beside = reasoning == counted and self.token_events > 0 and self.reasoning_share < 1
        is_beside = reasoning > counted or has_answer_beside or (reasoning > 0 and self._holds_more_than(counted))
        return counted + reasoning if is_beside else counted

    @property
    def reasoning_tokens(self) -> int | None:
        """Of the output tokens; where only the total tells of them, what is beyond the completion tokens."""
        total = self.output_tokens
        if total is None:
            return None
        stated = self._reasoning or total - (count(self.usage.get("completion_tokens")) or total)
        return stated if 0 < stated <= total else None

    @property
    def output(self) -> tuple[int | None, CountSource | None]:
        """The output tokens, from whatever tells them best."""
        for stated, counted, source in (
            (self.usage.get("completion_tokens"), self.output_tokens, CountSource.USAGE),
            (self.timings.get("predicted_n"), count(self.timings.get("predicted_n")), CountSource.TIMINGS),
        ):
            if counted:
                return counted, source
            if count(stated) == 0 and not self.token_events:
                return 0, source
        return (self.token_events, CountSource.EVENTS) if self.token_events else (None, None)

    @property
    def _reasoning(self) -> int | None:
        details = mapping(self.usage.get("completion_tokens_details"))
        places = (details.get("reasoning_tokens"), self.usage.get("reasoning_tokens"))
        return next((tokens for tokens in map(count, places) if tokens), None)

    @property
    def _beyond_prompt(self) -> int | None:
        """What the total has beside the prompt."""
        total, prompt = self.total_tokens, count(self.usage.get("prompt_tokens"))
        return total - prompt if total and prompt and total > prompt else None

    def _holds_more_than(self, tokens: int) -> bool:
        """Whether more events came than an answer of so many tokens can have."""
        return self.token_events > (1 + _SPARE_SHARE) * tokens + _SPARE_EVENTS

    def _is_total_wrong(self, counted: int, beyond_prompt: int) -> bool:
        """Whether reasoning was seen, but is no such part of the text as the total has beyond completion tokens."""
        beyond = beyond_prompt - counted
        if not self.reasoning_share or self._reasoning == beyond or self._holds_more_than(counted):
            return False
        return abs(self.reasoning_share - beyond / beyond_prompt) > _SHARE_DIFFERENCE

    def raw(self, name: str) -> dict[str, Any]:
        """The plain values of an object as it was sent, for the record."""
        kept = {key: value for key, value in self.objects.get(name, {}).items() if is_plain(value)}
        return dict(self.cleaner.clean(kept))


def of_timings(stated: Stated) -> ServerFigures | None:
    """llama.cpp's `timings`: `prompt_n` without cached tokens, `predicted_ms` from the first to the last token."""
    timings = stated.timings
    if not timings:
        return None
    return ServerFigures(
        prompt_tokens=count(timings.get("prompt_n")) or None,
        prompt_ms=milliseconds(timings.get("prompt_ms")),
        output_tokens=count(timings.get("predicted_n")) or None,
        decode_ms=milliseconds(timings.get("predicted_ms")),
        draft_tokens=count(timings.get("draft_n")),
        draft_accepted_tokens=count(timings.get("draft_n_accepted")),
        raw=stated.raw("timings"),
    )


def ms_of(value: Any, *, per_second: float = 1.0) -> float | None:
    """A duration in milliseconds; `per_second` is how many of the server's units a second has."""
    found = number(value)
    return None if found is None else milliseconds(found / per_second * 1000)
