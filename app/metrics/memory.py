"""Memory used, for machines whose sensors report it: on GPUs, and by the server's processes."""

import re
from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics.base import Metric, Reading, Term
from app.metrics.sensors import IDLE_PERCENT

_GPU_MEMORY = re.compile(r"(gpu\d+)\.memory_used_bytes")
SERVER_MEMORY = "server_memory_bytes"
"""The name of the sensor that reads the memory of the server's processes."""
MEMORY_METRICS = ("gpu_memory_gb", "server_memory_gb")
_GB = 1e9


def read_gpu_memory(streams: Sequence[Sample]) -> Sequence[Reading]:
    """Reads the peak of what the GPUs that worked hold together; there is no reading where none reports it."""
    values = streams[0].sensors.get("values", {})
    columns = []
    for name, readings in values.items():
        if (match := _GPU_MEMORY.fullmatch(name)) is None:
            continue
        loads = [load for load in values.get(f"{match[1]}.load_percent", ()) if load is not None]
        if not loads or max(loads) > IDLE_PERCENT:
            columns.append(readings)
    return _peak(columns)


def read_server_memory(streams: Sequence[Sample]) -> Sequence[Reading]:
    """Reads the peak of what the server's processes hold in system memory; none where it is not on this machine."""
    column = streams[0].sensors.get("values", {}).get(SERVER_MEMORY)
    return _peak([column] if column else [])


def _peak(columns: Sequence[Sequence[float | None]]) -> Sequence[Reading]:
    """Returns the highest sum of the columns at one moment; moments at which one of them is unknown do not count."""
    sums = [sum(filter(None, row)) for row in zip(*columns, strict=False) if None not in row]
    return [Reading("sensor", max(sums) / _GB)] if sums else []


_TERM = Term(
    "memory-used",
    "Memory used",
    "The most memory that was in use while a request was answered: on the GPUs that worked, with what other "
    "programs keep there, and in system memory by the processes of the server.",
    "peak of the sensor's readings, GB = 1e9 bytes",
    "engine",
)

METRICS = (
    Metric(
        key="gpu_memory_gb",
        title="GPU memory used",
        unit="GB",
        better="lower",
        order=90,
        alias="vram",
        explanation="The most that the GPUs which worked held during a request, with what other programs keep there.",
        round_formula=read_gpu_memory,
        assumed_run_deviation=0.01,
        term=_TERM,
    ),
    Metric(
        key="server_memory_gb",
        title="System memory used",
        unit="GB",
        better="lower",
        order=91,
        alias="ram",
        explanation="The most that the server's processes held in system memory during a request, with the parts of "
        "the model's file that were read into it.",
        round_formula=read_server_memory,
        assumed_run_deviation=0.01,
        term=_TERM,
    ),
)
