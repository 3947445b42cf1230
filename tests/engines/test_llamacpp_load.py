"""What llama.cpp says of a model while it loads it, over the years."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engines import find
from app.engines.base import LoggedModelLoad

read_loads = find("llama.cpp").read_loads

OLD = """\
I llama_model_loader: loaded meta data with 3 key-value pairs and 9 tensors from /m/a.gguf (version GGUF V3 (latest))
0.00.041 I llm_load_tensors: offloading 12 repeating layers to GPU
0.00.041 I llm_load_tensors: offloaded 12/33 layers to GPU
0.00.041 I llm_load_tensors:        CUDA0 model buffer size =  1918.35 MiB
0.00.042 I llm_load_tensors:   CPU_Mapped model buffer size =  4308.23 MiB
0.00.050 I llama_kv_cache:      CUDA0 KV buffer size =   224.00 MiB
0.00.050 I llama_kv_cache:        CPU KV buffer size =   376.00 MiB
"""
EXPERTS = """\
llama_model_loader: loaded meta data with 3 key-value pairs and 6 tensors from C:\\b.gguf (version GGUF V3 (latest))
tensor blk.0.ffn_gate_exps.weight (134 MiB mxfp4) buffer type overridden to CUDA_Host
tensor blk.0.ffn_up_exps.weight (134 MiB mxfp4) buffer type overridden to CPU
tensor blk.1.ffn_down_exps.weight (134 MiB mxfp4) buffer type overridden to CPU
tensor blk.7.ffn_down_exps.weight (134 MiB mxfp4) buffer type overridden to CUDA1
tensor blk.9.attn_q.weight (13 MiB q8_0) buffer type overridden to CPU
load_tensors: offloaded 25/25 layers to GPU
load_tensors:   CPU_Mapped model buffer size = 9222,78 MiB
load_tensors:        CUDA0 model buffer size = 2200,21 MiB
load_tensors:        CUDA1 model buffer size = 1100.5 MiB
load_tensors:    CUDA_Host model buffer size =   35.16 MiB
llama_kv_cache:        CPU KV buffer size =   376.00 MiB
"""


def test_layers_of_an_older_build() -> None:
    assert read_loads(OLD) == [LoggedModelLoad("/m/a.gguf", 12, 33, {"CUDA0": 1918.35})]


def test_experts_in_system_memory() -> None:
    (load,) = read_loads(EXPERTS)
    assert load.model_path == "C:\\b.gguf"
    assert (load.gpu_layers, load.layers) == (25, 25)
    assert load.gpu_weight_mib == {"CUDA0": 2200.21, "CUDA1": 1100.5}
    assert load.expert_blocks_in_ram == {0, 1}
    assert load.is_kv_in_ram


def test_each_load_is_its_own() -> None:
    assert [load.gpu_layers for load in read_loads(OLD + EXPERTS + OLD)] == [12, 25, 12]
    twice = "load_tensors: offloaded 9/9 layers to GPU\nload_tensors: offloaded 7/9 layers to GPU\n"
    assert [load.gpu_layers for load in read_loads(twice)] == [9, 7]


def test_json_lines() -> None:
    text = "\n".join(json.dumps({"msg": line}) for line in OLD.splitlines())
    assert read_loads(text) == read_loads(OLD)


def test_a_build_without_cards() -> None:
    (load,) = read_loads("load_tensors:   CPU_Mapped model buffer size =   250.0 MiB\n")
    assert load == LoggedModelLoad()


@pytest.mark.parametrize("engine", ["vllm", "strata", "ollama"])
def test_other_engines_say_nothing(engine: str) -> None:
    assert find(engine).read_loads(OLD) == ()


@given(st.text(max_size=200), st.sampled_from([OLD, EXPERTS, ""]))
def test_any_text_is_read(text: str, log: str) -> None:
    for load in read_loads(text + log + text):
        assert all(mib >= 0 for mib in load.gpu_weight_mib.values())
