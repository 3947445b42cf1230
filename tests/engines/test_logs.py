"""Logs of llama.cpp and Strata, of several ages. Expected figures are read off the lines."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import ServerFigures
from app.engines import find
from app.engines.base import LoggedRequest
from tests.replay import HERE

LLAMA, STRATA = find("llama.cpp").read_log, find("strata").read_log


def log(folder: str, name: str) -> str:
    return (HERE / "captures" / folder / f"{name}.txt").read_text()


def four(requests: LoggedRequest) -> tuple[int | None, float | None, int | None, float | None]:
    figures = requests.figures
    return figures.prompt_tokens, figures.prompt_ms, figures.output_tokens, figures.decode_ms


def test_llamacpp_of_all_ages() -> None:
    """Runs, INFO with ids behind, a header with the numbers below it, a router's prefix, JSON without ids."""
    requests = LLAMA(log("llama.cpp", "log-older-builds"))
    assert [four(request) for request in requests] == [
        (100, 500.0, 20, 400.0),
        (100, 250.0, 40, 800.0),
        (27, 789.03, 192, 16112.5),
        (None, None, 30, 600.0),
    ]
    assert [request.figures.draft_tokens for request in requests] == [None, None, 33, None]
    assert requests[2].figures.draft_accepted_tokens == 19


def test_llamacpp_of_today_with_interim_progress() -> None:
    requests = LLAMA(log("llama.cpp", "log"))
    assert [four(request) for request in requests[:3]] == [
        (186, 8028.19, 32, 39511.07),
        (5, 792.53, 32, 10856.88),
        (5, 1189.9, 32, 30280.94),
    ]
    # a single token takes no time after itself
    assert four(requests[3]) == (43, 6233.89, 1, None)


def test_llamacpp_slots_that_take_turns() -> None:
    text = """
0.46.1 I slot print_timing: id  0 | task 230 | prompt eval time =     769.81 ms /   300 tokens (x)
0.46.2 I slot print_timing: id  1 | task 253 | prompt eval time =    1624.20 ms /   600 tokens (x)
0.46.3 I slot print_timing: id  1 | task 253 |        eval time =     699.71 ms /    16 tokens (x)
0.47.1 I slot print_timing: id  0 | task 230 |        eval time =    3984.86 ms /    64 tokens (x)
"""
    assert [four(request) for request in LLAMA(text)] == [(600, 1624.2, 16, 699.71), (300, 769.81, 64, 3984.86)]


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[32mI \x1b[0mslot print_timing: id  0 | task 1 |        eval time =      50.00 ms /     6 tokens (x)",
        "[32mI [0mslot: eval time = 50.00 ms / 6 tokens",
        json.dumps({"msg": "eval time = 50.00 ms / 6 runs", "id_slot": 0, "id_task": 1}),
        "llama-1  | eval time =      50.00 ms /     6 runs   (   10.00 ms per token)",
    ],
)
def test_whatever_stands_around_it(line: str) -> None:
    assert [four(request) for request in LLAMA(f"noise\n{line}\r\nnoise")] == [(None, None, 6, 50.0)]


def test_what_looks_alike_is_none() -> None:
    for line in (
        "slot print_timing: id  0 | task 8 | prompt processing, n_tokens = 1496, t = 3.02 s / 495.31 tokens per second",
        "total time =    2323.92 ms /   616 tokens",
        "prompt eval time =    2323.92 ms /   616 tokens",
        "eval time = nan ms / x tokens",
        '{"msg": 5}',
        "{" * 3000,
    ):
        assert LLAMA(line) == []


def test_strata_pairs_the_hit_rate_with_the_request_before_it() -> None:
    whole, reusing, broken = STRATA(log("strata", "log"))
    assert whole == LoggedRequest(
        ServerFigures(
            prompt_tokens=214,
            prompt_ms=402.0,
            output_tokens=128,
            decode_ms=5716 * 127 / 128,
            draft_tokens=96,
            draft_accepted_tokens=41,
            expert_hit_share=69120 / 96768,
        ),
        prompt_tokens=214,
        cached_tokens=0,
        counts_beyond_end=True,
    )
    assert (reusing.prompt_tokens, reusing.cached_tokens, reusing.figures.prompt_tokens) == (2048, 1960, 88)
    assert reusing.figures.expert_hit_share == pytest.approx(85155 / 96768)
    # broken off after a half of its prompt, and no hit rate of its own
    assert (broken.prompt_tokens, four(broken)) == (8192, (4096, 9120.0, None, None))
    assert broken.figures.expert_hit_share is None


def test_a_hit_rate_without_its_request_belongs_to_nobody() -> None:
    lines = log("strata", "log").splitlines(keepends=True)
    assert STRATA("".join(lines[2:5])) == []
    assert STRATA("".join([lines[1], lines[2], lines[6]]))[0].figures.expert_hit_share == pytest.approx(69120 / 96768)


NOISE = st.text(max_size=80)
PREFIX = st.from_regex(r"(\[\d{1,5}\] )?(\d\.\d\d\.\d{3} [IWE] )?", fullmatch=True)
NUMBER = st.integers(2, 10**6)


@given(NOISE, st.sampled_from((LLAMA, STRATA)))
def test_any_text_is_read(text: str, read: object) -> None:
    assert callable(read)
    read(text)


@given(st.lists(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER, PREFIX), max_size=6), st.lists(NOISE, max_size=3))
def test_what_was_written_comes_back(rows: list[tuple[int, int, int, int, str]], noise: list[str]) -> None:
    noise = [request for request in noise if "eval time" not in request and not re.search(r"\bid", request)]
    text = ""
    for task, (prompt, prompt_ms, n, ms, prefix) in enumerate(rows):
        text += f"{prefix}slot print_timing: id  {task % 3} | task {task} |\n"
        text += f"{prefix}prompt eval time = {prompt_ms}.50 ms / {prompt} tokens (x)\n"
        text += f"{prefix}       eval time = {ms}.25 ms / {n} tokens (x)\n" + "\n".join(["", *noise, ""])
    expected = [(prompt, prompt_ms + 0.5, n, ms + 0.25) for prompt, prompt_ms, n, ms, _ in rows]
    assert [four(request) for request in LLAMA(text)] == expected


@given(st.lists(st.tuples(NUMBER, NUMBER, NUMBER, st.booleans()), max_size=6))
def test_stratas_two_lines_come_back(rows: list[tuple[int, int, int, bool]]) -> None:
    text = ""
    for prompt, n, lookups, has_hits in rows:
        text += (
            f"strata serve: prompt {prompt} tokens = 0 reused + {prompt} read in 9 ms (1.0 tok/s), "
            f"{n} generated in {n} ms (1.0 tok/s), drafts accepted 1 of 2, 1 checkpoints\n"
        )
        if has_hits:
            text += f"strata serve: decode expert cache hit rate: 50.0% ({lookups // 2} hits / {lookups} lookups)\n"
        text += "strata serve: token graph hit path\n"
    requests = [
        (request.prompt_tokens, request.figures.output_tokens, request.figures.expert_hit_share)
        for request in STRATA(text)
    ]
    assert requests == [(prompt, n, (lookups // 2) / lookups if has else None) for prompt, n, lookups, has in rows]
