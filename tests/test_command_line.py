"""Flags of engines as settings: those that decide where a model lies or what it reads."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.config_settings import SETTINGS
from app.engines import flag_table, parse_flags, with_flags
from app.engines.flags import parse_arguments
from app.engines.llamacpp_args import read_arguments


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("-ngl 20", {"gpu_layers": 20}),
        ("--n-gpu-layers=-1", {"gpu_layers": 999}),
        ("--gpu-layers all", {"gpu_layers": 999}),
        ("-ngl auto", {}),
        ("--n-cpu-moe 12", {"n_cpu_moe": 12}),
        ("-ncmoe 12", {"n_cpu_moe": 12}),
        ("--cpu-moe -fa", {"n_cpu_moe": 999, "flash_attention": "on"}),
        (r"-ot '\.ffn_.*_exps\.=CPU' -ot 'attn=CUDA0'", {"override_tensor": r"\.ffn_.*_exps\.=CPU,attn=CUDA0"}),
        ("-ts 3,1", {"tensor_split": "3,1"}),
        ("--tensor-split 3/1", {"tensor_split": "3,1"}),
        ("-sm row -mg 1", {"split_mode": "row", "main_gpu": 1}),
        ("-ctk q8_0 -ctv Q4_0", {"kv_type_k": "q8_0", "kv_type_v": "q4_0"}),
        ("--kv-cache-dtype fp8", {"kv_type_k": "fp8", "kv_type_v": "fp8"}),
        ("--kv-cache-dtype auto", {}),
        ("-c 8192 -np 4 -t 8", {"context": 8192, "parallel": 4, "threads": 8}),
        ("-b 2048 -ub 512", {"batch": 2048, "ubatch": 512}),
        ("-tp 2", {"cards": 2, "split_mode": "tensor"}),
        ("--tensor-parallel-size 4", {"cards": 4, "split_mode": "tensor"}),
        ("--tensor_parallel_size=4", {"cards": 4, "split_mode": "tensor"}),
        ("--pipeline-parallel-size 2", {"cards": 2, "split_mode": "layer", "pipeline_parallel": 2}),
        ("-tp 2 -pp 2", {"cards": 4, "split_mode": "tensor", "pipeline_parallel": 2}),
        ("-dev CUDA0,CUDA1", {"cards": 2}),
        ("--device none", {"cards": 0}),
        ("--device cuda -tp 2", {"cards": 2, "split_mode": "tensor"}),
        ("-c 0 -np -1 -t 0", {}),
        ("-ngl 20 -ngl auto -c 4096 -c 0", {}),
        ("--flash-attn AUTO", {"flash_attention": "auto"}),
        ("-nkvo", {"kv_offload": "off"}),
        ("--flash-attn off", {"flash_attention": "off"}),
    ],
)
def test_flags_that_are_understood(text: str, settings: dict[str, Any]) -> None:
    command = parse_flags(text)
    assert command.settings == settings
    assert command.not_understood == ()
    assert set(settings) <= set(SETTINGS)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("--host 0.0.0.0 --port 8080 --jinja --no-mmap --mlock -v --temp 0.7", ()),
        ("--rpc 10.0.0.2:50052", ("--rpc 10.0.0.2:50052",)),
        ("--cpu-offload-gb 10 -ngl 99", ("--cpu-offload-gb 10",)),
        ("-md draft.gguf", ("-md draft.gguf",)),
        ("-ngl many", ("-ngl many",)),
        ("-ts three,one", ("-ts three,one",)),
        ("-ngl", ("-ngl",)),
        ("it's fast", ("it's fast",)),
        ("mlock", ("mlock",)),
        ("--hf-token abc --api-key abc --ssl-key-file abc -hft abc", ()),
        ("--device Metal", ("--device Metal",)),
        ("", ()),
    ],
)
def test_others_are_named_unless_they_change_nothing(text: str, unknown: tuple[str, ...]) -> None:
    assert parse_flags(text).not_understood == unknown


def test_a_command_line_of_an_engine() -> None:
    command = parse_arguments(
        ["/usr/bin/llama-server", "-m", "/models/a.gguf", "-ngl", "99", "--n-cpu-moe", "8"], flag_table()
    )
    assert command.settings == {"gpu_layers": 99, "n_cpu_moe": 8}
    assert command.not_understood == ()


def test_a_setting_outranks_its_flag() -> None:
    assert with_flags({"flags": "-ngl 20 -ts 3,1", "gpu_layers": 30}) == {
        "flags": "-ngl 20 -ts 3,1",
        "gpu_layers": 30,
        "tensor_split": "3,1",
    }


FLAG_LINES = (
    "-ngl 20", "--n-cpu-moe 4", "-cmoe", "-ot exps=CPU", "-ts 3,1", "-sm row", "-mg 1", "-nkvo", "-ctk q8_0", "-np 2",
    "-ctv q4_0", "-b 512", "-ub 64", "-t 4", "-fa off", "-dev CUDA1", "--rpc host:1", "--mlock", "--port 80",
)  # fmt: skip


@given(st.lists(st.sampled_from(FLAG_LINES), unique=True))
def test_typed_flags_and_those_that_a_router_tells_are_one_configuration(lines: list[str]) -> None:
    typed = with_flags({"flags": " ".join(lines)})
    routed = with_flags(read_arguments(["llama-server", *" ".join(lines).split()]).settings)
    assert {**typed, "flags": None} == {**routed, "flags": None}
    unknown = parse_flags(str(typed["flags"])).not_understood
    assert parse_flags(str(routed.get("flags", ""))).not_understood == unknown


@given(st.text(max_size=80))
def test_whatever_is_typed_is_read(text: str) -> None:
    command = parse_flags(text)
    assert set(command.settings) <= set(SETTINGS)
    assert all(value is not None for value in command.settings.values())
