"""What llama.cpp's log says while a model loads: where its weights and its KV cache lie."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.engines.base import Loaded
from app.engines.protocol.log_lines import lines_of

_MODEL = re.compile(r"loaded meta data with .* tensors from (.+?)(?: \(version [^()]*(?:\([^()]*\))?\))?\s*$")
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
_BUFFER = re.compile(r"(\S+)\s+(model|KV) buffer size\s*=\s*(\d+(?:[.,]\d+)?) MiB")
_OVERRIDDEN = re.compile(r"tensor blk\.(\d+)\.ffn_\w*exps\S* \(.*?\) buffer type overridden to (\S+)")


@dataclass
class _Load:
    model_path: str | None = None
    layers: tuple[int, int] | None = None
    model_mib: dict[str, float] = field(default_factory=dict)
    kv_mib: dict[str, float] = field(default_factory=dict)
    expert_blocks_in_ram: set[int] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return self.layers is None and not self.model_mib


def read_loads(text: str) -> Sequence[Loaded]:
    """Oldest first. A model that is loaded twice, as to try whether it fits, is there twice."""
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
    return [_loaded(load) for load in loads if not load.is_empty]


def is_host(buffer: str) -> bool:
    """`CPU`, `CPU_Mapped`, `CPU_REPACK`, `CUDA_Host`: system memory, whoever reads it."""
    return buffer.upper().startswith("CPU") or "HOST" in buffer.upper()


def _loaded(load: _Load) -> Loaded:
    on_cards = {name: mib for name, mib in load.model_mib.items() if not is_host(name)}
    kv_on_cards = any(mib for name, mib in load.kv_mib.items() if not is_host(name))
    return Loaded(
        model_path=load.model_path,
        gpu_layers=load.layers[0] if load.layers else None,
        layers=load.layers[1] if load.layers else None,
        gpu_weight_mib=on_cards,
        expert_blocks_in_ram=frozenset(load.expert_blocks_in_ram),
        is_kv_in_ram=bool(load.kv_mib) and not kv_on_cards,
    )
