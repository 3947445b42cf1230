"""Strata's log: each request in one line, and in the next one how often its cache of experts hit.

Other lines with "hit" are about something else. A request that was broken off has processed a part of its prompt. The
line counts all tokens that the engine made and the time of all its steps, the one that read the end of the prompt too.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.core.samples import ServerFigures
from app.engines.base import LoggedRequest
from app.engines.protocol.log_lines import NUMBER, decimal, lines_of

_REQUEST = re.compile(
    rf"prompt (?P<prompt>\d+) tokens = (?P<reused>\d+) reused \+ (?P<fresh>\d+)(?: of \d+)? "
    rf"read in (?P<prompt_ms>{NUMBER}) ms \([^)]*\), (?P<output>\d+) generated in (?P<decode_ms>{NUMBER}) ms \([^)]*\)"
    rf"(?:, drafts accepted (?P<accepted>\d+) of (?P<drafted>\d+))?"
)
_HITS = re.compile(rf"decode expert cache hit rate: {NUMBER}% \((?P<hits>\d+) hits / (?P<lookups>\d+) lookups\)")


def read_requests(
    text: str, decode_span_ms: Callable[[float | None, int | None], float | None]
) -> Sequence[LoggedRequest]:
    """The requests in a piece of the log; `decode_span_ms` is the engine's (see `Engine`)."""
    requests: list[LoggedRequest] = []
    is_request_last = False
    for line in lines_of(text):
        if match := _REQUEST.search(line):
            requests.append(_request(match, decode_span_ms))
            is_request_last = True
        elif match := _HITS.search(line):
            lookups = int(match["lookups"])
            if is_request_last and lookups > 0:
                hit_share = min(1.0, int(match["hits"]) / lookups)
                requests[-1] = replace(requests[-1], figures=replace(requests[-1].figures, expert_hit_share=hit_share))
            is_request_last = False
    return requests


def _request(match: re.Match[str], decode_span_ms: Callable[[float | None, int | None], float | None]) -> LoggedRequest:
    output = int(match["output"])
    return LoggedRequest(
        ServerFigures(
            prompt_tokens=int(match["fresh"]) or None,
            prompt_ms=decimal(match["prompt_ms"]) or None,
            output_tokens=output or None,
            decode_ms=decode_span_ms(decimal(match["decode_ms"]) or None, output),
            draft_tokens=None if match["drafted"] is None else int(match["drafted"]),
            draft_accepted_tokens=None if match["accepted"] is None else int(match["accepted"]),
        ),
        prompt_tokens=int(match["prompt"]) or None,
        cached_tokens=int(match["reused"]),
        counts_beyond_end=True,
    )
