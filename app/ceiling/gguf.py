"""Reads the header of a GGUF file, and of all shards of a split one: key-values and tensor table, never tensor data.

The file may be hostile or broken. What a header may cost is bounded beforehand (bytes read, strings walked, entries),
long values are skipped by seeking, and whatever is wrong becomes one BadInput.
"""

import re
import stat
import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from app.ceiling.number_formats import GGML_TYPES
from app.core.errors import BadInput
from app.core.i18n import _

MAX_BYTES_READ = 64 << 20
MAX_STRINGS = 2_000_000
MAX_TENSORS = 65_536
MAX_KEYS = 16_384
MAX_NUMBERS = 200_000
"""The most numbers kept of all arrays together."""
MAX_NAME = 256
MAX_DEPTH = 8
NESTED_COST = 20
"""An array within an array costs as much as this many strings."""
KEPT_STRING = 1_024
KEPT_ARRAY = 4_096
FIRST_CHUNK, LARGEST_CHUNK = 1 << 14, 1 << 20
"""The bytes read at once: little first, since most shards have a short header."""

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class GGUFFormatError(Exception):
    """What is wrong with a GGUF file; the message is the end of a sentence."""


class Budget:
    """Limits what reading all shards of a model together may cost."""

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
    """Reads a file forward in chunks; every length is checked against the file's size before it is used."""

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
        """Loads the next `count` bytes into the chunk."""
        position = self.position
        if count > self._size - position:
            raise GGUFFormatError(_("it is cut short, or a length in it is wrong"))
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
            raise GGUFFormatError(_("it is cut short, or a length in it is wrong"))
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
        """Skips strings: a vocabulary has hundreds of thousands of short ones, so this loop is as flat as possible."""
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
                raise GGUFFormatError(_("it is cut short, or a length in it is wrong"))


MAGIC = b"GGUF"
MAX_DIMENSIONS = 4
MAX_BITS = 64
"""The most bits of one weight, in whatever number format."""
MAX_ALIGNMENT = 1 << 20

_SHARD_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A row of the tensor table."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    n_bytes: int
    is_sized_by_place: bool = False
    """Its number format is unknown: `n_bytes` reach to the next tensor, or to the end of the file."""

    @property
    def elements(self) -> int:
        """Number of weights."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """Key-values and tensor table of a model."""

    metadata: Mapping[str, Any]
    """Scalars, short strings and short arrays of numbers; long values are left out."""
    tensors: tuple[Tensor, ...]


def is_gguf(start: bytes) -> bool:
    """Whether a file begins as GGUF files do."""
    return start.startswith(MAGIC)


def read_header(path: Path) -> Header:
    """Reads the header of a model from any shard of a split file. Raises BadInput."""
    budget = Budget()
    header = _read_file(path, budget)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return header
    headers = [_read_shard(shard, index, count, budget) for index, shard in enumerate(_shards(path, count))]
    tensors = tuple(tensor for shard in headers for tensor in shard.tensors)
    promised = headers[0].metadata.get("split.tensors.count", len(tensors))
    if promised != len(tensors):
        raise BadInput(
            _(
                "The shards of {name} hold {count} tensors, but should hold {promised}.",
                name=path.name,
                count=len(tensors),
                promised=promised,
            )
        )
    _refuse_twins(path, tensors)
    return Header(headers[0].metadata, tensors)


def _shards(path: Path, count: int) -> list[Path]:
    match = _SHARD_NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise BadInput(
            _(
                "{name} is one of {count} shards, so its name must end like -00001-of-{count:05}.gguf.",
                name=path.name,
                count=count,
            )
        )
    shards = []
    for number in range(1, count + 1):
        shard = path.with_name(f"{match['stem']}-{number:05}-of-{count:05}.gguf")
        if not shard.exists():
            raise BadInput(
                _(
                    "The model is split into {count} files, and {shard} is missing beside {name}.",
                    count=count,
                    shard=shard.name,
                    name=path.name,
                )
            )
        shards.append(shard)
    return shards


def _read_shard(path: Path, index: int, count: int, budget: Budget) -> Header:
    header = _read_file(path, budget)
    if (header.metadata.get("split.no"), header.metadata.get("split.count")) != (index, count):
        raise BadInput(_("{name} states another shard number inside than in its name.", name=path.name))
    return header


def _read_file(path: Path, budget: Budget) -> Header:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(_("{name} is not a file.", name=path.name))
        with path.open("rb", buffering=0) as file:
            return _parse(path, file, path.stat().st_size, budget)
    except OSError as error:
        raise BadInput(_("{name} cannot be read: {why}.", name=path.name, why=_(str(error.strerror)))) from error
    except GGUFFormatError as error:
        raise BadInput(_("{name} is not a valid GGUF file: {error}.", name=path.name, error=error)) from error


def _parse(path: Path, file: BinaryIO, size: int, budget: Budget) -> Header:
    start = file.read(8) if size else b""  # virtual files of the system have no size, and reading one may block
    if not is_gguf(start):
        raise GGUFFormatError(_("it does not begin with the letters GGUF"))
    if len(start) < 8:
        raise GGUFFormatError(_("it ends within its header"))
    order = "<" if struct.unpack("<I", start[4:])[0] <= 0xFFFF else ">"
    (version,) = struct.unpack(f"{order}I", start[4:])
    if version not in (2, 3):
        raise GGUFFormatError(_("its version is {version}, and Roofmark reads 2 and 3", version=version))
    cursor = Cursor(file, size, order, budget, position=8)
    tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
    budget.spend_entries(tensor_count, key_count)
    metadata: dict[str, Any] = {}
    for _key in range(key_count):
        key = cursor.name()
        if key in metadata:
            raise GGUFFormatError(_("it has the key {key!r} twice", key=key))
        metadata[key] = cursor.value(cursor.number("I"))
    placed = [_tensor(cursor) for _place in range(tensor_count)]
    data_bytes = size - _aligned(cursor.position, metadata)
    placed = _sized_by_place(placed, data_bytes)
    tensors = tuple(tensor for tensor, _position in placed)
    _check_places(placed, data_bytes)
    _refuse_twins(path, tensors)
    return Header({key: value for key, value in metadata.items() if value is not None}, tensors)


def _tensor(cursor: Cursor) -> tuple[Tensor, int]:
    """A tensor and its offset within the data."""
    name = cursor.name()
    dimensions = cursor.number("I")
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise GGUFFormatError(_("the tensor {name!r} has {dimensions} dimensions", name=name, dimensions=dimensions))
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    number = cursor.number("I")
    is_unknown = number not in GGML_TYPES
    type_name, block_elements, block_bytes = GGML_TYPES.get(number, (f"type {number}", 1, 0))
    elements = prod(shape)
    if not 0 < elements < 1 << 60 or shape[0] % block_elements:
        raise GGUFFormatError(
            _(
                "the tensor {name!r} has the shape {shape}, impossible for {type_name}",
                name=name,
                shape=" x ".join(map(str, shape)),
                type_name=type_name,
            )
        )
    return Tensor(name, type_name, shape, elements // block_elements * block_bytes, is_unknown), cursor.number("Q")


def _sized_by_place(placed: list[tuple[Tensor, int]], data_bytes: int) -> list[tuple[Tensor, int]]:
    """Tensors of a format that only a fork knows get the bytes up to the next tensor."""
    if not any(tensor.is_sized_by_place for tensor, _offset in placed):
        return placed
    offsets = sorted({offset for _tensor, offset in placed} | {data_bytes})
    return [
        (_up_to(tensor, offset, offsets) if tensor.is_sized_by_place else tensor, offset) for tensor, offset in placed
    ]


def _up_to(tensor: Tensor, offset: int, offsets: list[int]) -> Tensor:
    place = bisect_right(offsets, offset)
    n_bytes = offsets[place] - offset if place < len(offsets) else 0
    if n_bytes <= 0 or 8 * n_bytes > MAX_BITS * tensor.elements + 8 * MAX_ALIGNMENT:
        raise GGUFFormatError(
            _(
                "the tensor {name!r} has the number format {number}, which Roofmark does not know, and no size",
                name=tensor.name,
                number=tensor.type_name.removeprefix("type "),
            )
        )
    return replace(tensor, n_bytes=n_bytes)


def _aligned(position: int, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= MAX_ALIGNMENT:
        raise GGUFFormatError(_("its alignment is {alignment!r}", alignment=alignment))
    return -(-position // alignment) * alignment


def _check_places(placed: list[tuple[Tensor, int]], data_bytes: int) -> None:
    for tensor, offset in placed:
        if offset + tensor.n_bytes > data_bytes:
            raise GGUFFormatError(
                _("it is cut short, the tensor {name!r} ends beyond the end of the file", name=tensor.name)
            )
    if sum(tensor.n_bytes for tensor, _ in placed) > max(data_bytes, 0):
        raise GGUFFormatError(_("its tensors are larger than the file"))


def _refuse_twins(path: Path, tensors: tuple[Tensor, ...]) -> None:
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise BadInput(_("{name} is not a valid GGUF file: it has a tensor twice.", name=path.name))
