"""Reads the header of a GGUF file, and of all shards of a split one: key-values and tensor table, never tensor data.

The file may be hostile or broken. What a header may cost is bounded beforehand (bytes read, strings walked, entries),
long values are skipped by seeking, and whatever is wrong becomes one BadInput.
"""

import re
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from app.ceiling.types import GGML_TYPES
from app.errors import BadInput

MAGIC = b"GGUF"
MAX_BYTES_READ = 128 << 20
MAX_STRINGS = 2_000_000
MAX_TENSORS = 65_536
MAX_KEYS = 16_384
MAX_NAME = 1_024
MAX_DIMENSIONS = 4
MAX_DEPTH = 8
KEPT_STRING = 4_096
KEPT_ARRAY = 4_096
CHUNK = 1 << 20

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_SHARD_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    type_name: str
    shape: tuple[int, ...]
    n_bytes: int

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    metadata: Mapping[str, Any]
    """Scalars, short strings and short arrays of numbers; long values are left out."""
    tensors: tuple[Tensor, ...]


def is_gguf(start: bytes) -> bool:
    return start.startswith(MAGIC)


def read_header(path: Path) -> Header:
    """The header of a model; any shard of a split file stands for all. Raises BadInput."""
    budget = _Budget()
    header = _read_file(path, budget)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return header
    headers = [_read_shard(shard, index, count, budget) for index, shard in enumerate(_shards(path, count))]
    tensors = tuple(tensor for shard in headers for tensor in shard.tensors)
    promised = headers[0].metadata.get("split.tensors.count", len(tensors))
    if promised != len(tensors):
        raise BadInput(f"The shards of {path.name} hold {len(tensors)} tensors, but should hold {promised}.")
    _refuse_twins(path, tensors)
    return Header(headers[0].metadata, tensors)


def _shards(path: Path, count: int) -> list[Path]:
    match = _SHARD_NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise BadInput(f"{path.name} is one of {count} shards, so its name must end like -00001-of-{count:05}.gguf.")
    shards = []
    for number in range(1, count + 1):
        shard = path.with_name(f"{match['stem']}-{number:05}-of-{count:05}.gguf")
        if not shard.exists():
            raise BadInput(f"The model is split into {count} files, and {shard.name} is missing beside {path.name}.")
        shards.append(shard)
    return shards


def _read_shard(path: Path, index: int, count: int, budget: "_Budget") -> Header:
    header = _read_file(path, budget)
    if (header.metadata.get("split.no"), header.metadata.get("split.count")) != (index, count):
        raise BadInput(f"{path.name} says of itself that it is another shard than its name says.")
    return header


def _read_file(path: Path, budget: "_Budget") -> Header:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{path.name} is not a file.")
        with path.open("rb", buffering=0) as file:
            return _parse(path, file, path.stat().st_size, budget)
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}.") from error
    except _Broken as error:
        raise BadInput(f"{path.name} is not a sound GGUF file: {error}.") from error


def _parse(path: Path, file: BinaryIO, size: int, budget: "_Budget") -> Header:
    start = file.read(8)
    if not is_gguf(start):
        raise _Broken("it does not begin with the letters GGUF")
    if len(start) < 8:
        raise _Broken("it ends within its header")
    order = "<" if struct.unpack("<I", start[4:])[0] <= 0xFFFF else ">"
    (version,) = struct.unpack(f"{order}I", start[4:])
    if version not in (2, 3):
        raise _Broken(f"its version is {version}, and Roofmark reads 2 and 3")
    cursor = _Cursor(file, size, order, budget, position=8)
    tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
    budget.spend_entries(tensor_count, key_count)
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = cursor.name()
        if key in metadata:
            raise _Broken(f"the key {key!r} is there twice")
        metadata[key] = cursor.value(cursor.number("I"))
    placed = [_tensor(cursor) for _ in range(tensor_count)]
    tensors = tuple(tensor for tensor, _ in placed)
    _check_places(placed, size - _aligned(cursor.position, metadata))
    _refuse_twins(path, tensors)
    return Header({key: value for key, value in metadata.items() if value is not None}, tensors)


def _tensor(cursor: "_Cursor") -> tuple[Tensor, int]:
    """A tensor and its offset within the data."""
    name = cursor.name()
    dimensions = cursor.number("I")
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise _Broken(f"the tensor {name!r} has {dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    type_number = cursor.number("I")
    if type_number not in GGML_TYPES:
        raise _Broken(f"the tensor {name!r} has the number format {type_number}, which Roofmark does not know")
    type_name, block_elements, block_bytes = GGML_TYPES[type_number]
    elements = prod(shape)
    if not 0 < elements < 1 << 60 or shape[0] % block_elements:
        raise _Broken(f"the tensor {name!r} has the shape {' x '.join(map(str, shape))}, impossible for {type_name}")
    return Tensor(name, type_name, shape, elements // block_elements * block_bytes), cursor.number("Q")


def _aligned(position: int, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise _Broken(f"its alignment is {alignment!r}")
    return -(-position // alignment) * alignment


def _check_places(placed: list[tuple[Tensor, int]], data_bytes: int) -> None:
    for tensor, offset in placed:
        if offset + tensor.n_bytes > data_bytes:
            raise _Broken(f"it is cut short, the tensor {tensor.name!r} ends beyond the end of the file")
    if sum(tensor.n_bytes for tensor, _ in placed) > max(data_bytes, 0):
        raise _Broken("its tensors are larger than the file")


def _refuse_twins(path: Path, tensors: tuple[Tensor, ...]) -> None:
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise BadInput(f"{path.name} is not a sound GGUF file: a tensor is there twice.")


class _Broken(Exception):
    """What is wrong with a file, as the end of a sentence."""


class _Budget:
    """What all shards of a model together may cost."""

    def __init__(self) -> None:
        self.bytes_read = MAX_BYTES_READ
        self.strings = MAX_STRINGS
        self.tensors = MAX_TENSORS
        self.keys = MAX_KEYS

    def spend_entries(self, tensors: int, keys: int) -> None:
        self.tensors -= tensors
        self.keys -= keys
        if self.tensors < 0 or self.keys < 0:
            raise _Broken(f"it claims {tensors:,} tensors and {keys:,} keys")

    def spend_bytes(self, count: int) -> None:
        self.bytes_read -= count
        if self.bytes_read < 0:
            raise _Broken("its header is longer than that of any real model")

    def spend_strings(self, count: int) -> None:
        self.strings -= count
        if self.strings < 0:
            raise _Broken("its lists are longer than those of any real model")


class _Cursor:
    """Goes forward through a file in chunks; every length is held against the file's size before it is believed."""

    def __init__(self, file: BinaryIO, size: int, order: str, budget: _Budget, position: int) -> None:
        self._file, self._size, self._budget = file, size, budget
        self._formats = {code: struct.Struct(order + code) for code in _NUMBERS.values()}
        self._order = order
        self._chunk, self._chunk_at, self._offset = b"", position, 0

    @property
    def position(self) -> int:
        return self._chunk_at + self._offset

    def _load(self, count: int) -> None:
        """Makes the next `count` bytes stand in the chunk."""
        position = self.position
        if count > self._size - position:
            raise _Broken("it is cut short, or a length in it is a lie")
        self._file.seek(position)
        chunk = self._file.read(max(count, CHUNK))
        self._budget.spend_bytes(len(chunk))
        if len(chunk) < count:
            raise _Broken("it ends within its header")
        self._chunk, self._chunk_at, self._offset = chunk, position, 0

    def take(self, count: int) -> bytes:
        if self._offset + count > len(self._chunk):
            self._load(count)
        start = self._offset
        self._offset += count
        return self._chunk[start : self._offset]

    def skip(self, count: int) -> None:
        if count > self._size - self.position:
            raise _Broken("it is cut short, or a length in it is a lie")
        self._offset += count

    def number(self, code: str) -> Any:
        layout = self._formats[code]
        if self._offset + layout.size > len(self._chunk):
            self._load(layout.size)
        (value,) = layout.unpack_from(self._chunk, self._offset)
        self._offset += layout.size
        return value

    def name(self) -> str:
        length = self.number("Q")
        if length > MAX_NAME:
            raise _Broken(f"a name in it is {length:,} bytes long")
        return self.take(length).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        """One value; None where it is longer than what is kept."""
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
        raise _Broken(f"a value in it has the unknown kind {kind}")

    def _array(self, depth: int) -> list[Any] | None:
        kind, count = self.number("I"), self.number("Q")
        if kind in _NUMBERS:
            code = _NUMBERS[kind]
            n_bytes = count * self._formats[code].size
            if count > KEPT_ARRAY:
                self.skip(n_bytes)
                return None
            return list(struct.unpack(f"{self._order}{count}{code}", self.take(n_bytes)))
        self._budget.spend_strings(count)
        if kind == _STRING:
            self._skip_strings(count)
        elif kind == _ARRAY and depth < MAX_DEPTH:
            for _ in range(count):
                self._array(depth + 1)
        elif kind == _ARRAY:
            raise _Broken("its lists nest too deep")
        else:
            raise _Broken(f"a list in it holds the unknown kind {kind}")
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
                raise _Broken("it is cut short, or a length in it is a lie")
