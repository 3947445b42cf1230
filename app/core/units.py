"""Numbers and times as a person reads them. Everywhere else values are in SI units and bytes."""

import math
import re
from datetime import UTC, datetime

from app.core.i18n import N_, _, ngettext

DASH = "–"
GIGA = 1e9
TERA = 1e12


def format_number(value: float | None, digits: int = 3) -> str:
    """A number with three significant digits, no exponent, thousands separated; a dash for None.

    >>> format_number(72.4381), format_number(1288.2), format_number(0.01234), format_number(None)
    ('72.4', '1,288', '0.0123', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    # rounding may have gained a digit: 9.996 -> 10.00 -> 10.0
    if decimals and len(text.replace(",", "").replace(".", "").lstrip("-0")) > digits:
        text = f"{value:,.{decimals - 1}f}"
    return text


LONG_MS = 10_000.0
VERY_LONG_MS = 600_000.0


def unit_factor(value: float | None, unit: str) -> tuple[float, str]:
    """Returns what to multiply a value by, and the unit of the result: a time of 10 s or more is read in seconds, one
    of 10 minutes or more in minutes. Data for programs stay in milliseconds.

    >>> unit_factor(9_999, "ms"), unit_factor(12_345, "ms"), unit_factor(600_000, "ms"), unit_factor(12_345, "tok/s")
    ((1.0, 'ms'), (0.001, 's'), (1.6666666666666667e-05, 'min'), (1.0, 'tok/s'))
    """
    if unit != "ms" or value is None or not math.isfinite(value) or abs(value) < LONG_MS:
        return 1.0, unit
    return (1 / 1000, "s") if abs(value) < VERY_LONG_MS else (1 / 60_000, "min")


def quantity_parts(value: float | None, unit: str) -> tuple[str, str]:
    """Returns a value as a person reads it, and its unit.

    >>> quantity_parts(520.4, "ms"), quantity_parts(12_345, "ms"), quantity_parts(None, "ms")
    (('520', 'ms'), ('12.3', 's'), ('–', 'ms'))
    """
    factor, read_unit = unit_factor(value, unit)
    return format_number(value if value is None else value * factor), read_unit


def format_quantity(value: float | None, unit: str) -> str:
    """Returns a value with its unit.

    >>> format_quantity(520.4, "ms"), format_quantity(12_345, "ms"), format_quantity(71.23, "tok/s")
    ('520 ms', '12.3 s', '71.2 tok/s')
    """
    return " ".join(quantity_parts(value, unit)).strip()


def format_under(value: float | None, unit: str) -> str:
    """Returns a value below or beside a title that names the unit: with its own unit only where that is another.

    >>> format_under(520.4, "ms"), format_under(12_345, "ms")
    ('520', '12.3 s')
    """
    text, read_unit = quantity_parts(value, unit)
    return text if read_unit == unit else f"{text} {read_unit}"


def pair_parts(first: float, second: float, unit: str) -> tuple[str, str, str]:
    """Returns two values in one unit, and the unit: that of the larger.

    >>> pair_parts(8_000, 12_345, "ms"), pair_parts(71.23, 64.9, "tok/s")
    (('8.00', '12.3', 's'), ('71.2', '64.9', 'tok/s'))
    """
    factor, read_unit = unit_factor(max(first, second), unit)
    return format_number(first * factor), format_number(second * factor), read_unit


def plus_minus(value: float | None, spread: float | None) -> str:
    """A spread with as many decimals as its value has; empty where either is None.

    >>> format_number(72.4381), plus_minus(72.4381, 1.913), plus_minus(72.4, None), plus_minus(1288.2, 0.31)
    ('72.4', '± 1.9', '', '± 0.3')
    """
    if value is None or spread is None:
        return ""
    decimals = len(format_number(value).partition(".")[2])
    text = f"{spread:,.{decimals}f}"
    return f"± {text}" if float(text.replace(",", "")) else f"± {format_number(spread, 1)}"


WIDE = 3.0
"""An interval whose ends differ by more than this factor is far from symmetric: one ± would mislead."""


def spread(
    value: float | None, standard_deviation: float | None, low: float | None, high: float | None, unit: str = ""
) -> tuple[str, str]:
    """The spread to show behind a value and what it is: the standard deviation, or the ends of a wide interval; in the
    unit in which `quantity_parts` gives the value.

    >>> spread(72.4381, 1.913, 71, 74)[0], spread(40, 60.2, 9.1, 120)[0], spread(12_345, 250, None, None, "ms")[0]
    ('± 1.9', '(9.10 to 120)', '± 0.2')
    """
    factor, _unit = unit_factor(value, unit)
    value, standard_deviation, low, high = (
        None if figure is None else figure * factor for figure in (value, standard_deviation, low, high)
    )
    if value is not None and low is not None and high is not None and 0 < low * WIDE < high:
        ends = _("({low} to {high})", low=format_number(low), high=format_number(high))
        return ends, _("95 % interval: too asymmetric for one ±")
    return plus_minus(value, standard_deviation), _("Standard deviation of the samples")


_NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?(e[+-]?\d+)?", re.IGNORECASE)


def read_number(text: str) -> float:
    """A number from a typed text; commas may only separate thousands. Raises ValueError, also for a decimal comma.

    >>> read_number("131,072"), read_number("936.2")
    (131072.0, 936.2)
    """
    plain = text.strip().replace("_", "")
    if not _NUMBER.fullmatch(plain) or not math.isfinite(value := float(plain.replace(",", ""))):
        raise ValueError(text)
    return value


def read_share(text: str) -> float:
    """A share of 1 from a typed text, which may also be in per cent. Raises ValueError.

    >>> read_share("0.01"), read_share("1%"), read_share("2.5 %")
    (0.01, 0.01, 0.025)
    """
    value, percent_sign, rest = text.partition("%")
    if rest.strip():
        raise ValueError(text)
    return read_number(value) / 100 if percent_sign else read_number(value)


def format_duration(seconds: float | None) -> str:
    """A duration in the one or two units that suit it; a dash for None.

    >>> format_duration(0.01), format_duration(0.42), format_duration(42), format_duration(194), format_duration(7300)
    ('less than 0.1 s', '0.4 s', '42 s', '3 min 14 s', '2 h 1 min')
    """
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if seconds < 0.05:
        return _("less than 0.1 s")
    if seconds < 10:
        return _("{n} s", n=f"{seconds:.1f}")
    whole = round(seconds)
    if whole < 60:
        return _("{n} s", n=whole)
    if whole < 3600:
        return _("{minutes} min {seconds} s", minutes=whole // 60, seconds=whole % 60)
    return _("{hours} h {minutes} min", hours=whole // 3600, minutes=whole % 3600 // 60)


def format_bytes(n_bytes: int | None) -> str:
    """A number of bytes in the unit that suits it, with GB = 1e9 bytes; a dash for None.

    >>> format_bytes(25_300_000_000), format_bytes(246_587_904)
    ('25.3 GB', '247 MB')
    """
    if n_bytes is None:
        return DASH
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{format_number(value)} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def with_unit(title: str, unit: str) -> str:
    """Returns a label with its unit: `Decode tok/s`."""
    return _("{title} {unit}", title=title, unit=unit) if unit else title


def format_bandwidth(bytes_per_s: float | None) -> str:
    """A bandwidth in GB/s.

    >>> format_bandwidth(256e9), format_bandwidth(None)
    ('256 GB/s', '– GB/s')
    """
    return f"{format_number(bytes_per_s and bytes_per_s / GIGA)} GB/s"


def format_billions(parameters: int | None) -> str:
    """A model's number of parameters in billions.

    >>> format_billions(30_532_122_624)
    '30.5 B'
    """
    return f"{format_number(parameters and parameters / GIGA)} B"


def plural(count: int, noun: str) -> str:
    """A count with its noun; another language has its own forms of `{n} run` and `{n} runs` in the catalogue.

    >>> plural(1, "run"), plural(3, "run")
    ('1 run', '3 runs')
    """
    return ngettext(f"{{n}} {noun}", f"{{n}} {noun}s", count)


def format_percent(fraction: float, digits: int = 0) -> str:
    """A relative change in per cent with its sign; from 10 % on with `digits` after the point.

    >>> format_percent(0.034), format_percent(-0.12), format_percent(0.0001), format_percent(1.5)
    ('+3.4 %', '−12 %', '±0 %', '+150 %')
    """
    size = abs(100 * fraction)
    text = f"{size:.1f}" if size < 9.95 else f"{size:,.{digits}f}"
    if text == "0.0":
        return "±0 %"
    return f"{'+' if fraction > 0 else '−'}{text} %"


def format_size(fraction: float) -> str:
    """The size of a relative change in per cent, without sign and unit, for words that say its direction.

    >>> format_size(0.034), format_size(-0.12), format_size(0.0001)
    ('3.4', '12', '0.0')
    """
    size = abs(100 * fraction)
    return f"{size:.1f}" if size < 9.95 else f"{size:,.0f}"


_MONTHS = (
    N_("January"), N_("February"), N_("March"), N_("April"), N_("May"), N_("June"), N_("July"), N_("August"),
    N_("September"), N_("October"), N_("November"), N_("December"),
)  # fmt: skip


def format_date(moment: datetime) -> str:
    """Returns the day in UTC: `2026-11-02`.

    >>> format_date(datetime(2026, 11, 2, 23, 30, tzinfo=UTC))
    '2 November 2026'
    """
    utc = moment.astimezone(UTC)
    return _("{day} {month} {year}", day=utc.day, month=_(_MONTHS[utc.month - 1]), year=utc.year)


def change_interval(low: float, high: float) -> str:
    """The 95 % interval of a ratio as relative changes.

    >>> change_interval(0.92, 1.034)
    '95 % interval −8.0 % to +3.4 %'
    >>> change_interval(0.596, 0.604)
    '95 % interval −40.4 % to −39.6 %'
    """
    ends = format_percent(low - 1), format_percent(high - 1)
    if ends[0] == ends[1]:
        ends = format_percent(low - 1, digits=1), format_percent(high - 1, digits=1)
    return _("95 % interval {low} to {high}", low=ends[0], high=ends[1])


def format_age(then: datetime | None, now: datetime | None = None) -> str:
    """How long ago a time was, in one unit; the date after two months."""
    if then is None:
        return DASH
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds < 45:
        return _("just now")
    for limit, unit_seconds, template in (
        (3600, 60, N_("{n} min ago")),
        (86400, 3600, N_("{n} h ago")),
        (86400 * 60, 86400, N_("{n} d ago")),
    ):
        if seconds < limit:
            return _(template, n=max(1, round(seconds / unit_seconds)))
    return then.strftime("%Y-%m-%d")
