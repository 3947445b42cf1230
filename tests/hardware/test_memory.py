"""The arithmetic of memory bandwidth and its traps."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadInput
from app.core.units import format_bytes
from app.hardware.memory import (
    CHANNEL_BITS,
    bandwidth_bytes_per_s,
    check_bus_bits,
    check_data_rate,
    data_rate_of_clock,
    parse_speed,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("value", "unit", "bits", "gb_per_s"),
    [
        pytest.param(6000, "MT/s", 128, 96.0, id="DDR5-6000 dual"),
        pytest.param(3000, "MHz", 128, 96.0, id="DDR5 shown as 3000 MHz dual"),
        pytest.param(3200, "MT/s", 64, 25.6, id="DDR4-3200 single DIMM"),
        pytest.param(4800, "MT/s", 768, 460.8, id="DDR5-4800 12 channel"),
        pytest.param(8533, "MT/s", 128, 136.528, id="LPDDR5X-8533 128 bit"),
        pytest.param(28000, "MT/s", 128, 448.0, id="GDDR7 28 Gbps 128 bit"),
        pytest.param(1600, "MHz", 8 * CHANNEL_BITS, 204.8, id="DDR4 shown as 1600 MHz, 8 channels"),
    ],
)
def test_bandwidth_is_transfers_times_width(value: float, unit: str, bits: int, gb_per_s: float) -> None:
    rate = data_rate_of_clock(value) if unit == "MHz" else value
    assert bandwidth_bytes_per_s(rate, bits) / 1e9 == pytest.approx(gb_per_s, rel=1e-9)


def test_what_is_measured_and_what_is_advertised_make_two_ceilings() -> None:
    bytes_per_token, tokens_per_s = 2e9, 5.2
    advertised, measured = 17.1e9, 11.59e9
    assert advertised / bytes_per_token == pytest.approx(8.55)
    assert measured / bytes_per_token == pytest.approx(5.8, rel=2e-3)
    assert 100 * tokens_per_s * bytes_per_token / advertised == pytest.approx(60.8, abs=0.05)
    assert 100 * tokens_per_s * bytes_per_token / measured == pytest.approx(89.7, abs=0.05)


def test_gib_are_turned_into_bytes_before_gb_per_s_divide_them() -> None:
    model_bytes = 13.34 * GIB
    assert 448e9 / model_bytes == pytest.approx(31.28, abs=0.005)
    assert bandwidth_bytes_per_s(28000, 128) / model_bytes == pytest.approx(31.28, abs=0.005)
    assert format_bytes(round(model_bytes)) == "14.3 GB"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("", None)),
        ("DDR5-6000", ("DDR5", 6000)),
        ("ddr4 3200 MT/s", ("DDR4", 3200)),
        ("LPDDR5X-8533", ("LPDDR5X", 8533)),
        ("GDDR6X 21 Gbps", ("GDDR6X", 21000)),
        ("5,600 MTs", ("", 5600)),
        ("DDR4", ("DDR4", None)),
    ],
)
def test_a_speed_is_read_as_it_is_written(text: str, expected: tuple[str, float | None]) -> None:
    assert parse_speed(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("3000 MHz", "MT/s"),
        ("DDR5 3000 MHz", "6000 MT/s"),
        ("DDR5-3000", "its clock in MHz: the data rate would be 6000 MT/s"),
        ("DDR4-12000", "1,600 to 5,400"),
        ("quick", "such as DDR5-6000"),
        ("1.2.3", "needs a number"),
        ("12", "not at 12"),
    ],
)
def test_what_is_doubtful_is_asked_and_never_guessed(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        parse_speed(text)


@pytest.mark.parametrize("bits", [0, -64, 8, 100, 1 << 20])
def test_a_width_no_bus_has_is_refused(bits: int) -> None:
    with pytest.raises(BadInput, match="multiple of 16"):
        check_bus_bits(bits)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(BadInput):  # the one error that it may raise
        kind, rate = parse_speed(text)
        if rate is not None:
            check_data_rate(rate, kind)
