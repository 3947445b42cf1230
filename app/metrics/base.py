"""What a metric is: a pure function from samples to numbers.

One metric (or one family of them) is one module of this package with its `Metric`s in a module-level tuple `METRICS`;
`app.metrics` finds it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.core.samples import Sample

Source = Literal["client", "server", "slope", "sensor", "import"]
SOURCES: Mapping[Source, str] = {
    "client": "Timed by Roofmark",
    "server": "The server's own timing",
    "slope": "Slope between two prompt lengths",
    "sensor": "From the machine's sensors",
    "import": "Imported",
}
"""In a reader's words."""


@dataclass(frozen=True)
class Reading:
    """One number of one sample, from one source; a `value` of None has a reason."""

    source: Source
    value: float | None
    null_reason: str | None = None


@dataclass(frozen=True)
class Term:
    """The entry of the glossary that explains a metric, or several of one family."""

    key: str
    """Its anchor."""
    title: str
    text: str
    formula: str = ""
    section: Literal["reader", "engine"] = "reader"
    """What a reader feels, or what the engine does."""


@dataclass(frozen=True)
class Metric:
    """A metric with everything that pages, lists, documents and shares need to show it."""

    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    explanation: str
    """What it is, in one plain sentence for a page."""
    term: Term | None = None
    """None: title and explanation make its entry of the glossary."""
    order: int = 100
    """Its place among the metrics that follow the headline; equal ones are in the order of their keys."""
    alias: str = ""
    """What addresses and commands may call it besides its key."""
    formula: Callable[[Sample], Sequence[Reading]] | None = None
    """What `read` gives for one sample, without its checks; None: `round_formula` has it."""
    round_formula: Callable[[Sequence[Sample]], Sequence[Reading]] | None = None
    """Of a metric that belongs to all streams of a round together."""
    for_cached_prompt: bool = False
    """Read from the samples that were meant to find their prompt in the cache, and from no others."""
    counts_failures: bool = False
    """Of a metric with `round_formula`: a request without a whole answer counts in its round, with nothing achieved."""
    counts_warmups: bool = False
    """Of a metric whose event comes once, most likely in a warm-up: it is read from all samples."""
    invalidated_by: frozenset[str] = frozenset()
    """Flags that make this metric, but not the whole sample, worthless."""
    server_invalidated_by: frozenset[str] = frozenset({"unit_mismatch", "implausible"})
    """Flags that make only the server's reading worthless; each is a null reason too."""
    assumed_run_deviation: float = 0.04
    """By how much, relatively, runs of one configuration are taken to differ where no history tells."""
    formula_version: int = 1

    @property
    def is_about_streams(self) -> bool:
        """Whether it says something new of several streams only."""
        return self.counts_failures

    def read(self, streams: Sequence[Sample]) -> list[Reading]:
        """Every source's reading of one round, which is one sample for a metric with `formula`.

        At least one reading, a null with a reason where there is no sound number; none where the metric does not apply.
        """
        if self.round_formula is not None:
            readings = self.round_formula(streams)
        else:
            assert self.formula is not None
            assert len(streams) == 1
            readings = self.formula(streams[0])
        return [self._checked(reading, streams) for reading in readings]

    def _checked(self, reading: Reading, streams: Sequence[Sample]) -> Reading:
        if reading.value is None:
            return reading
        if reading.source == "server":
            for flag in (flag for sample in streams for flag in sample.flags):
                if flag in self.server_invalidated_by:
                    return missing("server", flag)
        is_positive = self.unit == "tok/s" and not self.counts_failures  # a round may have achieved nothing
        if not math.isfinite(reading.value) or (is_positive and reading.value <= 0):
            return missing(reading.source, "not_finite")
        return reading


NULL_REASONS = {
    "no_token": "No token arrived.",
    "one_token": "Decode needs at least two output tokens.",
    "no_answer_token": "No token of the answer arrived.",
    "buffered": "The tokens arrived in bursts, most likely through a buffering proxy: their times say nothing.",
    "not_streamed": "The server sent one piece of JSON instead of a stream.",
    "zero_span": "All tokens arrived at the same moment.",
    "one_piece": "The answer arrived in one piece, or nearly: when its first token was made, nobody knows.",
    "too_few_events": "The tokens arrived in too few pieces: the speed is not known within 10 %.",
    "tokens_unknown": "The server does not say how many tokens it wrote, and its events hold several each.",
    "late_start": "The first tokens were held back or read late: the server's own time is longer.",
    "bundled_start": "The first event held many tokens, so that TTFT is mostly theirs and not the prompt's.",
    "cache_state_unknown": "Part of the prompt may have come from the server's cache, and the server does not say.",
    "cached": "Most of the prompt came from the server's cache.",
    "too_few_fresh_tokens": "Fewer than 32 prompt tokens were processed: too few for a speed.",
    "prompt_tokens_unknown": "The server does not say how many tokens the prompt had.",
    "no_usable_sample": "No sample was free of disqualifying flags.",
    "no_sample": "No sample was taken.",
    "exceeds_context": "The prompt and its output do not fit into the server's context.",
    "one_length": "A slope needs two prompt lengths in one run.",
    "hidden_tokens": "Most of the tokens were never seen, so that nobody knows when they came.",
    "unseen_reasoning": "The model reasoned unseen before its first token: TTFT is no time of the prompt alone.",
    "no_slope": "TTFT did not grow with the prompt.",
    "no_duration": "The server states no duration.",
    "concurrent_streams": "Several streams ran at once.",
    "overlapping_prefill": "Other prompts were processed at the same time, so the server's time is not of one alone.",
    "unit_mismatch": "The server's durations are in another unit than they should be.",
    "implausible": "The server's figures cannot be those of this answer.",
    "not_finite": "The figures give no number that makes sense.",
    "not_stated": "The server did not state it.",
    "not_measured": "Nothing that was read tells it.",
    "already_loaded": "The model was in memory already: no sample waited for it.",
    "model_load": "The server loaded the model first: TTFT is mostly that.",
    "filled_cache": "No request before it had put the prompt into the server's cache: it did that itself.",
    "not_reused": "The server worked through the prompt anew although it had just seen it.",
    "few_readings": "It took less than two readings of the sensors, which come twice a second.",
    "idle_cards": "The GPUs that tell their power did no work, and the processor does not tell its own.",
    "few_gaps": "Fewer than two tokens arrived, so there is no gap.",
}


def missing(source: Source, reason: str) -> Reading:
    assert reason in NULL_REASONS, reason
    return Reading(source, None, reason)
