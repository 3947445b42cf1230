"""Every line of the catalogue is plausible and has a source; names find the device they mean, and no other."""

import csv
from dataclasses import replace

import pytest

from app.hardware.catalogue import BUILT_IN, GIB, Catalogue, Device, built_in
from app.hardware.memory import DATA_RATES_MT_PER_S, bandwidth_bytes_per_s, check_bus_bits, check_data_rate

DEVICES = built_in().devices


def by_name(device: Device) -> str:
    return device.name


@pytest.mark.parametrize("device", DEVICES, ids=by_name)
def test_a_device_has_a_source_and_figures_in_their_units(device: Device) -> None:
    assert device.source
    assert device.kind in ("gpu", "apu", "ram")
    assert device.vendor in ("nvidia", "amd", "intel", "apple", "generic")
    assert 30e9 <= device.bandwidth_bytes_per_s <= 10e12
    if device.memory_bytes is not None:
        assert 4 * GIB <= device.memory_bytes <= 512 * GIB
        assert device.memory_bytes % GIB == 0
    assert device.kind == "ram" or device.memory_bytes is not None or device.kind == "apu"
    assert (device.compute_flops_per_s is None) == (not device.compute_source)
    assert (device.compute_flops_per_s is None) == (device.fastest_flops_per_s is None)
    if device.compute_flops_per_s and device.fastest_flops_per_s:
        assert 1e12 <= device.compute_flops_per_s <= device.fastest_flops_per_s <= 5e15
        assert device.fastest_flops_per_s <= 4.1 * device.compute_flops_per_s
        # tokens in flight from which on compute binds: a wrong unit would be far outside
        assert 5 <= device.compute_flops_per_s / device.bandwidth_bytes_per_s <= 500
    assert device.year is None or 2016 <= device.year <= 2027
    if device.llc_bytes is not None:
        assert 1 << 20 <= device.llc_bytes <= 512 << 20


@pytest.mark.parametrize("device", [d for d in DEVICES if d.bus_bits and d.data_rate_mt_per_s], ids=by_name)
def test_bandwidth_is_bus_width_times_data_rate(device: Device) -> None:
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
    assert len(rows) > 110
    assert not any("://" in cell for row in rows for cell in row)


@pytest.mark.parametrize("device", DEVICES, ids=by_name)
def test_each_device_is_found_by_each_of_its_names(device: Device) -> None:
    assert built_in().find(device.name, device.memory_bytes).device == device
    for alias in device.aliases:
        assert built_in().find(alias).device == device


@pytest.mark.parametrize(
    ("name", "found"),
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
        ("Intel(R) Arc(TM) A770 Graphics", "Arc A770 16GB"),
        ("M3 Max 40-core", "Apple M3 Max (40-core GPU)"),
        ("Apple M2", "Apple M2"),
    ],
)
def test_a_name_as_people_and_drivers_write_it(name: str, found: str) -> None:
    device = built_in().find(name).device
    assert device is not None
    assert device.name == found


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("RTX 4060 Ti", {"GeForce RTX 4060 Ti 8GB", "GeForce RTX 4060 Ti 16GB"}),
        ("A100", {"A100 PCIe 40GB", "A100 PCIe 80GB", "A100 SXM4 80GB"}),
        ("Apple M3 Max", {"Apple M3 Max (30-core GPU)", "Apple M3 Max (40-core GPU)"}),
        ("NVIDIA A100-SXM4-40GB", {"A100 SXM4 80GB"}),
    ],
)
def test_an_ambiguous_name_gives_candidates_and_takes_none(name: str, candidates: set[str]) -> None:
    match = built_in().find(name)
    assert match.device is None
    assert {device.name for device in match.candidates} == candidates


@pytest.mark.parametrize(
    "name", ["NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 30", "Voodoo 2", "", "NVIDIA", "Quadro RTX 6000"]
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


def test_shared_memory_is_not_an_accelerators_own() -> None:
    match = built_in().find("Strix Halo")
    assert match.device is not None
    assert match.device.accelerator().memory_bytes is None
    assert match.device.cpu_bandwidth_bytes_per_s == 108e9


def test_own_devices_stand_before_the_built_in_ones_and_in_their_place() -> None:
    corrected = replace(DEVICES[0], bandwidth_bytes_per_s=1e9)
    added = Device("Homemade X1", "", "gpu", 123e9, "a soldering iron")
    catalogue = built_in().with_own([corrected, added])
    assert len(catalogue.devices) == len(DEVICES) + 1
    found = catalogue.find(DEVICES[0].name).device
    assert found is not None
    assert (found.bandwidth_bytes_per_s, found.is_own) == (1e9, True)
    assert catalogue.find("homemade x1").device == replace(added, is_own=True)


def test_search_is_for_reading_and_finds_parts_of_names() -> None:
    assert len(built_in().search("rtx 40")) >= 8
    assert {device.vendor for device in built_in().search("m3")} == {"apple"}  # not the H100's HBM3
    assert [device.name for device in built_in().search("AMD max+")] == ["Strix Halo (Ryzen AI Max+ 395)"]
    assert len(built_in().search("")) == len(DEVICES)
    assert Catalogue([]).search("x") == []
