"""The arithmetic of memory bandwidth: transfers a second x bus width.

The traps: a clock in MHz is half of the data rate in MT/s (two transfers a clock); a DDR5 module has two 32-bit
sub-channels and is still one 64-bit channel; one module in a board for two is one channel.
"""

import re

from app.core.errors import BadInput
from app.core.i18n import _

CHANNEL_BITS = 64

# MT/s that parts of a kind run at, down to what power saving and cheap boards do and up to what is overclocked
DATA_RATES_MT_PER_S = {
    "DDR2": (400, 1066),
    "DDR3": (800, 3200),
    "DDR4": (1600, 5400),
    "DDR5": (3200, 12800),
    "LPDDR3": (800, 2133),
    "LPDDR4": (1600, 4300),
    "LPDDR4X": (1600, 4300),
    "LPDDR5": (3200, 8600),
    "LPDDR5X": (3200, 10800),
    "GDDR5": (3600, 9100),
    "GDDR5X": (9000, 14100),
    "GDDR6": (9000, 24100),
    "GDDR6X": (18000, 24100),
    "GDDR7": (18000, 40000),
    "HBM2": (1000, 2600),
    "HBM2E": (2400, 3700),
    "HBM3": (4000, 6500),
    "HBM3E": (5200, 10000),
}
ANY_DATA_RATE = (200, 40000)

_SPEED = re.compile(
    r"(?:(?P<kind>(?:LP|G)?DDR\d\w?|HBM\d\w?)[\s-]*)?(?P<number>[\d.,]+)?\s*(?P<unit>MT/?s|MHz|GT/?s|Gbps)?", re.I
)


def bandwidth_bytes_per_s(data_rate_mt_per_s: float, bus_bits: int) -> float:
    """Transfers a second times the width of the bus.

    >>> bandwidth_bytes_per_s(6000, 2 * CHANNEL_BITS) / 1e9
    96.0
    """
    return data_rate_mt_per_s * 1e6 * bus_bits / 8


def data_rate_of_clock(mhz: float) -> float:
    """The data rate in MT/s of a memory clock in MHz: two transfers a clock.

    >>> data_rate_of_clock(3000)
    6000
    """
    return 2 * mhz


def parse_speed(text: str) -> tuple[str, float | None]:
    """Kind and data rate in MT/s of what a person typed: `DDR5-6000`, `LPDDR5X 8533 MT/s`, `DDR4`, `3200`.

    Raises BadInput, asking for MT/s, where a clock was given or the rate does not fit the kind: neither is guessed.

    >>> parse_speed("DDR5-6000"), parse_speed("28 Gbps"), parse_speed("lpddr5x")
    (('DDR5', 6000.0), ('', 28000.0), ('LPDDR5X', None))
    """
    match = _SPEED.fullmatch(text.strip())
    if not match:
        raise BadInput(
            _("A memory speed is written such as DDR5-6000 or 3200 MT/s, not {typed!r}.", typed=text.strip()[:40])
        )
    kind, unit = (match["kind"] or "").upper(), (match["unit"] or "").lower()
    if not match["number"]:
        return kind, None
    try:
        number = float(match["number"].replace(",", ""))
    except ValueError as error:
        raise BadInput(_("A memory speed needs a number, not {typed!r}.", typed=match["number"][:40])) from error
    if unit == "mhz":
        raise BadInput(
            _(
                "{number:g} MHz may be the clock ({rate:g} MT/s) or the data rate ({number:g} MT/s): "
                "give the data rate in MT/s.",
                number=number,
                rate=data_rate_of_clock(number),
            )
        )
    rate = number * 1000 if unit.startswith("g") else number
    check_data_rate(rate, kind)
    return kind, rate


def check_data_rate(rate: float, kind: str = "") -> None:
    """Raises BadInput when no memory of this kind runs at `rate` MT/s."""
    low, high = DATA_RATES_MT_PER_S.get(kind.upper(), ANY_DATA_RATE)
    if low <= rate <= high:
        return
    name = kind or "Memory"
    if low <= data_rate_of_clock(rate) <= high:
        raise BadInput(
            _(
                "{name} runs at {low:,} MT/s or more, so {rate:g} looks like its clock in MHz: "
                "the data rate would be {data_rate:g} MT/s.",
                name=name,
                low=low,
                rate=rate,
                data_rate=data_rate_of_clock(rate),
            )
        )
    raise BadInput(
        _("{name} runs at {low:,} to {high:,} MT/s, not at {rate:g}.", name=name, low=low, high=high, rate=rate)
    )


def check_bus_bits(bits: int) -> None:
    """Raises BadInput for a width that no memory bus has."""
    if bits % 16 or not 16 <= bits <= 16384:
        raise BadInput(_("A memory bus is a multiple of 16 bits wide (64 for each channel), not {bits}.", bits=bits))
