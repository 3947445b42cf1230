"""What limits a result: each rule speaks when its evidence is there, and only then."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.roof import Foundation, Limit, limits, roofs
from app.samples import Event, Kind, Point, Sample
from app.store.drafts import Drafts
from app.store.machines import MachineDevice
from tests.test_roof import RAM, card, found, measured
from tests.traces import figures, sample, stream, trace

POINT = Point(512, 128)
CLEAN = trace(stream(first_ms=100, gap_ms=10), server=figures(prompt_ms=40.0))
"""Nothing of it is most of TTFT, and its tokens come evenly."""


def taken(count: int = 3, made: Any = CLEAN, **changes: Any) -> list[Sample]:
    return [sample(made, ordinal=n, **changes) for n in range(count)]


def said(samples: Sequence[Sample], **more: Any) -> list[str]:
    return [limit.sentence for limit in limits(samples, more.pop("roof", None), more.pop("on", None), **more)]


def under(
    held: Sequence[MachineDevice],
    decode: float,
    point: Point = POINT,
    drafts: Drafts | None = None,
    **settings: Any,
) -> list[Limit]:
    stands = found(held, **{"kv_type_k": "f16", "kv_type_v": "f16", **settings})
    assert isinstance(stands, Foundation)
    (roof,) = roofs(stands, [measured("decode_tokens_per_s", decode, point)], {point: drafts} if drafts else {})
    return limits([], roof, stands)


def test_a_clean_result_without_a_ceiling_is_limited_by_nothing_that_is_known() -> None:
    waits = replace(CLEAN, server=figures(prompt_ms=49.0), events=stream(first_ms=60, gap_ms=10))
    assert said(taken()) == ["Something beside the prompt's processing takes the time."]
    assert "most of the time" in said(taken(made=waits))[0]
    assert said(taken(made=replace(CLEAN, server=None))) == []
    assert said([]) == []


def test_loading() -> None:
    cold = replace(CLEAN, server=figures(prompt_ms=90.0, load_ms=900.0))
    (limit, *_) = limits([*taken(2), sample(cold, flags=("cold",), ordinal=2)], None, None)
    assert (limit.of, limit.sentence) == ("TTFT", "The model was being loaded.")
    assert limit.evidence == "1 sample of 3 waited 900 ms for it"
    assert "The model was being loaded." not in said(taken())


@pytest.mark.parametrize(
    ("server", "streams", "sentence"),
    [
        ({"prompt_ms": 90.0}, 1, "The prompt's length: its processing is most of the time."),
        ({"prompt_ms": 20.0}, 1, "Something beside the prompt's processing takes the time."),
        ({"prompt_ms": 20.0, "queue_ms": 70.0}, 1, "The request waited in a queue."),
        ({"prompt_ms": 20.0}, 4, "Requests wait for each other."),
    ],
)
def test_of_what_the_first_token_consists(server: dict[str, float], streams: int, sentence: str) -> None:
    made = replace(CLEAN, server=figures(**server))
    found_limits = limits(taken(made=made, point=Point(512, 11, streams)), None, None)
    assert [limit.sentence for limit in found_limits if limit.of == "TTFT"] == [sentence]
    assert "100 ms" in found_limits[0].evidence


@pytest.mark.parametrize(("tokens", "binds"), [(2, "memory bandwidth"), (8000, "computing")])
def test_a_prompt_is_held_against_what_binds_it(tokens: int, binds: str) -> None:
    """A prefill at exactly its ceiling reached all of what binds there; of MFU that is true only of computing."""
    stands, point = found([card(peak=100e12)]), Point(tokens, 11)
    assert isinstance(stands, Foundation)
    triple = [measured("decode_tokens_per_s", 5.0, point), measured("prefill_tokens_per_s", 1.0, point)]
    (slow,) = roofs(stands, triple)
    assert slow.prefill is not None
    (roof,) = roofs(stands, [triple[0], measured("prefill_tokens_per_s", slow.prefill.tokens_per_s, point)])
    made = replace(CLEAN, server=figures(prompt_ms=90.0))
    (limit, *_) = limits(taken(made=made, point=point), roof, stands)
    assert limit.evidence.endswith(f", 100 % of what {binds} allows")


def test_a_cache_that_did_not_help() -> None:
    missed = taken(made=replace(CLEAN, cached_tokens=0), reuses_cache=True)
    hit = taken(made=replace(CLEAN, cached_tokens=500), reuses_cache=True)
    assert said(missed) == ["The prompt cache did not help."]
    assert said(hit) == []


def test_a_card_that_was_held_back() -> None:
    throttled = taken(1, sensors={"throttles": ["gpu0: temperature"]})
    assert "A card was held back." in said(throttled)
    assert "A card was held back." not in said(taken(sensors={"throttles": []}))


@pytest.mark.parametrize(
    ("decode", "sentence"),
    [(80.0, "Memory bandwidth."), (30.0, "Something other than memory bandwidth."), (150.0, None)],
)
def test_memory_bandwidth_by_the_share_reached(decode: float, sentence: str | None) -> None:
    assert [limit.sentence for limit in under([card()], decode)] == ([sentence] if sentence else [])


def test_a_long_context_is_the_kv_cache() -> None:
    far = [limit for limit in under([card()], 5.0, Point(100_000, 128)) if limit.sentence == "The KV cache."]
    assert len(far) == 1
    assert "of the bytes read for a token" in far[0].evidence
    assert all(limit.sentence != "The KV cache." for limit in under([card()], 5.0))


def test_layers_in_memory() -> None:
    (limit,) = [each for each in under([RAM, card()], 5.0, gpu_layers=6) if "not on a card" in each.sentence]
    assert limit.evidence.startswith("6 of 10 layers are on cards")
    assert all("not on a card" not in each.sentence for each in under([RAM, card()], 5.0, gpu_layers=10))


def test_streams_that_share() -> None:
    alone = taken()
    slow = trace(stream(first_ms=100, gap_ms=25), server=figures(prompt_ms=40.0))
    together = taken(made=slow, point=Point(512, 11, 4))
    assert "Streams share what there is." in said(together, alone=alone)
    assert "Streams share what there is." not in said(taken(point=Point(512, 11, 4)), alone=alone)
    assert "Streams share what there is." not in said(together)


def with_stall(pause_ms: float) -> Sequence[Event]:
    return [Event(100 + 10 * n + (pause_ms if n >= 15 else 0), Kind.ANSWER, 4) for n in range(30)]


def test_stalls() -> None:
    stalled = taken(made=replace(CLEAN, events=tuple(with_stall(100)), output_tokens=30))
    even = taken(made=replace(CLEAN, events=tuple(with_stall(0)), output_tokens=30))
    assert "The stream stalls." in said(stalled)
    assert "The stream stalls." not in said(even)
    assert "The stream stalls." not in said([replace(each, flags=("bundled",)) for each in stalled])


def test_what_differs_from_sample_to_sample() -> None:
    gaps = (10, 14, 10)
    unsteady = [
        sample(trace(stream(100, gap), server=figures(prompt_ms=40.0)), ordinal=n) for n, gap in enumerate(gaps)
    ]
    assert "It is not the same from sample to sample." in said(unsteady)
    assert "It is not the same from sample to sample." not in said(taken())


def test_drafts_that_are_rejected() -> None:
    few, most = Drafts(1000, 100, 900), Drafts(1000, 700, 900)
    assert "Most drafts are rejected." in [limit.sentence for limit in under([card()], 50.0, drafts=few)]
    assert "Most drafts are rejected." not in [limit.sentence for limit in under([card()], 50.0, drafts=most)]


def test_every_limit_has_evidence_with_a_number_and_a_remedy() -> None:
    for limit in [*limits(taken(), None, None), *under([card()], 80.0), *under([RAM, card()], 5.0, gpu_layers=6)]:
        assert any(character.isdigit() for character in limit.evidence)
        assert limit.remedy.endswith(".")
