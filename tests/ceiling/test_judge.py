"""Is a share of the roof good? Beside published results of the same kind."""

from dataclasses import replace

import pytest

from app.ceiling.efficiency import PUBLISHED_SHARES, judge, published_kind
from app.ceiling.geometry import Geometry, Part, Source, Weights
from app.hardware.catalogue import built_in


def model(billions: float, bits: float = 4.5, experts: int = 0) -> Geometry:
    weights = Weights(Part.of(billions * 1e9, bits), Part(0, 0))
    return replace(Geometry(Source.TYPED, "m", weights, None), experts_total=experts)


@pytest.mark.parametrize(
    ("name", "geometry", "kind"),
    [
        ("RTX 3090", model(8), "geforce"),
        ("RTX 3090", model(8, bits=16), "all"),
        ("RTX 3090", model(30, experts=128), "all"),
        ("RTX A6000", model(8), "all"),
        ("H100 SXM5 80GB", model(8, bits=16), "datacenter"),
        ("A100 SXM4 80GB", model(70), "all"),
        ("Apple M3 Ultra", model(70), "apple"),
        ("Radeon 8060S", model(30, experts=128), "strix_halo"),
        ("DGX Spark (GB10)", model(120, experts=128), "dgx_spark"),
        ("Radeon RX 7900 XTX", model(8), "amd_discrete"),
        ("DDR5-6000 dual channel", model(8), "all"),
    ],
)
def test_each_device_has_its_kind(name: str, geometry: Geometry, kind: str) -> None:
    device = built_in().find(name).device
    assert device is not None
    assert published_kind(device.name, device.vendor, device.kind, geometry) == kind


@pytest.mark.parametrize(
    ("share", "begins"),
    [
        (0.1, "worse than any published result"),
        (0.5, "below what is usual"),
        (0.65, "usual"),
        (0.75, "usual"),
        (0.85, "better than usual"),
        (0.9, "better than any published result"),
        (1.2, "more than all"),
    ],
)
def test_a_share_is_judged_beside_the_median(share: float, begins: str) -> None:
    said = judge(share, "geforce")
    assert said.startswith(begins)
    assert share > 1 or said.endswith("the median of GeForce cards with 4 bit dense models is 71 %")


@pytest.mark.parametrize("kind", PUBLISHED_SHARES)
def test_the_median_itself_is_usual(kind: str) -> None:
    assert judge(PUBLISHED_SHARES[kind][0] / 100, kind).startswith("usual: ")
