"""Reasoning whatever its shape: parts of the content, markers in the text, tokens that are only counted."""

import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import CountSource, Kind, Trace, Workload
from app.engines.protocol.think_tags import MARKERS, answer_span
from app.metrics import flags_of, metrics
from tests.engines.streams import chunk, read, sha256, sse
from tests.traces import sample

HARMONY = "<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>", "<|return|>"
FAMILIES = {
    "DeepSeek": ("<think>\n", "\n</think>\n\n", ""),
    "Nemotron, thinking off": ("<think>", "</think>", ""),
    "Claude-like": ("<thinking>", "</thinking>", ""),
    "EXAONE Deep": ("<thought>\n", "\n</thought>\n\n", ""),
    "Marco": ("<Thought>", "</Thought>\n<Output>", "</Output>"),
    "Reka": ("<reasoning>", "</reasoning>", ""),
    "Seed-OSS": ("<seed:think>", "</seed:think>", ""),
    "LongCat": ("<longcat_think>", "</longcat_think>", ""),
    "Hunyuan": ("<think>\n", "\n</think>\n<answer>\n", "\n</answer>"),
    "Ernie": ("<think>\n", "\n</think>\n\n<response>\n", "\n</response>\n"),
    "Magistral": ("[THINK]", "[/THINK]", ""),
    "Kimi": ("◁think▷", "◁/think▷", ""),
    "Cohere": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>", "<|END_RESPONSE|>"),
    "OpenThinker": ("<|begin_of_thought|>", "<|end_of_thought|>\n<|begin_of_solution|>", "<|end_of_solution|>"),
    "Apertus": ("<|inner_prefix|>", "<|inner_suffix|>", ""),
    "Gemma": ("<|channel>thought\n", "<channel|>", ""),
    "MedGemma": ("<unused94>thought\n", "<unused95>", ""),
    "Hermes 3": ("<SCRATCH_PAD>\n", "\n</SCRATCH_PAD>\n", ""),
    "with a hyphen": ("<deep-think>", "</deep-think>", ""),
    "special tokens of one word": ("<|thinking|>", "<|/thinking|>", ""),
    "Solar": ("<|think|>", "<|end|><|begin|>assistant<|content|>", ""),
    "gpt-oss": HARMONY,
    "gpt-oss, in whole": ("<|start|>assistant" + HARMONY[0], *HARMONY[1:]),
    "gpt-oss, two channels": (
        HARMONY[0],
        f"<|end|><|start|>assistant<|channel|>commentary<|message|>x{HARMONY[1]}",
        "",
    ),
    "gpt-oss, in JSON": (HARMONY[0], "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>", ""),
    "gpt-oss without special tokens": ("analysis", "assistantfinal", ""),
    "Granite 3.2": ("Here is my thought process:\n", "\nHere is my response:\n", ""),
}
"""Opening, closing, and what follows the answer."""
PREOPENED = set(FAMILIES) - {"Solar", "gpt-oss without special tokens", "Granite 3.2"}


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in pairwise(places)]


def streamed(*contents: Any, **usage: Any) -> Trace:
    """Every content an event, 1 ms apart."""
    deltas = [json.dumps({"choices": [{"index": 0, "delta": {"content": content}}]}).encode() for content in contents]
    last = [chunk(finish="stop"), chunk(usage=usage)] if usage else [chunk(finish="stop")]
    return read(*(sse(delta) for delta in deltas), sse(*last, b"[DONE]"))


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("family", FAMILIES)
@given(cuts=st.lists(st.integers(0, 500), max_size=40))
def test_thinking_between_any_markers_is_no_answer_however_the_events_cut_it(family: str, cuts: list[int]) -> None:
    opens, closes, after = FAMILIES[family]
    before = f"{opens}First this, then that.{closes}"
    contents = pieces(f"{before}Hello there.{after}", cuts)
    trace = streamed(*contents)
    assert trace.text_sha256 == hashed("Hello there.")
    end = 0
    for content, event in zip(contents, trace.token_events, strict=True):
        end += len(content)
        assert event.kind is (Kind.REASONING if end <= len(before) else Kind.ANSWER)


@pytest.mark.parametrize("family", sorted(PREOPENED))
def test_a_template_may_have_opened_it(family: str) -> None:
    _, closes, after = FAMILIES[family]
    start, end = answer_span(text := f"First this.{closes}Hello.{after}")
    assert text[start:end] == "Hello."


@pytest.mark.parametrize("family", FAMILIES)
def test_who_still_thinks_has_not_answered(family: str) -> None:
    trace = streamed(FAMILIES[family][0], "First this", " and then")
    assert trace.text_sha256 in (None, sha256(""))
    assert {event.kind for event in trace.token_events} == {Kind.REASONING}


@pytest.mark.parametrize(
    "text",
    [
        "Hello.",
        "",
        "  Hello.",
        "Use <think> and </think>.",
        "analysis of it",
        "A [THINK] and a [/THINK].",
        "<answer>Hello</answer>",
        "Write <|channel|>final behind it.",
        "The model ends with `</think>`, then answers.",
        "Models emit </think> at the end of their thoughts.",
        'Split it:\n```python\nanswer = text.split("x</think>")[1]\nprint(answer)\n```\nDone.',
        "It ends with [/THINK] in Mistral models.",
        "The `<|channel|>final<|message|>` marker starts the answer.",
        "`</think>` is the closing tag.",
        "const END = '<|channel|>final<|message|>';",
        "Gemma writes `thought<channel|>` there.",
        "“</think>” is its name, **</think>** its weight.",
        "|tag|\n|---|\n|</think>|\n",
    ],
)
def test_an_answer_without_thinking_is_whole(text: str) -> None:
    assert answer_span(text) == (0, len(text))


def test_several_thoughts_in_a_row_are_none_of_the_answer() -> None:
    start, end = answer_span(text := "<think>a</think>\n<think>b</think>\nHi")
    assert text[start:end] == "Hi"


@pytest.mark.parametrize(
    "thoughts",
    [
        "<think>a <think>b</think> c</think>\n",
        "<think>\n<think>\na</think>",
        "<think>They ask about the <think> tag.</think>",
        "<think>I could write `</think>` now.</think>",
        '<think>Split at "</think>", then.\n</think>\n\n',
        "They ask about `</think>`.\n</think>\n\n",
        '<think>Say "Hi"</think>',
    ],
)
def test_markers_within_thoughts_end_them_no_earlier(thoughts: str) -> None:
    start, end = answer_span(text := f"{thoughts}Hi")
    assert text[start:end] == "Hi"


def test_the_table_of_markers_has_a_family_for_each_line() -> None:
    assert len(MARKERS) <= len(FAMILIES)


@pytest.mark.parametrize(
    ("content", "kind", "size_bytes"),
    [
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]}], Kind.REASONING, 3),
        ([{"type": "thinking", "thinking": "hmm"}], Kind.REASONING, 3),
        ([{"type": "reasoning", "text": "hmm"}], Kind.REASONING, 3),
        ([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hmm"}]}], Kind.REASONING, 3),
        ([{"type": "reasoning.text", "text": "hmm"}], Kind.REASONING, 3),
        ([{"thought": True, "text": "hmm"}], Kind.REASONING, 3),
        ([{"text": "Hi"}], Kind.ANSWER, 2),
        ([{"type": "output_text", "text": "Hi"}], Kind.ANSWER, 2),
        ([{"type": "text", "text": {"value": "Hi"}}], Kind.ANSWER, 2),
        (["Hi"], Kind.ANSWER, 2),
        ({"type": "text", "text": "Hi"}, Kind.ANSWER, 2),
        ([{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "Hi"}], Kind.ANSWER, 5),
    ],
)
def test_parts_of_the_content(content: Any, kind: Kind, size_bytes: int) -> None:
    (event,) = streamed(content).token_events
    assert (event.kind, event.size_bytes) == (kind, size_bytes)


@pytest.mark.parametrize(
    "content", [[], [{}], [{"type": "thinking"}], {}, [[]], [None], 5, [{"type": "text", "text": ""}]]
)
def test_parts_without_text_are_no_token(content: Any) -> None:
    assert streamed(content).token_events == ()


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning": "hmm", "reasoning_details": [{"type": "reasoning.text", "text": "hmm"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hmm"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "hmm"}]},
        {"reasoning": {"content": "hmm"}},
    ],
)
def test_the_same_reasoning_in_two_fields_counts_once(delta: Any) -> None:
    trace = read(sse(json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode(), chunk(finish="stop"), b"[DONE]"))
    (event,) = trace.token_events
    assert (event.kind, event.size_bytes) == (Kind.REASONING, 3)


def test_the_end_of_a_thinking_answer_in_one_body() -> None:
    content = [{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "Hi"}]
    body = {"object": "chat.completion", "choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    assert read(json.dumps(body).encode()).text_sha256 == hashed("Hi")


# --- counts ----------------------------------------------------------------------------------------------------------

THOUGHTS = ["<think>", *[" so"] * 6, "</think>"]
SEEN = [*THOUGHTS, *[" word"] * 32]


def counted(contents: list[str], details: int | None = None, **usage: Any) -> Trace:
    more = {} if details is None else {"completion_tokens_details": {"reasoning_tokens": details}}
    return streamed(*contents, prompt_tokens=600, **usage, **more)


@pytest.mark.parametrize(
    ("contents", "usage", "n", "reasoning"),
    [
        (SEEN, {"completion_tokens": 40, "total_tokens": 640, "details": 8}, 40, 8),
        (SEEN, {"completion_tokens": 32, "total_tokens": 640, "details": 8}, 40, 8),
        (SEEN, {"completion_tokens": 32, "total_tokens": 640}, 40, 8),
        (SEEN, {"completion_tokens": 32, "details": 8}, 40, 8),
        (SEEN, {"completion_tokens": 32, "total_tokens": 632, "details": 8}, 40, 8),
        (SEEN[8:], {"completion_tokens": 32, "total_tokens": 632, "details": 8}, 32, 8),
        (SEEN[8:], {"completion_tokens": 32, "total_tokens": 732, "details": 100}, 132, 100),
        (SEEN[8:], {"completion_tokens": 32, "total_tokens": 632, "details": 100}, 132, 100),
        (SEEN[8:], {"completion_tokens": 32, "details": 100}, 132, 100),
        (SEEN[8:], {"completion_tokens": 32, "total_tokens": 0}, 32, None),
        (SEEN, {"total_tokens": 640}, 40, None),
        (SEEN, {"completion_tokens": 0, "total_tokens": 640}, 40, None),
        ([" four words in one"] * 10, {"total_tokens": 640}, 40, None),
        (SEEN, {"completion_tokens": 40, "total_tokens": 700}, 40, None),
        (["<think>", " so" * 8, "</think>", " word" * 40], {"completion_tokens": 50, "total_tokens": 800}, 50, None),
        (SEEN[:16], {"completion_tokens": 8, "total_tokens": 608, "details": 8}, 16, 8),
        (THOUGHTS, {"completion_tokens": 8, "total_tokens": 608, "details": 8}, 8, 8),
        (SEEN[8:], {"completion_tokens": 32, "total_tokens": 932, "prompt_cache_hit_tokens": 300}, 32, None),
    ],
)  # fmt: skip
def test_output_tokens_hold_the_reasoning(contents: list[str], usage: Any, n: int, reasoning: int | None) -> None:
    trace = counted(contents, **usage)
    assert (trace.output_tokens, trace.reasoning_tokens) == (n, reasoning)
    assert trace.count_source is CountSource.USAGE


def test_sums_and_events_that_do_not_agree_are_flagged() -> None:
    def flags(trace: Trace) -> tuple[str, ...]:
        return flags_of(sample(replace(trace, cached_tokens=0), point=Workload(512, 40)))

    assert "count_mismatch" not in flags(counted(SEEN, completion_tokens=32, total_tokens=640, details=8))
    assert "count_mismatch" in flags(counted(SEEN, completion_tokens=20, total_tokens=626, details=6))
    assert "count_mismatch" in flags(counted(SEEN, completion_tokens=32, total_tokens=632, details=8))
    assert "count_mismatch" in flags(counted(SEEN[8:], completion_tokens=32, total_tokens=632, details=100))


def test_reasoning_that_is_only_counted_is_in_no_speed() -> None:
    answer = sample(counted(SEEN[8:], completion_tokens=132, total_tokens=732, details=100), point=Workload(512, 132))
    (decode,) = metrics()["decode_tokens_per_s"].read([answer])
    assert decode.value == pytest.approx(1000)  # 31 steps of 1 ms
