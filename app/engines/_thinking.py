"""Thinking among the answer's own text: a server without a parser for its model's reasoning sends it between tags."""

import re

_OPENED = re.compile(r"\s*(?:<(think|thinking|thought|reasoning|seed:think)>|\[(THINK)\])")
# some chat templates open it in the prompt already
_CLOSED = re.compile(r"</think>\s*")


def answer_start(text: str) -> int:
    """Where the answer begins, behind the thinking and its tags: 0 where nothing was thought, the end while it lasts.

    >>> answer_start("<think> hm </think> Hi"), answer_start("hm </think> Hi"), answer_start("Hi")
    (20, 12, 0)
    >>> answer_start("<think> hm"), answer_start("Write <think> and </think> around it.")
    (10, 0)
    """
    if opened := _OPENED.match(text):
        close = f"</{opened[1]}>" if opened[1] else f"[/{opened[2]}]"
        closed = re.compile(re.escape(close) + r"\s*").search(text, opened.end())
        return len(text) if closed is None else closed.end()
    found = _CLOSED.search(text)
    return 0 if found is None or "<think>" in text[: found.start()] else found.end()
