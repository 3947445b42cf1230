"""Fields of a form as typed, and their parsers. Invalid input raises BadInput with one sentence."""

from collections.abc import Collection, Iterable

from app.core.errors import BadInput
from app.core.i18n import _
from app.core.units import GIGA, read_number

MAX_QUANTITY = 1e18
"""The largest number of bytes, operations or parameters: it fits into an integer column and into a `Device`."""


class WrongField(BadInput):
    """BadInput with the name of the wrong field."""

    def __init__(self, sentence: str, field: str) -> None:
        super().__init__(sentence)
        self.field = field


class Fields:
    """The fields of a form as sent by a browser: texts by name; a name may occur several times, in order."""

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        self._items = list(items)

    def get(self, name: str, default: str = "") -> str:
        return next((value for key, value in self._items if key == name), default)

    def items(self, without: Collection[str] = ()) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self._items if key not in without]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._items if key == name]

    def nth(self, name: str, n: int) -> str:
        """The n-th of several fields of a name, from 0; empty where there are fewer."""
        values = self.all(name)
        return values[n].strip() if n < len(values) else ""

    def starting_with(self, prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): value for key, value in self._items if key.startswith(prefix)}

    def text(self, name: str, title: str, max_chars: int) -> str:
        value = self.get(name).strip()
        if len(value) > max_chars:
            raise WrongField(_("{title} is longer than {longest:,} characters.", title=title, longest=max_chars), name)
        return value

    def required(self, name: str, title: str, max_chars: int) -> str:
        value = self.text(name, title, max_chars)
        if not value:
            raise WrongField(_("{title} is missing.", title=title), name)
        return value

    def integer(self, name: str, title: str) -> int | None:
        return parse_int(self.get(name), title)


def parse_int(text: str, title: str) -> int | None:
    """A whole number; None for an empty text. Raises BadInput."""
    if not text.strip():
        return None
    wrong = BadInput(_("{title} must be a whole number, not {text!r}.", title=title, text=text.strip()[:40]))
    try:
        value = read_number(text)
    except ValueError as error:
        raise wrong from error
    if value != int(value) or abs(value) >= 2**53:
        raise wrong
    return int(value)


def format_input(value: float | None, factor: float = GIGA) -> str:
    """A stored quantity in units of `factor`, as a person would type it; empty for None."""
    return "" if value is None else f"{value / factor:.6g}"


def format_short(value: float | None, factor: float = GIGA) -> str:
    """A stored quantity with three significant digits.

    >>> format_short(25_769_803_776), format_short(137e9), format_short(1.1e12), format_short(None)
    ('25.8', '137', '1100', '')
    """
    return "" if value is None else f"{float(f'{value / factor:.3g}'):g}"


def parse_rounded(text: str, title: str, exact: str, factor: float = GIGA) -> int | None:
    """A whole quantity in units of `factor`; `exact` itself where `text` is its rounded form, so that an unchanged
    field loses no digits. Raises BadInput."""
    exact_value = int(exact) if exact.isdecimal() and len(exact) < 19 else 0
    if exact_value and text.strip() == format_short(exact_value, factor):
        return exact_value
    value = parse_quantity(text, title, factor)
    if value is not None and value < 1:
        raise BadInput(_("{title} must be more than zero and not absurdly large.", title=title))
    return None if value is None else int(value)


def parse_quantity(text: str, title: str, factor: float = GIGA) -> float | None:
    """A positive number in units of `factor`; None for an empty text. Raises BadInput."""
    if not text.strip():
        return None
    try:
        value = read_number(text) * factor
    except ValueError as error:
        hint = _(" (with a point for decimals)") if "," in text else ""
        raise BadInput(
            _("{title} must be a number{hint}, not {text!r}.", title=title, hint=hint, text=text.strip()[:40])
        ) from error
    if not 0 < value < MAX_QUANTITY:
        raise BadInput(_("{title} must be more than zero and not absurdly large.", title=title))
    return value
