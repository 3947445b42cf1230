"""Goes through the header of a GGUF file that nobody vouches for: what reading it may cost is bounded beforehand."""

import struct
from typing import Any, BinaryIO

from app.core.i18n import _

MAX_BYTES_READ = 64 << 20
MAX_STRINGS = 2_000_000
MAX_TENSORS = 65_536
MAX_KEYS = 16_384
MAX_NUMBERS = 200_000
"""Kept of all arrays together."""
MAX_NAME = 256
MAX_DEPTH = 8
NESTED_COST = 20
"""An array within an array costs as much as so many strings."""
KEPT_STRING = 1_024
KEPT_ARRAY = 4_096
FIRST_CHUNK, LARGEST_CHUNK = 1 << 14, 1 << 20
"""Read at once: little first, since most shards have a short header."""

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class GGUFFormatError(Exception):
    """What is wrong with a GGUF file; the message is the end of a sentence."""


class Budget:
    """What reading all shards of a model together may cost."""

    def __init__(self) -> None:
        self.bytes_read = MAX_BYTES_READ
        self.strings = MAX_STRINGS
        self.numbers = MAX_NUMBERS
        self.tensors = MAX_TENSORS
        self.keys = MAX_KEYS

    def spend_entries(self, tensors: int, keys: int) -> None:
        """Raises GGUFFormatError where the files claim more tensors or keys than any model has."""
        self.tensors -= tensors
        self.keys -= keys
        if self.tensors < 0 or self.keys < 0:
            raise GGUFFormatError(_("it claims {tensors:,} tensors and {keys:,} keys", tensors=tensors, keys=keys))

    def spend_bytes(self, count: int) -> None:
        """Raises GGUFFormatError where more is read than any real header has."""
        self.bytes_read -= count
        if self.bytes_read < 0:
            raise GGUFFormatError(_("its header is longer than that of any real model"))

    def spend_elements(self, strings: int = 0, numbers: int = 0) -> None:
        """Raises GGUFFormatError where lists are longer than those of any real model."""
        self.strings -= strings
        self.numbers -= numbers
        if self.strings < 0 or self.numbers < 0:
            raise GGUFFormatError(_("its lists are longer than those of any real model"))


class Cursor:
    """Goes forward through a file in chunks; every length is compared with the file's size before it is believed."""

    def __init__(self, file: BinaryIO, size: int, order: str, budget: Budget, position: int) -> None:
        self._file, self._size, self._budget = file, size, budget
        self._formats = {code: struct.Struct(order + code) for code in _NUMBERS.values()}
        self._order = order
        self._chunk, self._chunk_at, self._offset = b"", position, 0
        self._read_next = FIRST_CHUNK

    @property
    def position(self) -> int:
        """Offset in the file of the next byte."""
        return self._chunk_at + self._offset

    def _load(self, count: int) -> None:
        """Makes the next `count` bytes stand in the chunk."""
        position = self.position
        if count > self._size - position:
            raise GGUFFormatError(_("it is cut short, or a length in it is a lie"))
        self._file.seek(position)
        chunk = self._file.read(max(count, self._read_next))
        self._read_next = min(4 * self._read_next, LARGEST_CHUNK)
        self._budget.spend_bytes(len(chunk))
        if len(chunk) < count:
            raise GGUFFormatError(_("it ends within its header"))
        self._chunk, self._chunk_at, self._offset = chunk, position, 0

    def take(self, count: int) -> bytes:
        """Returns the next `count` bytes."""
        if self._offset + count > len(self._chunk):
            self._load(count)
        start = self._offset
        self._offset += count
        return self._chunk[start : self._offset]

    def skip(self, count: int) -> None:
        """Goes past the next `count` bytes without reading them."""
        if count > self._size - self.position:
            raise GGUFFormatError(_("it is cut short, or a length in it is a lie"))
        self._offset += count

    def number(self, code: str) -> Any:
        """Returns the next number, by its `struct` code."""
        layout = self._formats[code]
        if self._offset + layout.size > len(self._chunk):
            self._load(layout.size)
        (value,) = layout.unpack_from(self._chunk, self._offset)
        self._offset += layout.size
        return value

    def name(self) -> str:
        """Returns the next string, where a name is expected."""
        length = self.number("Q")
        if length > MAX_NAME:
            raise GGUFFormatError(_("a name in it is {length:,} bytes long", length=length))
        return self.take(length).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        """Returns one value; None where it is longer than what is kept."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            length = self.number("Q")
            if length <= KEPT_STRING:
                return self.take(length).decode("utf-8", errors="replace")
            self.skip(length)
            return None
        if kind == _ARRAY:
            return self._array(depth=1)
        raise GGUFFormatError(_("a value in it has the unknown kind {kind}", kind=kind))

    def _array(self, depth: int) -> list[Any] | None:
        kind, count = self.number("I"), self.number("Q")
        if kind in _NUMBERS:
            code = _NUMBERS[kind]
            n_bytes = count * self._formats[code].size
            if count > KEPT_ARRAY:
                self.skip(n_bytes)
                return None
            self._budget.spend_elements(numbers=count)
            return list(struct.unpack(f"{self._order}{count}{code}", self.take(n_bytes)))
        self._budget.spend_elements(strings=count * (NESTED_COST if kind == _ARRAY else 1))
        if kind == _STRING:
            self._skip_strings(count)
        elif kind == _ARRAY and depth < MAX_DEPTH:
            for _place in range(count):
                self._array(depth + 1)
        elif kind == _ARRAY:
            raise GGUFFormatError(_("its lists nest too deep"))
        else:
            raise GGUFFormatError(_("a list in it holds the unknown kind {kind}", kind=kind))
        return None

    def _skip_strings(self, count: int) -> None:
        """The vocabulary: hundreds of thousands of short strings, so this loop is as flat as it can be."""
        length_of = self._formats["Q"].unpack_from
        while count:
            if self._offset + 8 > len(self._chunk):
                self._load(8)
            chunk, offset, last = self._chunk, self._offset, len(self._chunk) - 8
            while count and offset <= last:
                offset += 8 + length_of(chunk, offset)[0]
                count -= 1
            self._offset = offset
            if self.position > self._size:
                raise GGUFFormatError(_("it is cut short, or a length in it is a lie"))
