"""Whether a model fits, and what is left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ceiling.bytes_per_step import F16, kv_bytes, step
from app.ceiling.decode import Device
from app.ceiling.fit import Fit, fit
from app.ceiling.geometry import Geometry
from app.ceiling.layout import OVERHEAD, Layout, Memory
from app.ceiling.number_formats import KvTypes
from app.ceiling.offload import Offload
from tests.seed import geometry_of

GB = 10**9
LLAMA = geometry_of("Llama-3.1-8B", 4.85)
QWEN = geometry_of("Qwen3-30B-A3B", 4.85)


def card(gigabytes: float | None, name: str = "RTX 4090") -> Memory:
    return Memory(Device(name, 1008e9), None if gigabytes is None else round(gigabytes * GB))


def fit_at(layout: Layout, geometry: Geometry = LLAMA, context: int = 32_768, kv: KvTypes = F16) -> Fit:
    at_context = step(geometry, context, kv)
    assert at_context is not None
    filled = fit(layout, geometry, at_context, kv)
    assert filled is not None
    return filled


def test_what_is_left_is_said_in_words() -> None:
    assert fit_at(Layout((card(24),))).words == (
        "It fits: weights 4.87 GB and KV cache 4.29 GB at 32,768 tokens leave 14.8 GB of 24.0 GB on RTX 4090. "
        "About 100,000 more tokens of context have room."
    )


def test_too_much_is_said_with_what_it_needs() -> None:
    filled = fit_at(Layout((card(8),)))
    assert filled.fits is False
    assert filled.words == (
        "It does not fit: RTX 4090 holds 8.00 GB, and it needs weights 4.87 GB and KV cache 4.29 GB at 32,768 tokens "
        "and at least 5 % more for the engine."
    )


def test_an_unknown_memory_is_no_verdict() -> None:
    filled = fit_at(Layout((card(None),)))
    assert (filled.fits, filled.tokens_left) == (None, None)
    assert filled.words.endswith("The memory of RTX 4090 is unknown, so nothing says whether it fits.")


def test_cards_that_share_a_model_count_as_one() -> None:
    (use,) = fit_at(Layout((card(12), card(12)))).uses
    assert (use.name, use.capacity_bytes) == ("2 × RTX 4090", 24 * GB)


def test_what_settings_leave_in_system_memory_is_counted_there() -> None:
    ram = Memory(Device("DDR5", 80e9), 64 * GB)
    on_card, in_ram = fit_at(Layout((card(8),), ram, Offload(n_cpu_moe=48)), QWEN, 8192).uses
    assert QWEN.weights is not None
    assert in_ram.weights_bytes == QWEN.weights.routed.n_bytes + QWEN.weights.unread.n_bytes
    assert on_card.cache_bytes == kv_bytes(QWEN, 8192)
    assert on_card.fits
    assert in_ram.fits


def test_a_quantized_cache_takes_less() -> None:
    (f16,), (q8,) = (fit_at(Layout((card(24),)), kv=kv).uses for kv in (F16, KvTypes("q8_0", "q8_0")))
    assert q8.cache_bytes == pytest.approx(f16.cache_bytes * 8.5 / 16, rel=1e-6)


@given(st.floats(1, 200), st.integers(1, 200_000))
def test_nothing_is_lost_and_the_room_that_is_left_holds_what_it_says(gigabytes: float, context: int) -> None:
    filled = fit_at(Layout((card(gigabytes),)), context=context)
    (use,) = filled.uses
    assert LLAMA.weights is not None
    assert use.needed_bytes == LLAMA.weights.total.n_bytes + (kv_bytes(LLAMA, context) or 0)
    if filled.tokens_left:
        assert fit_at(Layout((card(gigabytes),)), context=context + filled.tokens_left).fits
    if filled.fits is False:
        assert (1 + OVERHEAD) * use.needed_bytes > gigabytes * GB - 1
