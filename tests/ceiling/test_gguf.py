"""Reading GGUF headers: all that the `gguf` package writes, and one sentence for whatever is broken or hostile."""

import os
import struct
import tracemalloc
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.ceiling.ggml_geometry import from_file
from app.ceiling.gguf import MAX_STRINGS, read_header
from app.ceiling.number_formats import GGML_BLOCKS, GGML_TYPES
from app.core.errors import BadInput
from tests.ceiling.files import SMALL, bytes_of, dense, raw, tensor_info, text, write_gguf, write_shards
from tests.engine_fixture import cached_model

U32, ARRAY, STRING = struct.pack("<I", 4), struct.pack("<I", 9), struct.pack("<I", 8)


def test_block_sizes_are_ggmls() -> None:
    assert {kind.value: (kind.name, *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType} == GGML_TYPES
    assert GGML_BLOCKS["Q4_K"] == (256, 144)


def test_the_real_model_reads_as_the_gguf_package_reads_it() -> None:
    path = cached_model()
    header = read_header(path)
    assert header.metadata["general.architecture"] == "gemma3"
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert len(header.tensors) == 236
    assert sum(tensor.n_bytes for tensor in header.tensors) == 246_587_904
    weights = from_file(path).weights
    assert weights is not None
    assert weights.total.parameters == 268_098_176
    assert weights.bits_per_weight == pytest.approx(7.36, abs=0.01)


def test_keys_and_tensors_as_written(tmp_path: Path) -> None:
    keys = {**SMALL, "flags": [True, False], "long": list(range(5000)), "tokenizer.ggml.tokens": ["a", "bc"] * 1000}
    path = write_gguf(tmp_path / "m.gguf", "llama", keys, dense())
    header, oracle = read_header(path), gguf.GGUFReader(path)
    assert header.metadata["llama.block_count"] == 2
    assert header.metadata["llama.flags"] == [True, False]
    assert "llama.long" not in header.metadata
    oracle_tensors = {
        tensor.name: ([int(size) for size in tensor.shape], int(tensor.n_bytes)) for tensor in oracle.tensors
    }
    assert {tensor.name: (list(tensor.shape), tensor.n_bytes) for tensor in header.tensors} == oracle_tensors


def test_big_endian(tmp_path: Path) -> None:
    little = write_gguf(tmp_path / "l.gguf", "llama", SMALL, dense())
    big = write_gguf(tmp_path / "b.gguf", "llama", SMALL, dense(), gguf.GGUFEndian.BIG)
    assert from_file(big) == from_file(little)


def test_any_shard_stands_for_all(tmp_path: Path) -> None:
    file_geometry = from_file(write_gguf(tmp_path / "whole.gguf", "llama", SMALL, dense()))
    assert file_geometry.weights is not None
    assert file_geometry.weights.total.n_bytes == 934_400
    for path in write_shards(tmp_path):
        assert from_file(path) == file_geometry


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    first, second, third = write_shards(tmp_path)
    third.unlink()
    for path in (first, second):
        with pytest.raises(BadInput, match=r"m-00003-of-00003\.gguf is missing"):
            read_header(path)


def test_shards_that_are_not_what_their_names_say(tmp_path: Path) -> None:
    first, second, third = write_shards(tmp_path)
    third.write_bytes(second.read_bytes())
    with pytest.raises(BadInput, match="another shard"):
        read_header(first)
    renamed = first.rename(tmp_path / "renamed.gguf")
    with pytest.raises(BadInput, match="-00001-of-00003"):
        read_header(renamed)


def array(kind: int, count: int) -> bytes:
    return ARRAY + struct.pack("<IQ", kind, count)


BROKEN = {
    "empty": b"",
    "not GGUF": b"PK\x03\x04" + bytes(100),
    "only a magic": b"GGUF",
    "version 1": raw(version=1),
    "version from the future": raw(version=77),
    "huge counts": raw(n_keys=1 << 60, n_tensors=1 << 60),
    "negative counts": raw(n_keys=(1 << 64) - 1, n_tensors=(1 << 64) - 1),
    "more keys than there are": raw(n_keys=16_000),
    "a key as long as the world": raw(struct.pack("<Q", 1 << 62), n_keys=1),
    "a text as long as the world": raw(text("k") + STRING + struct.pack("<Q", (1 << 64) - 1), n_keys=1),
    "a list as long as the world": raw(text("k") + array(4, 1 << 61), n_keys=1),
    "a list of texts as long as the world": raw(text("k") + array(8, 1 << 40), n_keys=1),
    "a list that lies by a little": raw(text("k") + array(8, 100_000) + bytes(8 * 99_999), n_keys=1),
    "a text in a list longer than the file": raw(text("k") + array(8, 1) + struct.pack("<Q", 1 << 50), n_keys=1),
    "lists in lists": raw(text("k") + ARRAY + struct.pack("<IQ", 9, 1) * 5000, n_keys=1),
    "numbers without end": raw(
        b"".join(text(f"k{index}") + array(12, 4096) + bytes(8 * 4096) for index in range(100)), n_keys=100
    ),
    "many lists in lists": raw(text("k") + array(9, 1 << 30) + array(9, 1 << 30)[4:], n_keys=1),
    "an unknown kind of value": raw(text("k") + struct.pack("<I", 99), n_keys=1),
    "an unknown kind in a list": raw(text("k") + array(99, 3), n_keys=1),
    "the same key twice": raw((text("k") + U32 + bytes(4)) * 2, n_keys=2),
    "no alignment": raw(text("general.alignment") + U32 + bytes(4), tensor_info("t", [4]), 1, 1),
    "no dimensions": raw(tensors=tensor_info("t", []), n_tensors=1),
    "too many dimensions": raw(tensors=tensor_info("t", [1] * 9), n_tensors=1),
    "an impossible count of dimensions": raw(tensors=text("t") + struct.pack("<I", 1 << 31), n_tensors=1),
    "a dimension of nothing": raw(tensors=tensor_info("t", [0, 4]), n_tensors=1),
    "dimensions beyond 64 bits": raw(tensors=tensor_info("t", [1 << 63] * 4), n_tensors=1),
    "an unknown number format": raw(tensors=tensor_info("t", [4], kind=250), n_tensors=1),
    "half a block": raw(tensors=tensor_info("t", [100], kind=12), n_tensors=1),
    "data beyond the file": raw(tensors=tensor_info("t", [1 << 20]), n_tensors=1),
    "an offset beyond the file": raw(tensors=tensor_info("t", [1], offset=1 << 63), n_tensors=1) + bytes(999),
    "tensors on top of each other": raw(tensors=tensor_info("a", [64]) + tensor_info("b", [64]), n_tensors=2)
    + bytes(300),
    "the same tensor twice": raw(tensors=tensor_info("a", [8]) * 2, n_tensors=2) + bytes(999),
    "65,000 tensors that are not there": raw(n_tensors=65_000) + bytes(100),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_files_are_one_sentence(tmp_path: Path, what: str) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(BROKEN[what])
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match=r"^broken\.gguf .*\.$") as caught:
            read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)


def of_forks(path: Path, kinds: dict[str, int]) -> Path:
    """A sound file in which some tensors have number formats that only forks know."""
    write_gguf(path, "llama", SMALL, dense())
    content = path.read_bytes()
    for name, kind in kinds.items():
        place = content.index(text(name)) + len(text(name))
        (dimensions,) = struct.unpack_from("<I", content, place)
        place += 4 + 8 * dimensions
        content = content[:place] + struct.pack("<I", kind) + content[place + 4 :]
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", [139, 144, 36, 31])
def test_number_formats_of_forks_are_sized_by_their_place(tmp_path: Path, kind: int) -> None:
    """The gap to the next tensor, for the last one to the end of the file; said."""
    file_geometry = from_file(write_gguf(tmp_path / "whole.gguf", "llama", SMALL, dense()))
    last = list(dense())[-1]
    path = of_forks(tmp_path / "fork.gguf", {"blk.0.attn_q.weight": kind, last: kind})
    tensors = {tensor.name: tensor for tensor in read_header(path).tensors}
    assert tensors["blk.0.attn_q.weight"].type_name == f"type {kind}"
    assert tensors["blk.0.attn_q.weight"].n_bytes == bytes_of([256, 256], "Q4_K")
    assert tensors[last].n_bytes == bytes_of(*dense()[last])
    geometry = from_file(path)
    assert geometry.weights == file_geometry.weights
    assert f"type {kind}, which Roofmark does not know" in geometry.assumptions[0]
    assert geometry.certainty == "bound"


def test_a_number_format_of_a_fork_without_a_plausible_size(tmp_path: Path) -> None:
    path = of_forks(tmp_path / "fork.gguf", {"blk.1.attn_norm.weight": 139, list(dense())[-1]: 139})
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + (1 << 33))
    with pytest.raises(BadInput, match="number format 139"):
        read_header(path)


def test_shards_that_hold_fewer_tensors_than_promised(tmp_path: Path) -> None:
    first, *_ = write_shards(tmp_path)
    key = text("split.tensors.count")
    content = first.read_bytes()
    place = content.index(key) + len(key) + 4
    (promised,) = struct.unpack_from("<I", content, place)
    assert promised == len(dense())
    first.write_bytes(content[:place] + struct.pack("<I", promised + 1) + content[place + 4 :])
    with pytest.raises(BadInput, match=f"hold {promised} tensors, but should hold {promised + 1}"):
        read_header(first)


def test_a_number_format_of_a_fork_may_have_any_shape(tmp_path: Path) -> None:
    """What is unknown has no blocks that a row would have to be made of."""
    path = tmp_path / "odd.gguf"
    path.write_bytes(raw(tensors=tensor_info("t", [3, 5], kind=139), n_tensors=1).ljust(512, b"\0"))
    (tensor,) = read_header(path).tensors
    assert (tensor.shape, tensor.type_name) == ((3, 5), "type 139")


def test_a_cut_file_at_every_place(tmp_path: Path) -> None:
    file_bytes = write_gguf(tmp_path / "m.gguf", "llama", SMALL, dense(blocks=2)).read_bytes()
    header_end = file_bytes.rindex(b"ffn_down") + 60
    path = tmp_path / "cut.gguf"
    for length in [*range(0, header_end, 7), header_end + 1000, len(file_bytes) - 64]:
        path.write_bytes(file_bytes[:length])
        with pytest.raises(BadInput):
            read_header(path)


def test_a_hole_of_a_terabyte_is_not_walked(tmp_path: Path) -> None:
    """Zeros read as texts without letters, each 8 bytes long: as many as the file is large."""
    path = tmp_path / "hole.gguf"
    path.write_bytes(raw(text("k") + array(8, MAX_STRINGS + 1), n_keys=1))
    os.truncate(path, 1 << 40)
    with pytest.raises(BadInput, match="longer than those of any real model"):
        read_header(path)


def test_lists_that_make_every_read_a_seek_end_soon(tmp_path: Path) -> None:
    """Each text is a little longer than what is read at once."""
    count, length = 400, (1 << 20) + 100
    path = tmp_path / "seeks.gguf"
    start = raw(text("k") + array(8, count), n_keys=1)
    path.write_bytes(start)
    os.truncate(path, len(start) + count * (length + 8))
    with path.open("r+b") as file:
        for index in range(count):
            file.seek(len(start) + index * (length + 8))
            file.write(struct.pack("<Q", length))
    with pytest.raises(BadInput, match="longer than that of any real model"):
        read_header(path)


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a file"):
        read_header(tmp_path)
    with pytest.raises(BadInput, match="cannot be read"):
        read_header(tmp_path / "absent.gguf")
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(BadInput, match="is not a file"):
        read_header(tmp_path / "pipe.gguf")


def test_a_file_of_a_hundred_gigabytes_costs_its_header_only(tmp_path: Path) -> None:
    tensors = dense(blocks=80, hidden=8192, ffn=28672, vocab=128_256, q=8192, kv=1024)
    keys = {"block_count": 80, "embedding_length": 8192, "attention.head_count": 64, "attention.head_count_kv": 8}
    tokens = [f"token{index}" for index in range(128_256)]
    tensors["ballast"] = ([1 << 30, 64], "Q8_0")
    path = write_gguf(tmp_path / "large.gguf", "llama", {**keys, "tokenizer.ggml.tokens": tokens}, tensors)
    assert path.stat().st_size > 100e9
    tracemalloc.start()
    try:
        geometry = from_file(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert geometry.weights is not None
    assert geometry.weights.total.n_bytes == sum(bytes_of(*tensor) for tensor in tensors.values())


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fuzz") / "m.gguf"
    keys = {**SMALL, "attention.sliding_window": 128, "flags": [1, 2, 3], "tokenizer.ggml.tokens": ["a", "b"]}
    return write_gguf(path, "gemma3", keys, dense()).read_bytes()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    edits=st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4),
)
def test_whatever_the_bytes_it_is_a_geometry_or_one_sentence(
    tmp_path: Path, sound: bytes, data: st.DataObject, edits: list[tuple[int, bytes]]
) -> None:
    changed = bytearray(sound)
    for place, new in edits:
        changed[place : place + len(new)] = new
    path = tmp_path / "fuzzed.gguf"
    path.write_bytes(bytes(changed[: data.draw(st.integers(0, len(changed)) | st.just(len(changed)))]))
    try:
        from_file(path)
    except BadInput as error:
        assert str(error).startswith("fuzzed.gguf")  # noqa: PT017  # reading may also succeed
