"""Is a share of the ceiling good? Beside published results of the same kind on its class of device, or not at all."""

import re
from dataclasses import replace

import pytest

from app.ceiling.decode import Device as CeilingDevice
from app.ceiling.efficiency import (
    DENSE,
    DEVICE_CLASSES,
    FAR,
    HYBRID,
    LEAST_ROWS,
    MODEL_KINDS,
    MOE,
    PublishedGroup,
    decode_group,
    device_class,
    is_slow_prefill,
    judge,
    least_usual,
    model_kind,
    prefill_group,
    published_rows,
)
from app.ceiling.geometry import Geometry, Part, Source, Weights
from app.ceiling.prefill import prefill
from app.hardware.catalogue import CatalogueDevice, built_in
from tests.ceiling.published_rows import geometry_of, of_catalogue
from tests.ceiling.test_worked import rows as worked_rows

GROUP = PublishedGroup("dense models", "some device", 19, 0.55, 0.72, 0.85)
PREFILLS = [row for row in published_rows() if row["prefill_share_percent"]]


def model(experts: int = 0, state_bytes: int = 0) -> Geometry:
    weights = Weights(Part.of(8e9, 4.5), Part(0, 0))
    geometry = Geometry(Source.TYPED, "m", weights, None)
    return replace(geometry, experts_total=experts, state_bytes=state_bytes)


def class_of(device: CatalogueDevice) -> str | None:
    return device_class(device.name, device.vendor, device.kind, device.memory_kind)


@pytest.mark.parametrize(
    ("geometry", "kind"),
    [
        (model(), DENSE),
        (model(experts=128), MOE),
        (model(state_bytes=1 << 20), HYBRID),
        (model(experts=256, state_bytes=1 << 20), HYBRID),
    ],
)
def test_each_model_has_its_kind(geometry: Geometry, kind: str) -> None:
    assert model_kind(geometry) == kind


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RTX 3090", "nvidia"),
        ("RTX A6000", "nvidia"),
        ("L40S", "nvidia"),
        ("H100 SXM5 80GB", "nvidia_hbm"),
        ("Apple M3 Ultra", "apple"),
        ("Apple M5 Pro", "apple_matrix"),
        ("Radeon 8060S", "amd_apu"),
        ("DGX Spark (GB10)", "dgx_spark"),
        ("Jetson AGX Orin 64GB", None),
        ("Radeon RX 7900 XTX", "amd"),
        ("Arc B580", "intel"),
        ("Lunar Lake (Arc 140V)", None),
        ("DDR5-6000 dual channel", "cpu"),
    ],
)
def test_each_device_has_its_class(name: str, expected: str | None) -> None:
    device = built_in().find(name).device
    assert device is not None
    assert class_of(device) == expected


def test_each_published_result_is_of_a_known_kind_and_class() -> None:
    assert len(published_rows()) > 100
    for row in published_rows():
        assert row["model_kind"] in MODEL_KINDS
        assert row["device_class"] in DEVICE_CLASSES
        assert row["source"]
        assert "://" not in row["source"]
        assert 0 < float(row["decode_share_percent"]) <= 100
        if row["device_class"] != "cpu":
            assert class_of(of_catalogue(row)) == row["device_class"]


def test_decode_shares_follow_from_bytes_and_bandwidth() -> None:
    worked_by_result = {
        (row["quantization"], row["depth"], row["tokens_per_s"]): row for row in worked_rows("published.csv")
    }
    compared = 0
    for row in published_rows():
        worked_row = worked_by_result.get((row["quantization"], row["depth"], row["decode_tokens_per_s"]))
        if worked_row and row["device_class"] != "cpu":
            bandwidth = of_catalogue(row).bandwidth_bytes_per_s
            n_bytes = float(worked_row["bytes_per_token_gb"]) * 1e9
            share = float(row["decode_tokens_per_s"]) * n_bytes / bandwidth
            assert float(row["decode_share_percent"]) == pytest.approx(100 * share, rel=0.01)
            compared += 1
    assert compared > 60


def test_prefill_shares_follow_from_operations_and_peak() -> None:
    compared = 0
    for row in PREFILLS:
        geometry, device = geometry_of(row), of_catalogue(row)
        if geometry is None:
            continue
        ceiling = prefill(
            geometry,
            [CeilingDevice(device.name, device.bandwidth_bytes_per_s, device.peak_flops)],
            int(row["prefill_tokens"]),
            int(row["depth"]),
        )
        assert ceiling is not None
        share = float(row["prefill_tokens_per_s"]) / ceiling.tokens_per_s
        assert float(row["prefill_share_percent"]) == pytest.approx(100 * share, rel=0.1), row
        compared += 1
    assert compared > 45


@pytest.mark.parametrize("column", ["decode_share_percent", "prefill_share_percent"])
def test_fewer_than_five_results_judge_nothing(column: str) -> None:
    group_of = decode_group if column.startswith("decode") else prefill_group
    for key in DEVICE_CLASSES:
        merged = {"apple", "apple_matrix"} if column.startswith("decode") and key.startswith("apple") else {key}
        for kind in MODEL_KINDS:
            matching = [row for row in published_rows() if row["device_class"] in merged and row["model_kind"] == kind]
            group = group_of(key, kind)
            assert (group is None) == (sum(bool(row[column]) for row in matching) < LEAST_ROWS)
            if group is not None:
                assert 0 < group.low <= group.median <= group.high <= 1
    assert group_of(None, DENSE) is None


@pytest.mark.parametrize(
    ("key", "kind", "percent"),
    [
        ("nvidia", DENSE, 73),
        ("apple", DENSE, 67),
        ("apple_matrix", DENSE, 67),
        ("amd_apu", MOE, 77),
        ("amd_apu", HYBRID, 62),
        ("dgx_spark", MOE, 77),
        ("nvidia_hbm", DENSE, 41),
        ("intel", DENSE, 74),
    ],
)
def test_medians_of_decode(key: str, kind: str, percent: int) -> None:
    group = decode_group(key, kind)
    assert group is not None
    assert round(100 * group.median) == percent


@pytest.mark.parametrize(("key", "kind"), [("nvidia", MOE), ("nvidia", HYBRID), ("amd", MOE), ("nvidia_hbm", HYBRID)])
def test_a_low_share_of_another_kind_is_not_called_bad(key: str, kind: str) -> None:
    """A mixture of experts at 20 % of the ceiling of a GPU is not worse than dense models, which are not its kind."""
    assert judge(0.2, decode_group(key, kind)) == ""


@pytest.mark.parametrize(
    ("share", "begins"),
    [
        (0.1, "worse than all 19 published results for dense models on some device"),
        (0.58, "worse than usual: the median of 19 published results"),
        (0.65, "usual: "),
        (0.8, "usual: "),
        (0.84, "better than usual: "),
        (0.9, "better than all 19 published results"),
        (1.2, "above the ceiling"),
    ],
)
def test_a_share_is_judged_beside_the_median(share: float, begins: str) -> None:
    verdict = judge(share, GROUP)
    assert verdict.startswith(begins)
    assert share > 1 or verdict.endswith("72.0 %")


def test_the_median_itself_is_usual() -> None:
    for key in DEVICE_CLASSES:
        for kind in MODEL_KINDS:
            if group := decode_group(key, kind):
                assert judge(group.median, group).startswith("usual: ")
                assert least_usual(group) < group.median


@pytest.mark.parametrize("pattern", [r"nvidia|dgx", r"apple", r".*"])
def test_normal_prefills_are_seldom_called_slow(pattern: str) -> None:
    of_class = [row for row in PREFILLS if re.match(pattern, row["device_class"])]
    slow = [
        row
        for row in of_class
        if is_slow_prefill(
            float(row["prefill_share_percent"]) / 100, prefill_group(row["device_class"], row["model_kind"])
        )
    ]
    assert len(of_class) >= 15
    assert len(slow) <= 0.1 * len(of_class)


def test_a_prefill_far_below_its_peers_is_slow() -> None:
    group = prefill_group("nvidia", DENSE)
    assert group is not None
    assert 0.1 < group.median < 0.25  # published prefill reaches 16 % of the fastest peak
    assert is_slow_prefill(0.9 * FAR * group.median, group)
    assert not is_slow_prefill(1.1 * FAR * group.median, group)
    assert not is_slow_prefill(0.001, None)
