"""The text of an answer while it arrives, however it is cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engines.protocol.live_text import LiveText
from app.engines.protocol.trace_builder import Dialect


def chunk(text: str, **more: object) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": {"content": text}}], **more}).encode()


WORDS = ["Once", " upon", " a <b>time</b>", "\n\n", "data: ", "\u2028ünïcode"]


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\n"])
@given(cuts=st.lists(st.integers(0, 600), max_size=20))
def test_pieces_give_the_same_text_however_they_are_cut(end: str, cuts: list[int]) -> None:
    body = b"".join(b"data: " + chunk(word) + end.encode() for word in WORDS) + b"data: [DONE]\n\n"
    live, places = LiveText(), [0, *sorted(cuts), len(body)]
    text = "".join(live.feed(body[start:stop]) for start, stop in pairwise(places))
    assert text == "".join(WORDS)
    assert live.tokens == len(WORDS)


def test_a_servers_own_count_is_taken_where_it_states_one() -> None:
    live = LiveText()
    live.feed(b"data: " + chunk("several tokens at once", usage={"prompt_tokens": 3, "completion_tokens": 4}) + b"\n\n")
    assert live.tokens == 4


def test_reasoning_is_text_too_and_garbage_is_none() -> None:
    live = LiveText()
    delta = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]}
    body = b": still here\n\ndata: {broken\n\ndata: [1]\n\ndata: " + json.dumps(delta).encode() + b"\n\n"
    assert live.feed(body) == "Hm."
    assert live.tokens == 1


def test_json_lines_are_read_by_the_dialect_of_the_engine() -> None:
    live = LiveText(Dialect(lambda value: {"choices": [{"index": 0, "delta": {"content": value["w"]}}]}))
    assert live.feed(b'{"w": "a"}\n{"w": "b') == "a"
    assert live.feed(b'c"}\n') == "bc"
    assert live.tokens == 2
