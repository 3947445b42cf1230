"""NVIDIA GPUs, read with NVML (the extra `nvidia`), else with `nvidia-smi`, which reports no bus width."""

import csv
from collections.abc import Sequence
from typing import Any

from app.core.i18n import _, joined
from app.hardware.profile import SENSOR, Accelerator
from app.hardware.tools import ToolUnavailable, parse_number, run_tool

MIB = 1 << 20
QUERY = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


def read_gpus() -> Sequence[Accelerator]:
    """One accelerator for each GPU. Raises ToolUnavailable."""
    try:
        return from_nvml(load_nvml())
    except ToolUnavailable as reason:
        try:
            return from_nvidia_smi(run_tool("nvidia-smi", *QUERY))
        except ToolUnavailable as second_reason:
            raise ToolUnavailable(joined(reason.message, second_reason.message, by="; ")) from second_reason


def load_nvml() -> Any:
    """The module pynvml, not yet initialised. Raises ToolUnavailable."""
    try:
        import pynvml  # of an extra
    except ImportError as error:
        raise ToolUnavailable(_("nvidia-ml-py is not installed (pip install 'roofmark[nvidia]')")) from error
    return pynvml


def from_nvml(nvml: Any) -> Sequence[Accelerator]:
    """Reads all GPUs with NVML; `nvml` is the module pynvml. Raises ToolUnavailable."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise ToolUnavailable(_("NVML says: {words}", words=error)) from error
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return [_accelerator(nvml, handle) for handle in handles]
    except nvml.NVMLError as error:
        raise ToolUnavailable(_("NVML says: {words}", words=error)) from error
    finally:
        nvml.nvmlShutdown()


def _accelerator(nvml: Any, handle: Any) -> Accelerator:
    name = nvml.nvmlDeviceGetName(handle)
    memory = _query(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total)
    bandwidth = bandwidth_bytes_per_s(
        _query(nvml, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        _query(nvml, lambda: nvml.nvmlDeviceGetMemoryBusWidth(handle)),
    )
    return Accelerator(
        name=name.decode() if isinstance(name, bytes) else name,
        memory_bytes=int(memory) if memory else None,
        bandwidth_bytes_per_s=bandwidth,
        source=SENSOR if bandwidth else "",
        note=_("NVML: 2 x memory clock x bus width") if bandwidth else "",
    )


def bandwidth_bytes_per_s(clock_mhz: float | None, bus_bits: float | None) -> float | None:
    """Returns the memory bandwidth: twice the memory clock times the bus width, which holds for every kind of memory
    with NVML's clocks.

    Returns None when a figure is unknown; a GB10 reports a width of 0, which means unknown.

    >>> bandwidth_bytes_per_s(9751, 384) / 1e9
    936.096
    """
    return 2 * clock_mhz * 1e6 * bus_bits / 8 if clock_mhz and bus_bits else None


def _query(nvml: Any, query: Any) -> float | None:
    try:
        return parse_number(query())
    except nvml.NVMLError:  # this GPU does not report that
        return None


def from_nvidia_smi(text: str) -> Sequence[Accelerator]:
    """Reads lines of `name, MiB`. Raises ToolUnavailable."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if len(row) == 2]
    if not rows:
        raise ToolUnavailable(_("nvidia-smi lists no GPU"))
    return [
        Accelerator(name=name, memory_bytes=int(memory * MIB) if (memory := parse_number(size)) else None)
        for name, size in rows
    ]
