"""The log of llama.cpp's server. Prefixes come and go between versions; the core of a line stays.

The numbers of one request are in one to four lines, whose ids stand in them or in the header before them. Interim
progress lines say "tokens per second" too, but not "eval time". Several slots write into one log: a line without an id
belongs to the header before it only while no line of another request has come between.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.core.samples import ServerFigures
from app.engines.base import Logged
from app.engines.protocol.log_lines import NUMBER, decimal, lines_of

_TIME = re.compile(rf"(prompt )?eval time\s*=\s*({NUMBER}) ms /\s*(\d+) (?:tokens|runs)\b")
_DRAFTS = re.compile(rf"draft acceptance(?: rate)?\s*=\s*{NUMBER} \(\s*(\d+) accepted /\s*(\d+) generated\)")
_ID = re.compile(r"\bid\s+(\d+) \| task (\d+)|\bid_slot=(\d+) id_task=(\d+)")
_HEADER = re.compile(r"print_timing")
_BEGIN = re.compile(r"launch_slot_|processing task")
_END = re.compile(r"\brelease\b|stop processing")


def read(text: str) -> Sequence[Logged]:
    """Requests in the order in which their decode times stand in the log."""
    reading = _Reading()
    for line in lines_of(text):
        reading.add(line)
    return reading.requests


@dataclass
class _Reading:
    requests: list[Logged] = field(default_factory=list)
    _owners: list[str] = field(default_factory=list)
    """Slot and task of each request; empty where the log has no ids."""
    _prompts: dict[str, ServerFigures] = field(default_factory=dict)
    _at_work: set[str] = field(default_factory=set)
    _overlapping: set[str] = field(default_factory=set)
    _header: str = ""
    _is_header_interrupted: bool = False

    def add(self, line: str) -> None:
        ids, times = _ID.search(line), _TIME.search(line)
        drafts = _DRAFTS.search(line)
        if ids is not None:
            self._seen("/".join(part for part in ids.groups() if part), line, has_figures=bool(times or drafts))
        is_told_apart = ids is not None or not self._is_header_interrupted
        if times is not None:
            self._time(times, is_told_apart)
        elif drafts is not None and is_told_apart and self.requests and self._owners[-1] == self._header:
            figures = replace(
                self.requests[-1].figures, draft_accepted_tokens=int(drafts[1]), draft_tokens=int(drafts[2])
            )
            self.requests[-1] = replace(self.requests[-1], figures=figures)

    def _seen(self, owner: str, line: str, *, has_figures: bool) -> None:
        if _END.search(line) and not has_figures:
            self._at_work.discard(owner)
        elif has_figures or _BEGIN.search(line):
            self._work(owner)
        if has_figures or _HEADER.search(line) or owner == self._header:
            self._is_header_interrupted = False
            self._header = owner
        elif self._header:
            self._is_header_interrupted = True
        else:
            self._header = owner

    def _work(self, owner: str) -> None:
        slot = owner.partition("/")[0]
        self._at_work = {other for other in self._at_work if other.partition("/")[0] != slot}  # it has ended unseen
        if self._at_work:
            self._overlapping |= {owner, *self._at_work}
        self._at_work.add(owner)

    def _time(self, times: re.Match[str], is_told_apart: bool) -> None:
        owner, spent_ms, tokens = self._header, decimal(times[2]), int(times[3])
        if times[1]:
            if owner in self._prompts or not is_told_apart:  # a second one before the answer to the first
                self._overlapping.add(owner)
            self._work(owner)
            self._prompts[owner] = ServerFigures(prompt_tokens=tokens or None, prompt_ms=spent_ms or None)
            return
        prompt = self._prompts.pop(owner, ServerFigures())
        is_mixed = not is_told_apart or (not owner and owner in self._overlapping)
        overlaps = owner in self._overlapping or bool(self._at_work - {owner})
        figures = replace(
            # whose prompt it was cannot be told
            ServerFigures() if is_mixed else prompt,
            output_tokens=tokens or None,
            decode_ms=None if is_mixed else spent_ms or None,
        )
        self.requests.append(Logged(figures, overlaps=overlaps or is_mixed))
        self._owners.append(owner)
        self._at_work.discard(owner)
        if owner:
            self._overlapping.discard(owner)
