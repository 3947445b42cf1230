"""Lines of `app/ceiling/published.csv` as models and devices."""

from collections.abc import Mapping

from app.ceiling.geometry import Geometry
from app.ceiling.hf_config import from_config
from app.hardware.catalogue import CatalogueDevice, built_in
from tests.ceiling.models import MODELS, MORE

BITS = {"F16": 16, "BF16": 16, "Q8_0": 8.5, "Q4_K_M": 4.9, "Q4_0": 4.55, "MXFP4": 4.64}
SHAPES = {**MODELS, **MORE, "Llama-3-8B": MODELS["Llama-3.1-8B"], "Llama-3-70B": MODELS["Llama-3.3-70B"]}


def of_catalogue(row: Mapping[str, str]) -> CatalogueDevice:
    """One of its devices: `GeForce RTX 3090 x2`, `GeForce RTX 5070 Ti + GeForce RTX 5060 Ti`."""
    name, _, count = row["device"].partition(" + ")[0].rpartition(" x")
    device = built_in().find(name if name and count.isdigit() else row["device"].partition(" + ")[0]).device
    assert device is not None, row["device"]
    return device


def geometry_of(row: Mapping[str, str]) -> Geometry | None:
    """None where its shape is not among those of the tests."""
    shape = SHAPES.get(row["model"])
    return from_config(shape, BITS[row["quantization"]]) if shape else None
