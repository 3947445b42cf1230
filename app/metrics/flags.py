"""Flags: what makes a sample worth a second look. Each has a rule, one sentence and one piece of advice."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from app.core.samples import CountSource, Sample, Status
from app.metrics import load, sanity_checks, token_times
from app.metrics.decode import DISAGREEMENT, client_decode, difference_of_sides

CACHED_SHARE = 0.02
SLEPT_S = 0.1


@dataclass(frozen=True)
class Flag:
    key: str
    sentence: str
    advice: str
    disqualifies: bool
    """Keeps the sample out of all statistics."""
    holds: Callable[[Sample], bool | None] | None
    """The rule: None when the sample lacks the data that the rule needs, and then the stored flag stays. A flag without
    a rule is judged from all samples of a run together (see app.metrics.drift)."""
    rule_version: int = 1
    """Raised when `holds` changes: the flags of earlier runs are then computed anew."""
    former_key: str = ""
    """Its key before "roofmark.run/3": a link to its entry in the glossary still works."""

    @property
    def title(self) -> str:
        """The flag's title, as `not streamed`."""
        return self.key.replace("_", " ")


def _early_stop(sample: Sample) -> bool:
    n = sample.trace.output_tokens
    if n is None or sample.trace.not_streamed or n >= sample.point.output_tokens:
        return False
    return sample.trace.count_source is not CountSource.EVENTS or sample.trace.finish_reason == "stop"


def _exceeded_max_tokens(sample: Sample) -> bool:
    n = sample.trace.output_tokens
    return n is not None and n > sample.point.output_tokens


def _cached(sample: Sample) -> bool:
    total, cached = sample.trace.prompt_tokens, sample.trace.cached_tokens
    return bool(not sample.reuses_cache and cached and total and cached > CACHED_SHARE * total)


def _truncated(sample: Sample) -> bool:
    """Whether the prompt was cut: compared with the count of the server's own tokenizer, else with half of a rough
    estimate.

    This disqualifies nothing: the server's tokens and times belong together, only for another length.
    """
    prompt_tokens = sample.trace.prompt_tokens
    if prompt_tokens is None:
        return False
    if sample.expected_prompt_tokens is not None:
        return prompt_tokens < sample.expected_prompt_tokens
    return prompt_tokens < 0.5 * sample.point.prompt_tokens


def _unseen_tokens(sample: Sample) -> int:
    """Returns the number of output tokens that the server counted beyond one per token event."""
    trace = sample.trace
    if trace.output_tokens is None or trace.not_streamed or trace.count_source is CountSource.EVENTS:
        return 0
    return trace.output_tokens - len(trace.token_events)


def _multi_token_chunks(sample: Sample) -> bool:
    unseen = _unseen_tokens(sample)
    return unseen > max(1, 0.05 * len(sample.trace.token_events)) and not _hidden_tokens(sample)


def _hidden_tokens(sample: Sample) -> bool:
    """Whether the server hides its reasoning, or there are more tokens than bytes: then the text of some was never
    sent."""
    n = sample.trace.output_tokens or 0
    is_hidden = token_times.unseen_reasoning(sample.trace) > 0 or token_times.visible_bytes(sample.trace) < n
    return _unseen_tokens(sample) > max(1, 0.05 * n) and is_hidden


def _empty(sample: Sample) -> bool:
    trace = sample.trace
    is_seen = trace.not_streamed or trace.token_events
    return trace.status is Status.OK and not is_seen and not _hidden_tokens(sample)


def _cache_state_unknown(sample: Sample) -> bool:
    server = sample.trace.server
    is_stated_fresh = server is not None and server.prompt_tokens is not None and sample.trace.prompt_tokens is None
    return not sample.reuses_cache and sanity_checks.may_hold_cached_prompt(sample, is_stated_fresh=is_stated_fresh)


def _too_few_events(sample: Sample) -> bool:
    """Whether several tokens came in too few events to time them."""
    return client_decode(sample) in ("too_few_events", "zero_span", "tokens_unknown")


def _count_mismatch(sample: Sample) -> bool:
    """Whether the counts contradict the server's sum of prompt and output tokens (with or without cached ones), or the
    events, which hold one token each."""
    trace = sample.trace
    n, events = trace.output_tokens, len(trace.token_events)
    if n is None or trace.count_source is CountSource.EVENTS:
        return False
    if trace.total_tokens is not None and trace.prompt_tokens is not None:
        beyond_prompt = trace.total_tokens - trace.prompt_tokens
        if beyond_prompt not in (n, n + (trace.cached_tokens or 0)):
            return True
    return events > (1 + sanity_checks.MISCOUNT_SHARE) * n + sanity_checks.MISCOUNT_TOKENS


def _client_server_mismatch(sample: Sample) -> bool:
    difference = difference_of_sides(sample)
    return difference is not None and abs(difference) > DISAGREEMENT


def _implausible(sample: Sample) -> bool:
    return (
        sanity_checks.is_output_count_absurd(sample)
        or sanity_checks.is_prompt_count_absurd(sample)
        or sanity_checks.are_durations_absurd(sample)
        or (sample.trace.cached_tokens is not None and sanity_checks.is_prefill_absurd(sample))
    )


def _concurrent(sample: Sample) -> bool | None:
    """The server was busy around the request, or says that it waited behind others; streams of one round do."""
    if sanity_checks.waited_in_queue(sample):
        return True
    return sample.sensors.get("server_was_busy")


def _interrupted(sample: Sample) -> bool | None:
    slept_s = sample.sensors.get("slept_s")
    if sample.sensors.get("cancelled") or slept_s is None:
        return sample.sensors.get("cancelled")
    return bool(slept_s >= SLEPT_S)


def _client_scheduling_delay(sample: Sample) -> bool | None:
    return None if sample.trace.sched_delay_ms is None else sanity_checks.is_reader_late(sample)


FLAGS = {
    flag.key: flag
    for flag in (
        Flag(
            "interrupted",
            "The sample was cut short or paused: the run was cancelled or this machine was suspended in the middle of "
            "it.",
            "Measure again, and let the run finish on a machine that stays awake.",
            True,
            _interrupted,
        ),
        Flag(
            "incomplete",
            "The stream had no proper end: no finish reason, no usage, or the connection broke.",
            "Look at the server's log for this moment; the tokens that came are kept.",
            True,
            lambda s: s.trace.status is Status.INCOMPLETE,
        ),
        Flag(
            "empty",
            "The server answered properly, but without a single token.",
            "Try the prompt by hand; a chat template or a stop word may end the answer at once.",
            True,
            _empty,
        ),
        Flag(
            "not_streamed",
            "The server sent one piece of JSON although a stream was asked for.",
            "Without a stream there is no TTFT and no decode speed: check whether a proxy turns streaming off.",
            False,
            lambda s: s.trace.not_streamed,
        ),
        Flag(
            "buffered",
            "Tokens arrived in bursts: something between server and Roofmark holds them back.",
            "Measure the server directly, or turn buffering off in the proxy.",
            False,
            lambda s: token_times.arrives_in_bursts(s.trace) or client_decode(s) == "buffered",
        ),
        Flag(
            "truncated_prompt",
            "The server processed fewer prompt tokens than were sent: it cut the prompt.",
            "Raise the server's context, or use a shorter suite: TTFT and prefill belong to the shorter prompt.",
            False,
            _truncated,
        ),
        Flag(
            "model_load",
            "The server loaded the model during this request.",
            "Load time is shown separately; add a warm-up, so that no sample includes it.",
            False,
            load.is_cold,
            former_key="cold",
        ),
        Flag(
            "cached",
            "Part of the prompt came from the server's cache.",
            "TTFT and prefill of this sample are left out: turn prompt caching off to measure them.",
            False,
            _cached,
        ),
        Flag(
            "cache_state_unknown",
            "Part of the prompt may have come from the server's cache without being reported: the cache was not "
            "defeated, the prompt has far more tokens than were sent, or it was processed faster than any hardware "
            "can.",
            "Prefill is not computed. Let the suite defeat the cache, and take a system prompt out of the server.",
            False,
            _cache_state_unknown,
            former_key="possibly_cached",
        ),
        Flag(
            "early_stop",
            "The answer ended before the requested length.",
            "Short answers make noisy speeds: compare only runs of the same output length.",
            False,
            _early_stop,
            former_key="short",
        ),
        Flag(
            "exceeded_max_tokens",
            "The server wrote more tokens than requested.",
            "It ignores the output limit: compare only runs of the same output length.",
            False,
            _exceeded_max_tokens,
            former_key="over",
        ),
        Flag(
            "multi_token_chunks",
            "Stream events hold several tokens each.",
            "Decode leaves out the tokens of the first event; the gaps are chunk gaps, not inter-token latency.",
            False,
            _multi_token_chunks,
            former_key="bundled",
        ),
        Flag(
            "too_few_events",
            "The tokens arrived in too few pieces to tell their speed within 10 %.",
            "Decode is left out: ask for more tokens, or for a server or proxy that sends each token at once.",
            False,
            _too_few_events,
        ),
        Flag(
            "hidden_tokens",
            "The server counts more tokens than the stream showed.",
            "Hidden reasoning or removed tags: a few of them count in decode speed; when they are most of the tokens, "
            "decode is not computed.",
            False,
            _hidden_tokens,
        ),
        Flag(
            "token_count_estimated",
            "The server gave no token count, so stream events were counted instead.",
            "Take the speed as a lower bound: one event may hold several tokens.",
            False,
            lambda s: s.trace.count_source is CountSource.EVENTS and bool(s.trace.token_events),
        ),
        Flag(
            "count_mismatch",
            "The server's counts of tokens contradict each other, or the events that came.",
            "Take speeds with care: the count that fits the events best is used. Compare with the server's log.",
            False,
            _count_mismatch,
        ),
        Flag(
            "client_server_mismatch",
            "Decode as Roofmark timed it and as the server states it differ by more than 5 %.",
            "Measure on the server's own machine and without a proxy; when tokens were held back or read late at the "
            "start, only the server's value is shown.",
            False,
            _client_server_mismatch,
        ),
        Flag(
            "unit_mismatch",
            "The server's own durations are off by about a factor of a thousand.",
            "The server's values are in another unit than stated and are left out; the client's are used.",
            False,
            sanity_checks.is_unit_mismatch,
        ),
        Flag(
            "implausible",
            "A value cannot be true: it contradicts what was requested and seen, or is above twice the ceiling.",
            "Contradicting values of the server are left out and the client's are used; above the ceiling, check the "
            "machine's memory bandwidth and the model's geometry.",
            False,
            _implausible,
        ),
        Flag(
            "concurrent",
            "The server was working for somebody else at the same time.",
            "Measure again while nobody else uses the server.",
            True,
            _concurrent,
            rule_version=2,
        ),
        Flag(
            "client_scheduling_delay",
            "Roofmark's own reader was late: this machine had no processor free when tokens arrived.",
            "Stop the other programs on this machine, or measure from another one: arrivals are recorded too late.",
            False,
            _client_scheduling_delay,
            former_key="loop_lag",
        ),
        Flag(
            "drift",
            "The repetitions drift: results depend on when in the run they were measured.",
            "Look for heat, other programs or too short a warm-up, and measure again when the machine is steady: the "
            "median lies between two states.",
            False,
            None,
        ),
    )
}


def flags_of(sample: Sample) -> tuple[str, ...]:
    """Returns all flags of a sample, in the order above. A failed sample has an error instead."""
    if sample.trace.status is Status.FAILED:
        return ()
    return tuple(key for key, flag in FLAGS.items() if flag.holds is not None and flag.holds(sample))


def refreshed_flags(sample: Sample) -> tuple[str, ...]:
    """Returns the flags of a stored sample by the current rules. A flag that its record cannot decide stays as
    stored."""
    if sample.trace.status is Status.FAILED:
        return sample.flags
    verdicts = {key: flag.holds(sample) if flag.holds else None for key, flag in FLAGS.items()}
    decided = [key for key, holds in verdicts.items() if holds or (holds is None and key in sample.flags)]
    return (*decided, *(key for key in sample.flags if key not in FLAGS))


def is_usable(sample: Sample) -> bool:
    """Whether statistics may use the sample."""
    return not sample.is_warmup and is_sound(sample.trace.status, sample.flags)


NO_WHOLE_ANSWER = frozenset({"incomplete", "empty"})


def is_unanswered(sample: Sample) -> bool:
    """Whether the request got no whole answer: it has no figures of its own, but was part of the load of its round."""
    return sample.trace.status is not Status.OK or not NO_WHOLE_ANSWER.isdisjoint(sample.flags)


def is_sound(status: str, flags: Collection[str]) -> bool:
    """Whether statistics may use what was measured with this status and these flags."""
    return status == Status.OK and not any(FLAGS[key].disqualifies for key in flags if key in FLAGS)
