"""The log of llama.cpp's server. Prefixes come and go between versions; the core of a line stays.

The numbers of one request are in one to four lines, whose ids stand in them or in the header before them. Interim
progress lines say "tokens per second" too, but not "eval time".
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from app.engines._log_lines import lines_of
from app.engines.base import Logged
from app.samples import ServerFigures

_TIME = re.compile(r"(prompt )?eval time\s*=\s*(\d+(?:\.\d+)?) ms /\s*(\d+) (?:tokens|runs)\b")
_DRAFTS = re.compile(r"draft acceptance(?: rate)?\s*=\s*[\d.]+ \(\s*(\d+) accepted /\s*(\d+) generated\)")
_ID = re.compile(r"\bid\s+(\d+) \| task (\d+)|\bid_slot=(\d+) id_task=(\d+)")


def read(text: str) -> Sequence[Logged]:
    """Requests in the order in which their decode times stand in the log."""
    prompts: dict[str, ServerFigures] = {}
    found: list[Logged] = []
    owners: list[str] = []
    header = ""
    for line in lines_of(text):
        if owner := _ID.search(line):
            header = "/".join(part for part in owner.groups() if part)
        if drafts := _DRAFTS.search(line):
            if found and owners[-1] == header:
                figures = replace(found[-1].figures, draft_accepted_tokens=int(drafts[1]), draft_tokens=int(drafts[2]))
                found[-1] = Logged(figures)
        elif times := _TIME.search(line):
            spent_ms, tokens = float(times[2]), int(times[3])
            if times[1]:
                prompts[header] = ServerFigures(prompt_tokens=tokens or None, prompt_ms=spent_ms or None)
            else:
                begun = prompts.pop(header, ServerFigures())
                found.append(Logged(replace(begun, output_tokens=tokens or None, decode_ms=spent_ms or None)))
                owners.append(header)
    return found
