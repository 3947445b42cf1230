"""What the tools of a system print, and what is made of it. None of this hardware is here: the outputs are made by hand
after what the tools print."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.hardware import amd, apple, detect, intel, memory_detection, nvidia, tools
from app.hardware.catalogue import GIB, built_in
from app.hardware.detect import fill_from_catalogue, merge_equal_cards
from app.hardware.host import available_ram_bytes
from app.hardware.profile import Accelerator, Ram
from app.hardware.tools import ToolUnavailable

# --- memory modules --------------------------------------------------------------------------------------------------


def udevadm(*slots: dict[str, object]) -> str:
    lines = ["P: /devices/virtual/dmi/id", "E: DEVPATH=/devices/virtual/dmi/id", "E: MEMORY_ARRAY_NUM_DEVICES=4"]
    lines += [f"E: MEMORY_DEVICE_{n}_{key}={value}" for n, slot in enumerate(slots) for key, value in slot.items()]
    return "\n".join(lines) + "\n"


def slot(locator: str, bank: str = "", rate: int = 6000, kind: str = "DDR5", **more: object) -> dict[str, object]:
    fields = {"SIZE": 16 * GIB, "LOCATOR": locator, "BANK_LOCATOR": bank, "TYPE": kind, "SPEED_MTS": 9999}
    return {**fields, "CONFIGURED_SPEED_MTS": rate, "DATA_WIDTH": 64, **more}


EMPTY = {"PRESENT": 0, "LOCATOR": "DIMM 0", "BANK_LOCATOR": "P0 CHANNEL A", "TYPE": "Unknown", "SPEED_MTS": 3000}


@pytest.mark.parametrize(
    ("slots", "ram"),
    [
        pytest.param(
            [EMPTY, slot("DIMM 1", "P0 CHANNEL A"), EMPTY, slot("DIMM 1", "P0 CHANNEL B")],
            Ram("DDR5", 6000, 128),
            id="two channels, empty slots",
        ),
        pytest.param(
            [slot("DIMM 1", "P0 CHANNEL A", 3200, "DDR4")], Ram("DDR4", 3200, 64), id="one module is one channel"
        ),
        pytest.param([slot("DIMM_X")], Ram("DDR5", 6000, 64), id="one module needs no channel"),
        pytest.param(
            [slot("DIMM 0", "P0 CHANNEL A"), slot("DIMM 1", "P0 CHANNEL A")],
            Ram("DDR5", 6000, 64),
            id="both on one channel",
        ),
        pytest.param(
            [slot(f"Controller{c}-Channel{x}", "BANK 0", 8533, "LPDDR5", DATA_WIDTH=16) for c in "01" for x in "ABCD"],
            Ram("LPDDR5", 8533, 128),
            id="soldered chips of 16 bits on two controllers",
        ),
        pytest.param(
            [slot(f"DIMM_{x}1", f"P{p} CHANNEL {x}", 4800) for p in "01" for x in "ABCDEFGHIJKL"],
            Ram("DDR5", 4800, 1536),
            id="two sockets of twelve",
        ),
        pytest.param([slot("DIMM_A2"), slot("DIMM_B2", rate=5600)], Ram("DDR5", 5600, 128), id="the slowest decides"),
        pytest.param(
            [slot("ChannelA-DIMM0", DATA_WIDTH=32), slot("ChannelB-DIMM0", DATA_WIDTH=32)],
            Ram("DDR5", 6000, 64),
            id="what the board says",
        ),
    ],
)
def test_modules_as_udev_lists_them(slots: list[dict[str, object]], ram: Ram) -> None:
    ram_, unknowns = memory_detection.summarize_modules(memory_detection.parse_udevadm(udevadm(*slots)))
    assert ram_ == ram
    assert unknowns == []


@pytest.mark.parametrize(
    ("slots", "ram", "reason"),
    [
        ([slot("DIMM 1"), slot("DIMM 2")], Ram("DDR5", 6000, None), "does not say on which channel each of its 2"),
        ([slot("Top", kind="LPDDR5", DATA_WIDTH="")], Ram("LPDDR5", 6000, None), "does not say on which channel"),
        (
            [slot("A", SPEED_MTS="", CONFIGURED_SPEED_MTS="")],
            Ram("DDR5", None, 64),
            "does not report it for every module",
        ),
    ],
)
def test_what_the_board_does_not_tell_is_unknown_with_a_reason(
    slots: list[dict[str, object]], ram: Ram, reason: str
) -> None:
    ram_, (unknown,) = memory_detection.summarize_modules(memory_detection.parse_udevadm(udevadm(*slots)))
    assert ram_ == ram
    assert ram_.bandwidth_bytes_per_s is None
    assert reason in unknown.reason


DMIDECODE = """# dmidecode 3.4
Handle 0x0039, DMI type 16, 23 bytes
Physical Memory Array
\tNumber Of Devices: 4

Handle 0x003A, DMI type 17, 92 bytes
Memory Device
\tData Width: 64 bits
\tSize: 16 GB
\tLocator: DIMM_A2
\tBank Locator: BANK 1
\tType: DDR4
\tSpeed: 3600 MT/s
\tConfigured Memory Speed: 3200 MT/s

Handle 0x003B, DMI type 17, 92 bytes
Memory Device
\tData Width: Unknown
\tSize: No Module Installed
\tLocator: DIMM_B1
\tType: Unknown

Handle 0x003C, DMI type 17, 92 bytes
Memory Device
\tData Width: 64 bits
\tSize: 16 GB
\tLocator: DIMM_B2
\tBank Locator: BANK 3
\tType: DDR4
\tSpeed: 3600 MT/s
\tConfigured Memory Speed: 3200 MT/s
"""


def test_modules_as_dmidecode_lists_them() -> None:
    ram_, unknowns = memory_detection.summarize_modules(memory_detection.parse_dmidecode(DMIDECODE))
    assert (ram_, unknowns) == (Ram("DDR4", 3200, 128), [])
    assert ram_.bandwidth_bytes_per_s == 51.2e9


def test_an_old_dmidecode_writes_mhz_and_means_transfers() -> None:
    old = DMIDECODE.replace("Configured Memory Speed", "Configured Clock Speed").replace("MT/s", "MHz")
    assert memory_detection.summarize_modules(memory_detection.parse_dmidecode(old))[0] == Ram("DDR4", 3200, 128)


# --- caches ----------------------------------------------------------------------------------------------------------


def test_the_last_level_caches_of_all_core_groups_add_up(tmp_path: Path) -> None:
    for cpu in range(4):
        for index, (kind, level, size, shared) in enumerate(
            [("Data", 1, "32K", str(cpu)), ("Instruction", 1, "32K", str(cpu)), ("Unified", 3, "32768K", f"{cpu // 2}")]
        ):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, value in (("type", kind), ("level", level), ("size", size), ("shared_cpu_list", shared)):
                (folder / name).write_text(f"{value}\n")
    assert memory_detection.caches_from_sysfs(tmp_path) == 2 * (32 << 20)
    assert memory_detection.caches_from_sysfs(tmp_path / "cpu9") is None


def test_caches_as_lscpu_lists_them() -> None:
    rows = [
        {"name": "L1i", "all-size": "65536", "type": "Instruction", "level": 1},
        {"name": "L2", "all-size": "2097152", "type": "Unified", "level": 2},
        {"name": "L3", "all-size": "33554432", "type": "Unified", "level": 3},
    ]
    assert memory_detection.caches_from_lscpu(json.dumps({"caches": rows})) == 32 << 20
    with pytest.raises(ToolUnavailable, match="no caches"):
        memory_detection.caches_from_lscpu('{"caches": []}')


# --- NVIDIA ----------------------------------------------------------------------------------------------------------


class NvmlError(Exception):
    pass


class Nvml(SimpleNamespace):
    """pynvml as far as it is asked; a figure that is None is one that the card does not tell."""

    NVMLError = NvmlError
    NVML_CLOCK_MEM = 2

    def __init__(self, *cards: tuple[str | bytes, int | None, int | None, int | None]) -> None:
        super().__init__(cards=cards, open=0)

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return self.cards[index]

    def nvmlDeviceGetName(self, card: Any) -> Any:
        return card[0]

    def nvmlDeviceGetMemoryInfo(self, card: Any) -> Any:
        return SimpleNamespace(total=self._told(card[1]))

    def nvmlDeviceGetMaxClockInfo(self, card: Any, clock: int) -> Any:
        assert clock == self.NVML_CLOCK_MEM
        return self._told(card[2])

    def nvmlDeviceGetMemoryBusWidth(self, card: Any) -> Any:
        return self._told(card[3])

    def _told(self, value: int | None) -> int:
        if value is None:
            raise NvmlError("Not Supported")
        return value


def test_nvml_tells_memory_and_bandwidth() -> None:
    nvml = Nvml(("NVIDIA GeForce RTX 3090", 24 * GIB, 9751, 384), (b"NVIDIA GB10", None, 8533, 0))
    first, second = nvidia.from_nvml(nvml)
    assert (first.name, first.memory_bytes, first.source) == ("NVIDIA GeForce RTX 3090", 24 * GIB, "sensor")
    assert first.bandwidth_bytes_per_s == pytest.approx(936.1e9, rel=1e-4)
    assert second == Accelerator("NVIDIA GB10")
    assert nvml.open == 0


def test_nvml_that_fails_is_a_reason() -> None:
    class Broken(Nvml):
        def nvmlInit(self) -> None:
            raise NvmlError("Driver Not Loaded")

    with pytest.raises(ToolUnavailable, match="NVML says: Driver Not Loaded"):
        nvidia.from_nvml(Broken())


def test_nvidia_smi_tells_names_and_memory() -> None:
    text = "NVIDIA GeForce RTX 3090, 24576\nNVIDIA GeForce RTX 3090, 24576\nNVIDIA GB10, [N/A]\n"
    cards = nvidia.from_nvidia_smi(text)
    assert [card.memory_bytes for card in cards] == [24 * GIB, 24 * GIB, None]
    with pytest.raises(ToolUnavailable, match="lists no GPU"):
        nvidia.from_nvidia_smi("No devices were found\n")


# --- AMD -------------------------------------------------------------------------------------------------------------

AMD_CARD = {
    "gpu": 0,
    "asic": {"market_name": "AMD Instinct MI300X", "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]"},
    "vram": {
        "type": "HBM3",
        "size": {"value": 196592, "unit": "MB"},
        "bit_width": 8192,
        "max_bandwidth": {"value": 5300, "unit": "GB/s"},
    },
}


@pytest.mark.parametrize("wrap", [lambda cards: cards, lambda cards: {"gpu_data": cards}], ids=["a list", "gpu_data"])
def test_amd_smi_tells_memory_and_bandwidth(wrap: Callable[[object], object]) -> None:
    old = {"asic": {"market_name": "AMD Radeon RX 7900 XTX"}, "vram": {"size": "N/A", "max_bandwidth": "N/A"}}
    broken = {"asic": "N/A", "vram": {"size": "N/A"}}
    first, second = amd.from_amd_smi("WARNING: /dev/kfd: denied\n" + json.dumps(wrap([AMD_CARD, old, broken])))
    assert (first.name, first.memory_bytes) == ("AMD Instinct MI300X", 196592 << 20)
    assert (first.bandwidth_bytes_per_s, first.source) == (5300e9, "sensor")
    assert second == Accelerator("AMD Radeon RX 7900 XTX")


def test_rocm_smi_tells_names_and_memory() -> None:
    document = {
        "card0": {"Card Series": "AMD Radeon 8060S Graphics", "VRAM Total Memory (B)": "536870912"},
        "card1": {"Card series": "0x744c", "Device Name": "Radeon RX 7900 XTX", "VRAM Total Memory (B)": "25753026560"},
        "system": {"Driver version": "6.14.14"},
    }
    first, second = amd.from_rocm_smi(json.dumps(document))
    assert (first.name, first.memory_bytes) == ("AMD Radeon 8060S Graphics", 512 << 20)
    assert (second.name, second.memory_bytes) == ("Radeon RX 7900 XTX", 25753026560)
    with pytest.raises(ToolUnavailable, match="lists no GPU"):
        amd.from_rocm_smi('{"system": {}}')


# --- Apple -----------------------------------------------------------------------------------------------------------


def test_a_mac_tells_chip_cores_and_cache() -> None:
    cpu = apple.from_sysctl("machdep.cpu.brand_string: Apple M3 Max\nhw.perflevel0.l2cachesize: 33554432\n")
    assert (cpu.name, cpu.llc_bytes) == ("Apple M3 Max", 32 << 20)
    rows = [
        {"_name": "Apple M3 Max", "sppci_model": "Apple M3 Max", "sppci_cores": "40"},
        {"sppci_model": "AMD Radeon Pro 5500M", "spdisplays_vram": "8 GB"},
        {"_name": "nothing"},
    ]
    chip, card = apple.from_system_profiler(json.dumps({"SPDisplaysDataType": rows}))
    assert chip == Accelerator("Apple M3 Max (40-core GPU)")
    assert card == Accelerator("AMD Radeon Pro 5500M", memory_bytes=8 * GIB)


@pytest.mark.parametrize(
    ("name", "gb_per_s"),
    [("Apple M3 Max (40-core GPU)", 409.6), ("Apple M3 Max (30-core GPU)", 307.2), ("Apple M1 (8-core GPU)", 68.3)],
)
def test_the_cores_of_a_chips_gpu_decide_where_they_must(name: str, gb_per_s: float) -> None:
    card = fill_from_catalogue(Accelerator(name), built_in())
    assert card.bandwidth_bytes_per_s == pytest.approx(gb_per_s * 1e9)
    assert card.source == "catalogue"
    assert card.memory_bytes is None


# --- together --------------------------------------------------------------------------------------------------------


def test_equal_cards_are_counted_and_others_are_not() -> None:
    cards = [
        Accelerator("A", 1, 24 * GIB),
        Accelerator("B"),
        Accelerator("A", 1, 24 * GIB - 1000),
        Accelerator("A", 1, GIB),
    ]
    assert [(card.name, card.count) for card in merge_equal_cards(cards)] == [("A", 2), ("B", 1), ("A", 1)]


def test_a_sensor_knows_better_than_the_catalogue_which_fills_the_gaps() -> None:
    card = Accelerator("NVIDIA GeForce RTX 3090", 2, 24 * GIB, 900e9, source="sensor", note="NVML")
    accelerator = fill_from_catalogue(card, built_in())
    assert (accelerator.bandwidth_bytes_per_s, accelerator.source, accelerator.note) == (900e9, "sensor", "NVML")
    assert (accelerator.compute_flops_per_s, accelerator.fastest_flops_per_s, accelerator.count) == (71e12, 284e12, 2)


def _silent(*_command: str, timeout_s: float = 0) -> str:
    raise ToolUnavailable(f"{_command[0]} is not installed")


def test_without_any_tool_everything_else_is_told_and_each_lack_has_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (memory_detection, nvidia, amd, intel, apple):
        monkeypatch.setattr(module, "run_tool", _silent)
    monkeypatch.setattr(memory_detection, "CPUS", tmp_path)
    monkeypatch.setattr(nvidia, "from_nvml", lambda _: _silent("NVML"))
    profile = detect.detect()
    assert profile.host.cpu
    assert profile.host.ram_bytes > 0
    assert profile.physical_cores
    assert profile.accelerators == ()
    assert profile.ram_bandwidth_source is None
    assert len(profile.unknowns) >= 2
    assert all("is not installed" in unknown.reason for unknown in profile.unknowns)


def test_a_chip_with_shared_memory_gives_its_processor_the_bandwidth_that_its_cores_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr(memory_detection, "read_ram", lambda: (Ram(), []))
    monkeypatch.setattr(nvidia, "read_gpus", lambda: _silent("nvidia-smi"))
    monkeypatch.setattr(amd, "read_gpus", lambda: [Accelerator("AMD Radeon 8060S Graphics", memory_bytes=512 << 20)])
    profile = detect.detect()
    (card,) = profile.accelerators
    assert (card.memory_bytes, card.bandwidth_bytes_per_s) == (None, 256e9)
    assert (profile.ram_bandwidth_bytes_per_s, profile.ram_bandwidth_source) == (108e9, "catalogue")


def test_a_mac_is_asked_with_its_own_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr(apple, "read_cpu", lambda: apple.AppleCpu("Apple M3 Max", 32 << 20))
    monkeypatch.setattr(apple, "read_gpus", lambda: [Accelerator("Apple M3 Max (40-core GPU)")])
    profile = detect.detect()
    assert (profile.host.cpu, profile.llc_bytes) == ("Apple M3 Max", 32 << 20)
    assert (profile.ram_bandwidth_bytes_per_s, profile.ram_bandwidth_source) == (409.6e9, "catalogue")
    assert profile.unknowns == ()


def test_a_tool_that_is_missing_fails_or_hangs_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in (("fails", "echo no driver >&2; exit 9"), ("hangs", "exec sleep 60"), ("works", "echo hello")):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert tools.run_tool("works") == "hello\n"
    for name, reason in (("fails", "fails complained: no driver"), ("missing-tool", "missing-tool is not installed")):
        with pytest.raises(ToolUnavailable, match=reason):
            tools.run_tool(name)
    with pytest.raises(ToolUnavailable, match="hangs did not answer"):
        tools.run_tool("hangs", timeout_s=0.2)


PARSERS: list[Callable[[str], object]] = [
    memory_detection.parse_udevadm,
    memory_detection.parse_dmidecode,
    memory_detection.caches_from_lscpu,
    nvidia.from_nvidia_smi,
    amd.from_amd_smi,
    amd.from_rocm_smi,
    intel.from_xpu_smi,
    intel.memory_from_xpu_smi,
    apple.from_sysctl,
    apple.from_system_profiler,
]
ODD = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["gpu_data", "asic", "vram", "size", "value", "market_name", "caches", "level", "all-size", "card0"]
            )
            | st.sampled_from(
                ["SPDisplaysDataType", "sppci_model", "sppci_cores", "card series", "vram total memory (b)"]
            )
            | st.sampled_from(["device_list", "device_id", "device_name", "memory_physical_size_byte"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__qualname__)
@given(odd=ODD, text=st.text(max_size=60))
@example(odd=None, text="\r0")
def test_no_output_whatever_breaks_a_parser(parse: Callable[[str], object], odd: object, text: str) -> None:
    for output in (json.dumps(odd), text):
        with suppress(ToolUnavailable):  # the one error that a parser may raise
            parse(output)


def test_a_containers_limit_is_the_memory_that_is_left(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert available_ram_bytes(tmp_path) == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_ram_bytes(tmp_path) > 600_000
