"""Intel GPUs as xpu-smi prints them and as the kernel lists them; both are made by hand here."""

import json
from pathlib import Path

import pytest

from app.hardware import detect, intel
from app.hardware.catalogue import GIB, built_in
from app.hardware.detect import fill_from_catalogue
from app.hardware.profile import Accelerator
from app.hardware.tools import ToolUnavailable

DISCOVERY = {
    "device_list": [
        {
            "device_function_type": "physical",
            "device_id": 0,
            "device_name": "Intel(R) Arc(TM) A770 Graphics",
            "device_type": "GPU",
            "pci_device_id": "0x56a0",
            "vendor_name": "Intel(R) Corporation",
        },
        {"device_id": 1, "device_name": "Intel(R) UHD Graphics 770", "device_type": "GPU"},
        {"device_id": 2, "device_name": "Intel(R) Arc(TM) B580 Graphics", "device_type": "GPU"},
    ]
}
PROPERTIES = {"0": {"memory_physical_size_byte": "16225243136"}, "2": {"device_name": "B580"}}


def xpu_smi(*command: str, timeout_s: float = 0) -> str:
    assert command[0] == "xpu-smi"
    return json.dumps(PROPERTIES[command[3]] if "-d" in command else DISCOVERY)


def missing(*command: str, timeout_s: float = 0) -> str:
    raise ToolUnavailable(f"{command[0]} is not installed")


def drm(folder: Path, **cards: dict[str, str]) -> Path:
    """A folder as the kernel fills it: `card1={"device/vendor": "0x8086"}`."""
    for name, files in cards.items():
        for path, text in files.items():
            file = folder / name.replace("_", "-") / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
    return folder


def test_xpu_smi_tells_names_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intel, "run_tool", xpu_smi)
    assert intel.read_gpus() == [
        Accelerator("Intel(R) Arc(TM) A770 Graphics", memory_bytes=16225243136),
        Accelerator("Intel(R) Arc(TM) B580 Graphics"),
    ]


@pytest.mark.parametrize(
    ("name", "catalogued", "gb_per_s"),
    [
        ("Intel(R) Arc(TM) A770 Graphics", 16, 560),
        ("Arc A750", 8, 512),
        ("Intel(R) Arc(TM) B580 Graphics", 12, 456),
        ("Arc Pro B60", 24, 456),
    ],
)
def test_the_catalogue_knows_their_bandwidth(name: str, catalogued: int, gb_per_s: float) -> None:
    card = fill_from_catalogue(Accelerator(name, memory_bytes=catalogued * GIB), built_in())
    assert (card.bandwidth_bytes_per_s, card.source) == (gb_per_s * 1e9, "catalogue")


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        ([], "xpu-smi lists no GPU"),
        ([{"device_id": 0, "device_name": "Intel(R) UHD Graphics 770"}], "no GPU with memory of its own"),
        ([{"device_id": 0, "device_name": "Intel(R) Iris(R) Xe Graphics"}], "no GPU with memory of its own"),
        ([{"device_id": 0, "device_name": "Intel(R) Arc(TM) Graphics"}], "no GPU with memory of its own"),
        ([{"device_id": 0, "device_name": "Intel(R) Arc(TM) 140V GPU"}], "no GPU with memory of its own"),
        ([{"device_id": "0", "device_name": 5}, "odd"], "xpu-smi lists no GPU"),
    ],
)
def test_graphics_within_a_processor_are_no_card(devices: list[object], reason: str) -> None:
    with pytest.raises(ToolUnavailable, match=reason):
        intel.from_xpu_smi(json.dumps({"device_list": devices}))


def test_the_kernel_lists_cards_by_their_ids(tmp_path: Path) -> None:
    folder = drm(
        tmp_path,
        card0={"device/vendor": "0x8086", "device/device": "0x4680"},  # within the processor
        card1={"device/vendor": "0x8086", "device/device": "0x56A0", "lmem_total_bytes": str(16 * GIB)},
        card1_DP_1={"device/vendor": "0x8086", "device/device": "0x56a0"},
        card2={"device/vendor": "0x8086", "device/device": "0xe20b"},
        card3={"device/vendor": "0x10de", "device/device": "0x2204"},
        card4={"device/vendor": "0x8086", "device/device": "0x56a5", "prelim_lmem_total_bytes": str(6 * GIB)},
        card5={
            "device/vendor": "0x8086",
            "device/device": "0xe211",
            "device/tile0/physical_vram_size_bytes": str(24 * GIB),
        },
        renderD128={"device/vendor": "0x8086", "device/device": "0x56a0"},
    )
    assert intel.from_sysfs(folder) == [
        Accelerator("Arc A770", memory_bytes=16 * GIB),
        Accelerator("Arc B580"),
        Accelerator("Arc A380", memory_bytes=6 * GIB),
        Accelerator("Arc Pro B60", memory_bytes=24 * GIB),
    ]


def test_a_machine_without_intel_graphics_has_none_and_lacks_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(intel, "run_tool", missing)
    monkeypatch.setattr(intel, "DRM", drm(tmp_path, card0={"device/vendor": "0x10de"}))
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert intel.read_gpus() == []
    assert not any(unknown.what == "Intel GPUs" for unknown in detect.detect().unknowns)


def test_what_has_no_name_or_place_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(intel, "run_tool", missing)
    monkeypatch.setattr(intel, "DRM", tmp_path / "nowhere")
    with pytest.raises(ToolUnavailable, match=r"xpu-smi is not installed; there is no .*nowhere"):
        intel.read_gpus()
    card = {"device/vendor": "0x8086", "device/device": "0xffff", "lmem_total_bytes": str(GIB)}
    with pytest.raises(ToolUnavailable, match="a card with the PCI id 0xffff and no name"):
        intel.from_sysfs(drm(tmp_path, card0=card))
