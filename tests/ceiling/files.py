"""GGUF files for tests: sound ones by the `gguf` package, their data a hole in the file; and bytes for broken ones."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy

Shapes = Mapping[str, tuple[Sequence[int], str]]
"""Tensor name -> (shape as ggml counts it: fastest dimension first, name of the quantization)."""


def write_gguf(
    path: Path,
    architecture: str,
    keys: Mapping[str, Any],
    tensors: Shapes,
    order: gguf.GGUFEndian = gguf.GGUFEndian.LITTLE,
) -> Path:
    """Keys without a dot get the architecture's name in front. Tensors get no data but their room."""
    writer = gguf.GGUFWriter(path, architecture, endianess=order)
    for key, value in keys.items():
        name = key if key.startswith(("general.", "split.", "tokenizer.")) else f"{architecture}.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)
    for name, (shape, type_name) in tensors.items():
        kind = gguf.GGMLQuantizationType[type_name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        stored = [*reversed(shape[1:]), shape[0] // elements * size]
        n_bytes = int(numpy.prod(stored))
        writer.add_tensor_info(name, stored, numpy.dtype(numpy.uint8), n_bytes, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    room = sum(-(-bytes_of(shape, type_name) // 32) * 32 for shape, type_name in tensors.values())
    with path.open("r+b") as file:
        header = file.seek(0, 2)
        file.truncate(-(-header // 32) * 32 + room)
    return path


def bytes_of(shape: Sequence[int], type_name: str) -> int:
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_name]]
    return int(numpy.prod(shape, dtype=object)) // elements * size


def dense(
    blocks: int = 2, hidden: int = 256, ffn: int = 512, vocab: int = 512, q: int = 256, kv: int = 128
) -> dict[str, Any]:
    """A small llama: untied, mixed quantizations."""
    tensors: dict[str, Any] = {
        "token_embd.weight": ([hidden, vocab], "Q4_K"),
        "output_norm.weight": ([hidden], "F32"),
        "output.weight": ([hidden, vocab], "Q6_K"),
    }
    for index in range(blocks):
        tensors |= attention_block(index, hidden, q, kv)
        tensors |= {
            f"blk.{index}.ffn_norm.weight": ([hidden], "F32"),
            f"blk.{index}.ffn_gate.weight": ([hidden, ffn], "Q4_K"),
            f"blk.{index}.ffn_up.weight": ([hidden, ffn], "Q4_K"),
            f"blk.{index}.ffn_down.weight": ([ffn, hidden], "Q6_K"),
        }
    return tensors


def attention_block(index: int, hidden: int = 256, q: int = 256, kv: int = 128) -> dict[str, Any]:
    return {
        f"blk.{index}.attn_norm.weight": ([hidden], "F32"),
        f"blk.{index}.attn_q.weight": ([hidden, q], "Q4_K"),
        f"blk.{index}.attn_k.weight": ([hidden, kv], "Q4_K"),
        f"blk.{index}.attn_v.weight": ([hidden, kv], "Q6_K"),
        f"blk.{index}.attn_output.weight": ([q, hidden], "Q4_K"),
    }


def moe(blocks: int = 2, experts: int = 8, width: int = 256) -> dict[str, Any]:
    tensors = {name: tensor for name, tensor in dense(blocks).items() if ".ffn_" not in name or "norm" in name}
    for index in range(blocks):
        tensors |= {
            f"blk.{index}.ffn_gate_inp.weight": ([256, experts], "F32"),
            f"blk.{index}.ffn_gate_exps.weight": ([256, width, experts], "Q4_0"),
            f"blk.{index}.ffn_up_exps.weight": ([256, width, experts], "Q4_0"),
            f"blk.{index}.ffn_down_exps.weight": ([width, 256, experts], "Q6_K"),
            f"blk.{index}.ffn_gate_shexp.weight": ([256, width], "Q4_0"),
            f"blk.{index}.ffn_up_shexp.weight": ([256, width], "Q4_0"),
            f"blk.{index}.ffn_down_shexp.weight": ([width, 256], "Q4_0"),
        }
    return tensors


SMALL = {
    "block_count": 2,
    "embedding_length": 256,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 64,
    "attention.value_length": 64,
    "feed_forward_length": 512,
}


def write_shards(folder: Path, count: int = 3) -> list[Path]:
    """A model in shards; the first holds no tensors and the keys, as gguf-split makes them."""
    tensors = dense()
    names = list(tensors)
    paths = []
    for index in range(count):
        shard_tensors = {name: tensors[name] for name in names[(index - 1) * 10 : index * 10 or None]} if index else {}
        if index == count - 1:
            shard_tensors = {name: tensors[name] for name in names[(index - 1) * 10 :]}
        keys = {"split.no": index, "split.count": count, "split.tensors.count": len(tensors)}
        path = folder / f"m-{index + 1:05}-of-{count:05}.gguf"
        paths.append(write_gguf(path, "llama", {**SMALL, **keys} if index == 0 else keys, shard_tensors))
    return paths


def raw(keys: bytes = b"", tensors: bytes = b"", n_keys: int = 0, n_tensors: int = 0, version: int = 3) -> bytes:
    """A header made of given bytes, however wrong."""
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys) + keys + tensors


def text(value: str | bytes) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(encoded)) + encoded


def tensor_info(name: str, shape: Sequence[int], kind: int = 0, offset: int = 0) -> bytes:
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    return text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)
