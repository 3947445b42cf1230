"""The log of Strata: a request in one line, and in the next one how often its cache of experts hit.

Other lines that hold "hit" are about something else. A request that was broken off has read a part of its prompt.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from app.core.samples import ServerFigures
from app.engines.base import Logged
from app.engines.protocol.log_lines import NUMBER, decimal, lines_of

_REQUEST = re.compile(
    rf"prompt (\d+) tokens = (\d+) reused \+ (\d+)(?: of (\d+))? read in ({NUMBER}) ms \([^)]*\), "
    rf"(\d+) generated in ({NUMBER}) ms \([^)]*\)(?:, drafts accepted (\d+) of (\d+))?"
)
_HITS = re.compile(rf"decode expert cache hit rate: {NUMBER}% \((\d+) hits / (\d+) lookups\)")


def read(text: str) -> Sequence[Logged]:
    found: list[Logged] = []
    is_request_last = False
    for line in lines_of(text):
        if request := _REQUEST.search(line):
            found.append(_request(*request.groups()))
            is_request_last = True
        elif hits := _HITS.search(line):
            if is_request_last and int(hits[2]) > 0:
                figures = replace(found[-1].figures, expert_hit_share=min(1.0, int(hits[1]) / int(hits[2])))
                found[-1] = replace(found[-1], figures=figures)
            is_request_last = False
    return found


def _request(*parts: str | None) -> Logged:
    prompt, reused, read_, _, read_ms, made, made_ms, accepted, offered = parts
    n, spent_ms = int(made or 0), decimal(made_ms or "0")
    return Logged(
        ServerFigures(
            prompt_tokens=int(read_ or 0) or None,
            prompt_ms=decimal(read_ms or "0") or None,
            output_tokens=n or None,
            # its time holds n tokens, not n - 1
            decode_ms=spent_ms * (n - 1) / n if n > 1 and spent_ms else None,
            draft_tokens=None if offered is None else int(offered),
            draft_accepted_tokens=None if accepted is None else int(accepted),
        ),
        prompt_tokens=int(prompt or 0) or None,
        cached_tokens=int(reused or 0),
    )
