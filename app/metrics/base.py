"""The definition of a metric: a pure function from samples to numbers.

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
"""Sources in words for a reader."""


@dataclass(frozen=True)
class Reading:
    """One number of one sample from one source; a `value` of None has a reason."""

    source: Source
    value: float | None
    null_reason: str | None = None


@dataclass(frozen=True)
class Term:
    """The entry of the glossary that explains a metric, or several of one family."""

    key: str
    """The anchor of the entry on the glossary page."""
    title: str
    text: str
    formula: str = ""
    section: Literal["reader", "engine"] = "reader"
    """Whether the metric is what a reader feels or what the engine does."""


@dataclass(frozen=True)
class Metric:
    """A metric with everything that pages, lists, documents and shares need to show it."""

    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    explanation: str
    """One plain sentence that explains the metric on a page."""
    term: Term | None = None
    """The glossary entry; None: title and explanation make the entry."""
    order: int = 100
    """The position among the metrics after the headline; equal ones are sorted by key."""
    alias: str = ""
    """A short name in addresses and commands besides the key."""
    formula: Callable[[Sample], Sequence[Reading]] | None = None
    """The formula for one sample, without the checks of `read`; None when the metric has a `round_formula`."""
    round_formula: Callable[[Sequence[Sample]], Sequence[Reading]] | None = None
    """The formula of a metric that belongs to all streams of a round together."""
    for_cached_prompt: bool = False
    """Whether the metric is read only from the samples whose prompt should be in the cache."""
    counts_failures: bool = False
    """For a metric with `round_formula`: whether a request without a whole answer counts in its round as having
    achieved nothing."""
    counts_warmups: bool = False
    """Whether warm-ups are read too: for an event that comes once, most likely in a warm-up."""
    invalidated_by: frozenset[str] = frozenset()
    """Flags that invalidate this metric but not the whole sample."""
    server_invalidated_by: frozenset[str] = frozenset({"unit_mismatch", "implausible"})
    """Flags that invalidate only the server's reading; each is a null reason too."""
    assumed_run_deviation: float = 0.04
    """The relative standard deviation between runs of one configuration that is assumed without a history."""
    formula_version: int = 1

    @property
    def is_about_streams(self) -> bool:
        """Whether the metric says something new only with several streams."""
        return self.counts_failures

    def read(self, streams: Sequence[Sample]) -> list[Reading]:
        """Returns every source's reading of one round, which is one sample for a metric with `formula`.

        There is at least one reading, a null with a reason when no sound number exists; none when the metric does not
        apply.
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
    "one_piece": "The answer arrived in one piece, or nearly: the time of its first token is unknown.",
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
    "hidden_tokens": "Most of the tokens never appeared in the stream, so their times are unknown.",
    "unseen_reasoning": "The model reasoned unseen before its first token: TTFT is not the time of the prompt alone.",
    "no_slope": "TTFT did not grow with the prompt.",
    "no_duration": "The server states no duration.",
    "concurrent_streams": "Several streams ran at once.",
    "overlapping_prefill": "Other prompts were processed at the same time, so the server's time is not for one prompt.",
    "unit_mismatch": "The server's durations are in the wrong unit.",
    "implausible": "The server's figures cannot be those of this answer.",
    "not_finite": "The values give no valid number.",
    "not_stated": "The server did not state it.",
    "not_measured": "Nothing that was read reports it.",
    "already_loaded": "The model was in memory already: no sample waited for it.",
    "model_load": "The server loaded the model first: TTFT is mostly that.",
    "filled_cache": "No earlier request had put the prompt into the server's cache: this one did.",
    "not_reused": "The server processed the prompt again although it had just seen it.",
    "few_readings": "It was too short for two readings of the sensors, which are read twice a second.",
    "idle_cards": "The GPUs that report their power did no work, and the processor does not report its own.",
    "few_gaps": "Fewer than two tokens arrived, so there is no gap.",
}


def missing(source: Source, reason: str) -> Reading:
    """A reading without a value; `reason` is a key of `NULL_REASONS`, where a new metric may add its own."""
    assert reason in NULL_REASONS, reason
    return Reading(source, None, reason)
