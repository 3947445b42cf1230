"""The log of llama.cpp's server: the requests in it, and where a model was placed while it was loaded.

Prefixes come and go between versions; the core of a line stays. The numbers of one request are in one to four lines,
with its ids in them or in the header before them. Progress lines say "tokens per second" too, but not "eval time".
Several slots write into one log: a line without an id belongs to the header before it only while no line of another
request has come between.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.core.samples import ServerFigures
from app.engines.base import LoggedModelLoad, LoggedRequest
from app.engines.protocol.log_lines import NUMBER, decimal, lines_of

_TIME = re.compile(rf"(prompt )?eval time\s*=\s*({NUMBER}) ms /\s*(\d+) (?:tokens|runs)\b")
_DRAFTS = re.compile(rf"draft acceptance(?: rate)?\s*=\s*{NUMBER} \(\s*(\d+) accepted /\s*(\d+) generated\)")
_ID = re.compile(r"\bid\s+(\d+) \| task (\d+)|\bid_slot=(\d+) id_task=(\d+)")
_HEADER = re.compile(r"print_timing")
_BEGIN = re.compile(r"launch_slot_|processing task")
_END = re.compile(r"\breleased?\b|stop processing")

_MODEL = re.compile(r"loaded meta data with .* tensors from (.+?)(?: \(version [^()]*(?:\([^()]*\))?\))?\s*$")
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
_BUFFER = re.compile(r"(\S+)\s+(model|KV) buffer size\s*=\s*(\d+(?:[.,]\d+)?) MiB")
# ik_llama.cpp and old builds do not say what is in a buffer of weights
_WEIGHTS = re.compile(r"llm_load_tensors:\s+(\S+) buffer size\s*=\s*(\d+(?:[.,]\d+)?) MiB")
_OVERRIDDEN = re.compile(r"[Tt]ensor blk\.(\d+)\.ffn_\w*exps\S* \(.*?\) buffer type overridden to (\S+)")


def read_requests(text: str) -> Sequence[LoggedRequest]:
    """The requests in a piece of log, in the order of their decode times."""
    reader = _RequestReader()
    for line in lines_of(text):
        reader.add(line)
    return reader.requests


@dataclass
class _RequestReader:
    requests: list[LoggedRequest] = field(default_factory=list)
    _owners: list[str] = field(default_factory=list)
    """Slot and task of each request; empty where the log has no ids."""
    _prompts: dict[str, ServerFigures] = field(default_factory=dict)
    _at_work: set[str] = field(default_factory=set)
    _overlapping: set[str] = field(default_factory=set)
    _header: str = ""
    _is_header_interrupted: bool = False

    def add(self, line: str) -> None:
        ids, times, drafts = _ID.search(line), _TIME.search(line), _DRAFTS.search(line)
        if ids is not None:
            self._add_ids("/".join(part for part in ids.groups() if part), line, has_figures=bool(times or drafts))
        has_owner = ids is not None or not self._is_header_interrupted
        if times is not None:
            self._add_time(times, has_owner)
        elif drafts is not None and has_owner and self.requests and self._owners[-1] == self._header:
            figures = replace(
                self.requests[-1].figures, draft_accepted_tokens=int(drafts[1]), draft_tokens=int(drafts[2])
            )
            self.requests[-1] = replace(self.requests[-1], figures=figures)

    def _add_ids(self, owner: str, line: str, *, has_figures: bool) -> None:
        if _END.search(line) and not has_figures:
            self._at_work.discard(owner)
        elif has_figures or _BEGIN.search(line):
            self._begin(owner)
        if has_figures or _HEADER.search(line) or owner == self._header or not self._header:
            self._is_header_interrupted = False
            self._header = owner
        else:
            self._is_header_interrupted = True

    def _begin(self, owner: str) -> None:
        slot = owner.partition("/")[0]
        # the end of an earlier request in the same slot may not have been logged
        self._at_work = {running for running in self._at_work if running.partition("/")[0] != slot}
        if self._at_work:
            self._overlapping |= {owner, *self._at_work}
        self._at_work.add(owner)

    def _add_time(self, times: re.Match[str], has_owner: bool) -> None:
        owner, duration_ms, tokens = self._header, decimal(times[2]), int(times[3])
        if times[1]:
            if owner in self._prompts or not has_owner:  # a second one before the answer to the first
                self._overlapping.add(owner)
            self._begin(owner)
            self._prompts[owner] = ServerFigures(prompt_tokens=tokens or None, prompt_ms=duration_ms or None)
            return
        prompt = self._prompts.pop(owner, ServerFigures())
        is_mixed = not has_owner or (not owner and owner in self._overlapping)
        overlaps = owner in self._overlapping or bool(self._at_work - {owner})
        figures = replace(
            # in a mixed log the prompt may be another request's
            ServerFigures() if is_mixed else prompt,
            output_tokens=tokens or None,
            decode_ms=None if is_mixed else duration_ms or None,
        )
        self.requests.append(LoggedRequest(figures, overlaps=overlaps or is_mixed))
        self._owners.append(owner)
        self._at_work.discard(owner)
        if owner:
            self._overlapping.discard(owner)


def read_loads(text: str) -> Sequence[LoggedModelLoad]:
    """The model loads in a piece of log, oldest first, also those that only try whether the model fits."""
    loads = [_Load()]
    for line in lines_of(text):
        if match := _MODEL.search(line):
            loads.append(_Load(model_path=match[1]))
        elif match := _OFFLOADED.search(line):
            if loads[-1].layers is not None:
                loads.append(_Load(model_path=loads[-1].model_path))
            loads[-1].layers = int(match[1]), int(match[2])
        elif match := _OVERRIDDEN.search(line):
            if is_host(match[2]):
                loads[-1].expert_blocks_in_ram.add(int(match[1]))
        elif match := _BUFFER.search(line):
            sizes = loads[-1].model_mib if match[2] == "model" else loads[-1].kv_mib
            sizes[match[1]] = float(match[3].replace(",", "."))
        elif match := _WEIGHTS.search(line):
            loads[-1].model_mib[match[1]] = float(match[2].replace(",", "."))
    return [load.freeze() for load in loads if not load.is_empty]


def is_host(buffer: str) -> bool:
    """Whether a buffer is in system memory: `CPU`, `CPU_Mapped`, `CPU_REPACK`, `CUDA_Host`."""
    return buffer.upper().startswith("CPU") or "HOST" in buffer.upper()


@dataclass
class _Load:
    model_path: str | None = None
    layers: tuple[int, int] | None = None
    """On GPUs, and all."""
    model_mib: dict[str, float] = field(default_factory=dict)
    kv_mib: dict[str, float] = field(default_factory=dict)
    expert_blocks_in_ram: set[int] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return self.layers is None and not self.model_mib

    def freeze(self) -> LoggedModelLoad:
        has_kv_on_gpu = any(mib for buffer, mib in self.kv_mib.items() if not is_host(buffer))
        return LoggedModelLoad(
            model_path=self.model_path,
            gpu_layers=self.layers[0] if self.layers else None,
            layers=self.layers[1] if self.layers else None,
            gpu_weight_mib={buffer: mib for buffer, mib in self.model_mib.items() if not is_host(buffer)},
            expert_blocks_in_ram=frozenset(self.expert_blocks_in_ram),
            is_kv_in_ram=bool(self.kv_mib) and not has_kv_on_gpu,
        )
