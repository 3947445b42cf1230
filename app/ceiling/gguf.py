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

from app.ceiling.gguf_cursor import Broken, Budget, Cursor
from app.ceiling.types import GGML_TYPES
from app.errors import BadInput

MAGIC = b"GGUF"
MAX_DIMENSIONS = 4

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
    budget = Budget()
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


def _read_shard(path: Path, index: int, count: int, budget: Budget) -> Header:
    header = _read_file(path, budget)
    if (header.metadata.get("split.no"), header.metadata.get("split.count")) != (index, count):
        raise BadInput(f"{path.name} says of itself that it is another shard than its name says.")
    return header


def _read_file(path: Path, budget: Budget) -> Header:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{path.name} is not a file.")
        with path.open("rb", buffering=0) as file:
            return _parse(path, file, path.stat().st_size, budget)
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}.") from error
    except Broken as error:
        raise BadInput(f"{path.name} is not a sound GGUF file: {error}.") from error


def _parse(path: Path, file: BinaryIO, size: int, budget: Budget) -> Header:
    start = file.read(8) if size else b""  # files that the system makes up have no size, and reading one may wait
    if not is_gguf(start):
        raise Broken("it does not begin with the letters GGUF")
    if len(start) < 8:
        raise Broken("it ends within its header")
    order = "<" if struct.unpack("<I", start[4:])[0] <= 0xFFFF else ">"
    (version,) = struct.unpack(f"{order}I", start[4:])
    if version not in (2, 3):
        raise Broken(f"its version is {version}, and Roofmark reads 2 and 3")
    cursor = Cursor(file, size, order, budget, position=8)
    tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
    budget.spend_entries(tensor_count, key_count)
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = cursor.name()
        if key in metadata:
            raise Broken(f"the key {key!r} is there twice")
        metadata[key] = cursor.value(cursor.number("I"))
    placed = [_tensor(cursor) for _ in range(tensor_count)]
    tensors = tuple(tensor for tensor, _ in placed)
    _check_places(placed, size - _aligned(cursor.position, metadata))
    _refuse_twins(path, tensors)
    return Header({key: value for key, value in metadata.items() if value is not None}, tensors)


def _tensor(cursor: Cursor) -> tuple[Tensor, int]:
    """A tensor and its offset within the data."""
    name = cursor.name()
    dimensions = cursor.number("I")
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise Broken(f"the tensor {name!r} has {dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    type_number = cursor.number("I")
    if type_number not in GGML_TYPES:
        raise Broken(f"the tensor {name!r} has the number format {type_number}, which Roofmark does not know")
    type_name, block_elements, block_bytes = GGML_TYPES[type_number]
    elements = prod(shape)
    if not 0 < elements < 1 << 60 or shape[0] % block_elements:
        raise Broken(f"the tensor {name!r} has the shape {' x '.join(map(str, shape))}, impossible for {type_name}")
    return Tensor(name, type_name, shape, elements // block_elements * block_bytes), cursor.number("Q")


def _aligned(position: int, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise Broken(f"its alignment is {alignment!r}")
    return -(-position // alignment) * alignment


def _check_places(placed: list[tuple[Tensor, int]], data_bytes: int) -> None:
    for tensor, offset in placed:
        if offset + tensor.n_bytes > data_bytes:
            raise Broken(f"it is cut short, the tensor {tensor.name!r} ends beyond the end of the file")
    if sum(tensor.n_bytes for tensor, _ in placed) > max(data_bytes, 0):
        raise Broken("its tensors are larger than the file")


def _refuse_twins(path: Path, tensors: tuple[Tensor, ...]) -> None:
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise BadInput(f"{path.name} is not a sound GGUF file: a tensor is there twice.")
