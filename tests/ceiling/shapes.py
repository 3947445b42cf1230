"""Models and devices to compute with."""

from app.ceiling.bytes_per_step import Step, step
from app.ceiling.decode import Device
from app.ceiling.geometry import Geometry, from_parameter_counts
from app.ceiling.hf_config import from_config
from app.ceiling.number_formats import KvTypes
from tests.ceiling.models import MODELS

LLAMA_8B = from_config(MODELS["Llama-3.1-8B"], 16)
H100 = Device.of("H100 SXM", 3350, 989)


def of_bytes(n_bytes: float) -> Step:
    """A step that reads so many bytes of weights."""
    decode_step = step(from_parameter_counts(n_bytes, n_bytes, 8))
    assert decode_step is not None
    return decode_step


def stepped(geometry: Geometry, context: int = 0, kv: str = "f16", batch: int = 1) -> Step:
    decode_step = step(geometry, context, KvTypes.parse(kv), batch)
    assert decode_step is not None
    return decode_step
