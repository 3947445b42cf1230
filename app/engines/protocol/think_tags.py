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


_WORD = r"(?i:think|thinking|thoughts?|reason|reasoning|scratch_?pad|monologue)"
MARKERS = (
    # DeepSeek, Qwen, GLM, Phi, Nemotron, EXAONE, Granite, Hunyuan, Ernie, MiniMax, Reka; Seed-OSS, LongCat
    _Markers(rf"<((?:\w+[:_-])?{_WORD})>", r"</NAME>", rf"</(?:\w+[:_-])?{_WORD}>"),
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
    # MedGemma
    _Markers(r"<unused94>thought", r"<unused95>", r"<unused95>"),
    # Solar, which has no closing marker but one for the answer
    _Markers(rf"<\|({_WORD})\|>", r"<\|/NAME\|>|<\|content\|>", rf"<\|/{_WORD}\|>"),
    # gpt-oss: messages on several channels, of which the final one is the answer
    _Markers(
        r"(?:<\|start\|>assistant)?<\|channel\|>(?!final)",
        r"<\|channel\|>final(?:[^<]|<\|constrain\|>)*<\|message\|>",
        r"<\|channel\|>final(?:[^<]|<\|constrain\|>)*<\|message\|>",
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
            match = next((match for match in closes.finditer(text) if not _is_mention(text, match)), None)
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
            return _end_of_thought(text, opened, closes)
    return None


def _end_of_thought(text: str, opened: re.Match[str], closes: str) -> int:
    """Behind the marker that closes the first one, since thoughts may hold others."""
    name = re.escape(opened[1]) if opened.re.groups else ""
    closing = list(re.compile(closes.replace("NAME", name)).finditer(text, opened.end()))
    if not closing:
        return len(text)
    nested = re.compile(re.escape(opened[0].lstrip()) if name else _NEVER).finditer(text, opened.end())
    openings = [match.start() for match in nested if not _is_mention(text, match)]
    real = [match for match in closing if not _is_mention(text, match)] or closing[-1:]
    for closed, match in enumerate(real):
        if sum(opening < match.start() for opening in openings) <= closed:
            return match.end()
    return real[-1].end()


_CODE = "`"
_FENCE = "```"
_PAIRS = frozenset({"``", '""', "''", "“”", "‘’", "«»", "**", "()", "[]", "||"})
_AMID_PROSE = re.compile(r"[,.;:!?)]| [a-z]")


def _is_mention(text: str, marker: re.Match[str]) -> bool:
    """Whether a text about markers, or code, names it: a model that uses it begins something new behind it."""
    start, end = marker.span()
    before, behind = text[start - 1 : start], text[end : end + 1]
    if before + behind in _PAIRS or (before in ("", " ") and _AMID_PROSE.match(text, end)):
        return True
    if text.count(_FENCE, 0, start) % 2 and _FENCE in text[end:]:
        return True
    line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    is_in_code = text.count(_CODE, line_start, start) % 2 == 1
    return is_in_code and _CODE in text[end : None if line_end < 0 else line_end]
