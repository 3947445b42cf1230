"""How changes and verdicts are worded, and what compared results are called."""

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db.database import Database
from app.metrics import metrics
from app.results.compare import words
from app.results.compare.names import Fact, name_by_difference
from app.stats.verdict import Ratio, Verdict
from tests.compare.runs import Q4, Q8, calm_history, compared, place, run, timed


def ratio(value: float, verdict: str) -> Ratio:
    return Ratio(value, value * 0.9, value * 1.1, 0.01, Verdict(verdict))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("decode_tokens_per_s", 0.49, "decode 51 % slower"),
        ("decode_tokens_per_s", 1.034, "decode 3.4 % faster"),
        ("prefill_tokens_per_s", 2.5, "prefill 150 % faster"),
        ("ttft_ms", 1.12, "TTFT 12 % longer"),
        ("e2e_ms", 0.5, "end to end 50 % shorter"),
        ("joules_per_output_token", 1.2, "energy per token 20 % higher"),
        ("draft_acceptance", 0.8, "draft acceptance 20 % lower"),
        ("ttft_ms", 1.0001, "TTFT unchanged"),
    ],
)
def test_a_change_is_worded_by_what_the_metric_measures(key: str, value: float, said: str) -> None:
    assert words.metric_change(key, value) == said


@given(st.sampled_from(sorted(metrics())), st.floats(0.01, 100))
def test_the_word_tells_the_direction(key: str, value: float) -> None:
    said = words.change_words(key, value)
    if said != "unchanged":
        assert said.endswith(("faster", "longer", "higher") if value > 1 else ("slower", "shorter", "lower"))
        assert "-" not in said
        assert "−" not in said


def test_a_verdict_names_what_is_settled_first() -> None:
    ratios = {
        "ttft_ms": ratio(1.05, "inconclusive"),
        "prefill_tokens_per_s": ratio(1.01, "same"),
        "decode_tokens_per_s": ratio(0.49, "worse"),
    }
    assert words.verdict_words(ratios) == "decode 51 % slower; prefill the same; perhaps TTFT 5.0 % longer"
    assert words.brief_words(ratios) == "decode 51 % slower"
    assert words.ratio_words("ttft_ms", ratios["ttft_ms"]) == "5.0 % longer (inconclusive)"
    mixed = {"ttft_ms": ratio(0.5, "better"), "decode_tokens_per_s": ratio(0.49, "worse")}
    assert words.brief_words(mixed) == "decode 51 % slower, TTFT 50 % shorter"
    assert words.brief_words({"ttft_ms": ratio(1, "same")}) == "the same"
    assert words.brief_words({}) == words.verdict_words({}) == ""


def test_every_verdict_has_a_sign_and_a_word() -> None:
    assert set(words.SIGNS) == set(words.LEGEND) == set(Verdict)
    assert len(set(words.SIGNS.values())) == len(Verdict)
    assert words.sign(None) == words.sign("") == ""


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (Q4, ("Q8_0", "Q4_K_M")),
        (replace(Q8, engine_version="b6400"), ("b6301", "b6400")),
        (replace(Q8, settings={"context": 8192}), ("context 4,096", "context 8,192")),
        (replace(Q8, settings={}), ("context 4,096", "context not stated")),
        (replace(Q8, model="Gemma", quantization="Q4_0"), ("Qwen3-8B Q8_0", "Gemma Q4_0")),
        (replace(Q4, engine="vllm", engine_version="0.9"), ("Q8_0 · llama.cpp b6301", "Q4_K_M · vllm 0.9")),
    ],
)
def test_results_are_called_by_what_differs(database: Database, other: object, names: tuple[str, str]) -> None:
    configs = place(database, Q8, other)  # type: ignore[arg-type]  # a Snapshot
    comparison = compared(database, *(run(database, config, timed(500, 50)) for config in configs))
    assert tuple(subject.name for subject in comparison.subjects) == names


def test_runs_of_one_configuration_are_called_by_their_day_or_time(database: Database) -> None:
    (q8,) = place(database, Q8)
    runs = [run(database, q8, timed(500, 50), hours=hours) for hours in (0, 2, 30)]
    later, near = compared(database, runs[0], runs[2]), compared(database, runs[0], runs[1])
    assert [subject.name for subject in later.subjects] == ["2026-09-01", "2026-09-02"]
    assert [subject.name for subject in near.subjects] == ["2026-09-01 12:00", "2026-09-01 14:00"]
    assert later.shared[0] == "Qwen3-8B Q8_0"
    assert later.shared_settings == ("context 4,096",)


KEYS = ("model", "engine", "machine", "context", "threads")
SIDES = st.lists(
    st.fixed_dictionaries({key: st.text(string.ascii_lowercase, max_size=2) for key in KEYS}), min_size=2, max_size=8
)


@given(SIDES)
def test_all_names_differ_and_none_is_empty(sides: list[dict[str, str]]) -> None:
    groups = {"model": "m", "engine": "e", "machine": "h"}
    facts = [[Fact(key, key, side[key], groups.get(key, "")) for key in KEYS] for side in sides]
    naming = name_by_difference(facts, [("today", f"run {place}") for place in range(len(sides))])
    assert len(set(naming.names)) == len(sides)
    assert all(naming.names)
    for text in naming.shared:
        assert all(text in side.values() for side in sides)


@pytest.mark.parametrize(("speeds", "best"), [((50, 60), 1), ((60, 50), 0), ((50, 50.2), None), ((50.2, 50), None)])
def test_the_best_value_is_marked_where_one_stands_out(
    database: Database, speeds: tuple[float, float], best: int | None
) -> None:
    configs = place(database)
    for config in configs:
        calm_history(database, config)
    runs = [run(database, config, timed(500, speed)) for config, speed in zip(configs, speeds, strict=True)]
    (decode,) = [row for row in compared(database, *runs).main_rows if row.metric == "decode_tokens_per_s"]
    assert decode.best == best
    assert max(decode.share_of_largest(side) for side in (0, 1)) == 1
