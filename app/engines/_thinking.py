"""Thinking among the answer's own text: between markers, where a server has no parser for its model's reasoning."""

import re
from typing import NamedTuple


class _Markers(NamedTuple):
    """How a family of models sets its thinking apart."""

    opens: str
    """At the beginning of the text."""
    closes: str
    """What the answer follows; `NAME` stands for the opening marker's group."""
    closes_alone: str = ""
    """The closing marker where the chat template has opened the thinking, in the prompt; empty: none does."""


_WORD = r"(?i:think|thinking|thoughts?|reason|reasoning|scratchpad)"
MARKERS = (
    # DeepSeek, Qwen, GLM, Phi, Nemotron, EXAONE, Granite, Hunyuan, Ernie, MiniMax, Reka; Seed-OSS, LongCat
    _Markers(rf"<((?:\w+[:_])?{_WORD})>", r"</NAME>", rf"</(?:\w+[:_])?{_WORD}>"),
    # Magistral
    _Markers(rf"\[({_WORD})\]", r"\[/NAME\]", rf"\[/{_WORD}\]"),
    # Kimi
    _Markers(rf"◁({_WORD})▷", r"◁/NAME▷", rf"◁/{_WORD}▷"),
    # Cohere Command, OpenThinker
    _Markers(
        rf"<\|(?i:start|begin)_(?i:of_)?({_WORD})\|>",
        r"<\|(?i:end)_(?i:of_)?NAME\|>",
        rf"<\|(?i:end)_(?i:of_)?{_WORD}\|>",
    ),
    # Apertus
    _Markers(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>", r"<\|inner_suffix\|>"),
    # Gemma; a call of a tool ends the thinking as well
    _Markers(r"<\|channel>thought", r"<channel\|>|(?=<\|tool_call>)", r"<channel\|>"),
    # Solar
    _Markers(r"<\|think\|>", r"<\|content\|>"),
    # gpt-oss: messages on several channels, of which the final one is the answer
    _Markers(
        r"(?:<\|start\|>assistant)?<\|channel\|>(?!final)",
        r"<\|channel\|>final[^<]*<\|message\|>",
        r"<\|channel\|>final[^<]*<\|message\|>",
    ),
    # the same where the server leaves special tokens out
    _Markers(r"(?:analysis|commentary)(?=[A-Z\"'])", r"assistantfinal"),
    # Granite 3.2
    _Markers(r"Here(?:'s| is) my thought process:", r"Here(?:'s| is) my response:"),
)
"""All that is looked for."""

_OPENS = [(re.compile(r"\s*" + markers.opens), markers.closes) for markers in MARKERS]
_NEVER = r"(?!)"
# of words in brackets an answer may write by itself, of special tokens none does
_CLOSES_ALONE = [
    (re.compile(markers.closes_alone), re.compile(markers.opens if "NAME" in markers.closes else _NEVER))
    for markers in MARKERS
    if markers.closes_alone
]
_ANSWER_OPENS = re.compile(
    r"\s*(?:<(?i:answer|response|output)>|<\|(?i:start)_(?i:response|text)\|>|<\|begin_of_solution\|>"
    r"|<\|answer_prefix\|>)?\s*"
)
_ANSWER_CLOSES = re.compile(
    r"\s*(?:</(?i:answer|response|output)>|<\|(?i:end)_(?i:response|text)\|>|<\|end_of_solution\|>"
    r"|<\|answer_suffix\|>|<\|return\|>|<\|end\|>)\s*\Z"
)


def answer_span(text: str) -> tuple[int, int]:
    """Where the answer begins and ends, between the markers: all of the text where nothing was thought.

    While the thinking lasts, the answer is empty and at the end.

    >>> answer_span("<think> hm </think> Hi"), answer_span("hm </think> Hi"), answer_span("Hi")
    ((20, 22), (12, 14), (0, 2))
    >>> answer_span("<think> hm"), answer_span("Write <think> and </think> around it.")
    ((10, 10), (0, 37))
    """
    start = 0
    while (closed := _thought(text, start)) is not None:
        start = closed
    if start == 0:
        for closes, opens in _CLOSES_ALONE:
            match = closes.search(text)
            if match is not None and opens.search(text, 0, match.start()) is None:
                start = match.end()
                break
    if start == 0:
        return 0, len(text)
    opened = _ANSWER_OPENS.match(text, start)
    start = opened.end() if opened else start
    ended = _ANSWER_CLOSES.search(text, start)
    return start, ended.start() if ended else len(text)


def _thought(text: str, start: int) -> int | None:
    """Where the thinking ends that begins at `start`; None where there is none."""
    for opens, closes in _OPENS:
        if (opened := opens.match(text, start)) is not None:
            name = re.escape(opened[1]) if opens.groups else ""
            closed = re.compile(closes.replace("NAME", name)).search(text, opened.end())
            return len(text) if closed is None else closed.end()
    return None
