"""How long a model's geometry takes to read: the real Gemma file beside `gguf.GGUFReader`, and a file of 100 GB."""

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf

from app.ceiling.ggml_geometry import from_file
from tests.bench.table import Figure, at_most, in_turn
from tests.ceiling.files import dense, write_gguf
from tests.engine_fixture import cached_model

ROUNDS = 5


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def large_model(folder: Path) -> Path:
    """Llama 70B in shape, with its vocabulary; the rest of the 100 GB is a hole."""
    tensors = dense(blocks=80, hidden=8192, ffn=28672, vocab=128_256, q=8192, kv=1024)
    tensors["ballast"] = ([1 << 30, 64], "Q8_0")
    keys = {
        "block_count": 80,
        "embedding_length": 8192,
        "attention.head_count": 64,
        "attention.head_count_kv": 8,
        "tokenizer.ggml.tokens": [f"token{index}" for index in range(128_256)],
        "tokenizer.ggml.merges": [f"left{index} right" for index in range(280_000)],
    }
    return write_gguf(folder / "large.gguf", "llama", keys, tensors)


def run() -> Iterator[Figure]:
    gemma = cached_model()
    ours_s, theirs_s = in_turn(
        lambda: seconds(lambda: from_file(gemma)), lambda: seconds(lambda: gguf.GGUFReader(gemma)), 1
    )
    yield at_most("geometry of Gemma 270M, beside gguf.GGUFReader", ours_s, theirs_s, "s", 0.1)
    with tempfile.TemporaryDirectory() as folder:
        large = large_model(Path(folder))
        took = sorted(seconds(lambda: from_file(large)) for _ in range(ROUNDS))[ROUNDS // 2]
        yield Figure("geometry of a file of 100 GB", took, 0.5, "s", "less than 0.5 s", took < 0.5)
        tracemalloc.start()
        from_file(large)
        megabytes = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        yield Figure("memory for that", megabytes, 50, "MB", "less than 50 MB", megabytes < 50)
