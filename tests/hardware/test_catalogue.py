"""Every line of the catalogue is plausible and has a source; names find the device they mean, and no other."""

import csv
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.catalogue import BUILT_IN, GIB, Catalogue, CatalogueDevice, built_in
from app.hardware.memory import DATA_RATES_MT_PER_S, bandwidth_bytes_per_s, check_bus_bits, check_data_rate

DEVICES = built_in().devices


def by_name(device: CatalogueDevice) -> str:
    return device.name


@pytest.mark.parametrize("device", DEVICES, ids=by_name)
def test_a_device_has_a_source_and_figures_in_their_units(device: CatalogueDevice) -> None:
    assert device.source
    assert device.kind in ("gpu", "apu", "ram")
    assert device.vendor in ("nvidia", "amd", "intel", "apple", "generic")
    assert 15e9 <= device.bandwidth_bytes_per_s <= 10e12
    if device.memory_bytes is not None:
        assert 4 * GIB <= device.memory_bytes <= 512 * GIB
        assert device.memory_bytes % GIB == 0
    assert device.kind == "ram" or device.memory_bytes is not None or device.kind == "apu"
    assert (device.compute_flops_per_s is None) == (not device.compute_source)
    assert (device.compute_flops_per_s is None) == (device.fastest_flops_per_s is None)
    if device.compute_flops_per_s and device.fastest_flops_per_s:
        assert 1e12 <= device.compute_flops_per_s <= device.fastest_flops_per_s <= 15e15
        assert device.fastest_flops_per_s <= 8.1 * device.compute_flops_per_s  # FP4 of a GeForce
        # tokens in flight from which on compute binds: a wrong unit would be far outside
        assert 5 <= device.compute_flops_per_s / device.bandwidth_bytes_per_s <= 1000
    assert device.year is None or 2015 <= device.year <= 2027
    if device.llc_bytes is not None:
        assert 1 << 20 <= device.llc_bytes <= 512 << 20


@pytest.mark.parametrize("device", [d for d in DEVICES if d.bus_bits and d.data_rate_mt_per_s], ids=by_name)
def test_bandwidth_is_bus_width_times_data_rate(device: CatalogueDevice) -> None:
    assert device.bus_bits
    assert device.data_rate_mt_per_s
    check_bus_bits(device.bus_bits)
    assert device.memory_kind.upper() in DATA_RATES_MT_PER_S
    check_data_rate(device.data_rate_mt_per_s, device.memory_kind)
    stated = bandwidth_bytes_per_s(device.data_rate_mt_per_s, device.bus_bits)
    assert device.bandwidth_bytes_per_s == pytest.approx(stated, rel=0.025)  # "8 TB/s" is rounded


def test_the_file_says_nothing_twice() -> None:
    names = [name.casefold() for device in DEVICES for name in (device.name, *device.aliases)]
    assert len(names) == len(set(names))
    with BUILT_IN.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert len(rows) > 230
    assert not any("://" in cell for row in rows for cell in row)


@pytest.mark.parametrize("device", DEVICES, ids=by_name)
def test_each_device_is_found_by_each_of_its_names(device: CatalogueDevice) -> None:
    for name in (device.name, *device.aliases):
        assert built_in().find(name).device == device
        assert built_in().find(name.upper(), device.memory_bytes).device == device


VARIANTS = ("Ti", "SUPER", "D", "G", "S", "X", "XT", "XTX", "GRE", "Laptop GPU", "Max-Q", "Mobile", "Ada", "PRO", "NVL")


@given(st.sampled_from(DEVICES), st.sampled_from(VARIANTS), st.booleans(), st.booleans())
def test_a_variant_is_never_taken_for_the_plain_device(
    device: CatalogueDevice, variant: str, is_before: bool, has_memory: bool
) -> None:
    name = f"{variant} {device.name}" if is_before else f"{device.name} {variant}"
    match = built_in().find(name, device.memory_bytes if has_memory else None).device
    if variant.casefold() not in device.name.casefold().split():
        assert match != device


@given(st.sampled_from(DEVICES), st.data())
def test_a_part_of_a_name_selects_no_other_device(device: CatalogueDevice, data: st.DataObject) -> None:
    """L40 is not the L40S and A10 is not the A10G, even where their memory is the same."""
    words = device.name.split()
    part = data.draw(st.lists(st.sampled_from(words), min_size=1, unique=True))
    match = built_in().find(" ".join(part), device.memory_bytes).device
    if match is not None and match != device:
        names = [set(re.findall(r"\w+", name.casefold())) for name in (match.name, *match.aliases)]
        assert any(set(re.findall(r"\w+", " ".join(part).casefold())) <= name for name in names)


@pytest.mark.parametrize(
    ("first_name", "second_name"),
    [
        ("L40", "L40S"),
        ("RTX 3070", "RTX 3070 Ti"),
        ("RTX 4090", "RTX 4090 D"),
        ("RTX 4090", "RTX 4090 Laptop GPU"),
        ("RTX 2080", "RTX 2080 SUPER"),
        ("A10", "A10G"),
        ("A2", "RTX A2000 6GB"),
        ("RTX 5000 Ada", "RTX A5000"),
        ("RTX A5000", "Quadro RTX 5000"),
        ("Quadro RTX 6000", "RTX 6000 Ada"),
        ("RX 7900 XT", "RX 7900 XTX"),
        ("RX 9070", "RX 9070 XT"),
        ("TITAN V", "TITAN RTX"),
        ("Tesla P4", "Tesla P40"),
    ],
)
def test_devices_with_similar_names(first_name: str, second_name: str) -> None:
    first, second = built_in().find(first_name).device, built_in().find(second_name).device
    assert first is not None
    assert second is not None
    assert first != second


@pytest.mark.parametrize("name", ["GeForce GTX 580", "GTX 3090", "GeForce GTX TITAN", "Arc 3090", "AMD A40"])
def test_a_model_number_of_another_brand_is_another_device(name: str) -> None:
    assert built_in().find(name).device is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RTX 3090", "GeForce RTX 3090"),
        ("GeForce RTX 3090", "GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"),
        ("nvidia rtx3090", "GeForce RTX 3090"),
        ("3090", "GeForce RTX 3090"),
        ("rtx 3090 24gb", "GeForce RTX 3090"),
        ("3090Ti", "GeForce RTX 3090 Ti"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("Tesla V100-SXM2-32GB", "Tesla V100 SXM2 32GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell"),
        ("NVIDIA GB10", "DGX Spark (GB10)"),
        ("AMD Radeon RX 7900 XTX", "Radeon RX 7900 XTX"),
        ("AMD Radeon 8060S Graphics", "Strix Halo (Ryzen AI Max+ 395)"),
        ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "Strix Halo (Ryzen AI Max+ 395)"),
        ("AMD Radeon Graphics (RADV GFX1151)", "Strix Halo (Ryzen AI Max+ 395)"),
        ("AMD Radeon 8060S Graphics (RADV GFX1151)", "Strix Halo (Ryzen AI Max+ 395)"),
        ("AMD RYZEN AI MAX+ PRO 395 w/ Radeon 8060S", "Strix Halo (Ryzen AI Max+ 395)"),
        ("AMD RYZEN AI MAX PRO 390 w/ Radeon 8050S", "Strix Halo (Ryzen AI Max 390/385)"),
        ("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "Strix Point (Ryzen AI 9 HX 370)"),
        ("AMD Radeon RX 7900 XTX (RADV NAVI31)", "Radeon RX 7900 XTX"),
        ("NVIDIA GeForce RTX 3090 (NVK GA102)", "GeForce RTX 3090"),
        ("AMD Instinct MI300X OAM", "Instinct MI300X"),
        ("Intel(R) Arc(TM) A770 Graphics 16GB", "Arc A770 16GB"),
        ("Intel(R) Arc(tm) B580 Graphics (BMG G21)", "Arc B580"),
        ("Intel(R) Arc(TM) 140V GPU (16GB)", "Lunar Lake (Arc 140V)"),
        ("Intel(R) Arc(TM) B390 GPU", "Panther Lake (Arc B390)"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB"),
        ("NVIDIA GH200 480GB", "GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", "GH200 144GB"),
        ("NVIDIA H100 NVL", "H100 NVL 94GB"),
        ("NVIDIA B300 SXM6 AC", "B300 SXM 270GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server Edition"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "RTX 4000 SFF Ada"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "GeForce RTX 4090 Laptop GPU"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        ("NVIDIA TITAN RTX", "TITAN RTX"),
        ("RTX 4090", "GeForce RTX 4090"),
        ("RTX 4090 48GB", "GeForce RTX 4090 48GB"),
        ("M3 Max 40-core", "Apple M3 Max (40-core GPU)"),
        ("Apple M2", "Apple M2"),
    ],
)
def test_a_name_as_people_and_drivers_write_it(name: str, expected: str) -> None:
    device = built_in().find(name).device
    assert device is not None
    assert device.name == expected


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("RTX 4060 Ti", {"GeForce RTX 4060 Ti 8GB", "GeForce RTX 4060 Ti 16GB"}),
        ("A100", {"A100 PCIe 40GB", "A100 PCIe 80GB", "A100 SXM4 40GB", "A100 SXM4 80GB"}),
        ("NVIDIA GeForce RTX 3080", {"GeForce RTX 3080 10GB", "GeForce RTX 3080 12GB"}),
        ("Intel(R) Arc(TM) A770 Graphics", {"Arc A770 8GB", "Arc A770 16GB"}),
        ("Arc 140T", {"Arc 140T with DDR5-5600", "Arc 140T with LPDDR5X-8400"}),
        ("Apple M3 Max", {"Apple M3 Max (30-core GPU)", "Apple M3 Max (40-core GPU)"}),
        ("NVIDIA GeForce RTX 5090 32GB Laptop GPU", {"GeForce RTX 5090 Laptop GPU"}),
    ],
)
def test_an_ambiguous_name_gives_candidates_and_takes_none(name: str, candidates: set[str]) -> None:
    match = built_in().find(name)
    assert match.device is None
    assert {device.name for device in match.candidates} == candidates


@pytest.mark.parametrize(
    "name",
    ["NVIDIA GeForce RTX 3080 Laptop GPU", "RTX 30", "Voodoo 2", "", "NVIDIA", "Quadro RTX 4000", "Orin (nvgpu)"],
)
def test_another_device_is_not_taken_for_one_that_is_known(name: str) -> None:
    assert built_in().find(name).device is None


def test_memory_tells_variants_apart() -> None:
    for gib, expected in ((8, "GeForce RTX 4060 Ti 8GB"), (16, "GeForce RTX 4060 Ti 16GB")):
        reported = gib * GIB - (200 << 20)  # a driver keeps some for itself
        device = built_in().find("NVIDIA GeForce RTX 4060 Ti", reported).device
        assert device is not None
        assert device.name == expected
    assert built_in().find("NVIDIA GeForce RTX 3060", 8 * GIB).device is None
    for gib, expected in ((24, "GeForce RTX 4090"), (48, "GeForce RTX 4090 48GB")):
        device = built_in().find("NVIDIA GeForce RTX 4090", gib * GIB - (200 << 20)).device
        assert device is not None
        assert device.name == expected
    die = built_in().find("AMD Instinct MI250X", 64 * GIB).device
    assert die is not None
    assert die.bandwidth_bytes_per_s == pytest.approx(1638e9, rel=0.001)


@pytest.mark.parametrize(
    ("name", "gb_per_s", "tflops", "fastest_tflops"),
    [
        ("Apple M1", 68.3, 2.6, 2.6),
        ("Apple M2", 102.4, 3.6, 3.6),
        ("Apple M3 Pro", 153.6, 7.4, 7.4),
        ("Apple M3 Max (30-core GPU)", 307.2, 10.7, 10.7),
        ("Apple M1 Ultra", 819.2, 21, 21),
        ("Apple M4 Max (32-core GPU)", 409.6, 14.7, 14.7),
        ("Apple M5 Max (40-core GPU)", 614.4, 132.7, 265.4),  # 124 were measured
        ("Tesla P40", 347.1, 11.8, 47),  # dp4a
        ("GeForce GTX 1080 Ti", 484.4, 11.3, 45.4),
        ("Radeon RX 6900 XT", 512, 46.1, 92.2),  # dot4
        ("GeForce RTX 5090", 1792, 209.5, 1676),  # FP4
        ("DGX Spark (GB10)", 273, 62.5, 500),
        ("Radeon RX 9070", 640, 144.5, 289),
        ("Arc A750", 512, 114.5, 229),
        ("Jetson AGX Orin 64GB", 204.8, 42.5, 85),
        ("L40", 864, 362.1, 724.2),
    ],
)
def test_figures_that_were_missing_or_wrong(name: str, gb_per_s: float, tflops: float, fastest_tflops: float) -> None:
    device = built_in().find(name).device
    assert device is not None
    assert device.bandwidth_bytes_per_s / 1e9 == pytest.approx(gb_per_s, rel=0.001)
    assert device.compute_flops_per_s == pytest.approx(tflops * 1e12, rel=0.01)
    assert device.fastest_flops_per_s == pytest.approx(fastest_tflops * 1e12, rel=0.01)


def test_shared_memory_is_not_an_accelerators_own() -> None:
    match = built_in().find("Strix Halo")
    assert match.device is not None
    assert match.device.accelerator().memory_bytes is None
    assert match.device.cpu_bandwidth_bytes_per_s == 108e9


def test_own_devices_stand_before_the_built_in_ones_and_in_their_place() -> None:
    corrected = replace(DEVICES[0], bandwidth_bytes_per_s=1e9)
    added = CatalogueDevice("Homemade X1", "", "gpu", 123e9, "a soldering iron")
    catalogue = built_in().with_own([corrected, added])
    assert len(catalogue.devices) == len(DEVICES) + 1
    device = catalogue.find(DEVICES[0].name).device
    assert device is not None
    assert (device.bandwidth_bytes_per_s, device.is_own) == (1e9, True)
    assert catalogue.find("homemade x1").device == replace(added, is_own=True)


def test_search_is_for_reading_and_finds_parts_of_names() -> None:
    assert len(built_in().search("rtx 40")) >= 8
    assert {device.vendor for device in built_in().search("m3")} == {"apple"}  # not the H100's HBM3
    assert [device.name for device in built_in().search("AMD max+")] == ["Strix Halo (Ryzen AI Max+ 395)"]
    assert len(built_in().search("")) == len(DEVICES)
    assert Catalogue([]).search("x") == []
