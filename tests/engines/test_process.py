"""Command lines, environments and configuration files of processes: their settings, and never a secret of theirs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app import engines
from app.core.config_settings import DEFAULT, SETTINGS
from app.engines.flags import COMMON, group_by_flag, is_secret_flag, merge_tables
from app.engines.process import Command, allowed_arguments, read_command, variables

ALWAYS_SET = {key for key, setting in SETTINGS.items() if setting.is_always_set}


def settings_of(key: str, line: str, environment: Mapping[str, str] | None = None, **facts: Any) -> Mapping[str, Any]:
    words = line.split()
    command = Command(words, environment or {}, facts.pop("folder", "/"), facts.pop("program", words[0]))
    arguments = read_command(engines.find(key), command, is_listener=facts.pop("is_listener", True))
    assert arguments is not None
    context = {} if arguments.context_tokens is None else {"context": arguments.context_tokens}
    return {**arguments.settings, **context}


def stated(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value != DEFAULT}


@pytest.mark.parametrize(
    ("key", "line", "expected"),
    [
        (
            "llama.cpp",
            "llama-server -m /m/a-Q4_K_M.gguf -ctk q8_0 -ctv q4_0 -t 6 -tb 12 -b 1024 -ub 256 -c 16384 -np 2 -ngl 20 "
            "-fa on -sm row -ts 3,1 -mg 1 --n-cpu-moe 8 -ot exps=CPU -nkvo -md /m/draft.gguf --draft-max 8 --no-mmap "
            "--mlock --no-repack --rope-scaling yarn",
            {
                "kv_type_k": "q8_0", "kv_type_v": "q4_0", "threads": 6, "batch": 1024, "ubatch": 256, "context": 8192,
                "parallel": 2, "gpu_layers": 20, "flash_attention": "on", "split_mode": "row", "tensor_split": "3,1",
                "main_gpu": 1, "n_cpu_moe": 8, "override_tensor": "exps=CPU", "kv_offload": "off",
                "flags": "--draft-max 8 --mlock --no-mmap --no-repack --rope-scaling yarn -md draft.gguf -tb 12",
            },
        ),
        (
            "ik_llama.cpp",
            "/opt/ik_llama.cpp/build/bin/llama-server -m /m/a.gguf -fmoe -mla 3 -t 8",
            {"threads": 8, "flags": "-fmoe -mla 3", "kv_type_k": "f16", "kv_type_v": "f16", "batch": 2048,
             "ubatch": 512, "split_mode": "layer"},
        ),
        (
            "vllm",
            "/usr/bin/python3 /usr/bin/vllm serve Qwen/Qwen3-8B --max-model-len 8192 --max-num-seqs 8 -tp 2 "
            "--kv-cache-dtype fp8 --max-num-batched-tokens 4096 --gpu-memory-utilization 0.9",
            {"context": 8192, "parallel": 8, "cards": 2, "split_mode": "tensor", "kv_type_k": "fp8",
             "kv_type_v": "fp8", "batch": 4096, "flags": "--gpu-memory-utilization 0.9"},
        ),
        (
            "sglang",
            "python -m sglang.launch_server --model-path Qwen/Q --context-length 8192 --tp 2 --mem-fraction-static 0.8",
            {"context": 8192, "cards": 2, "split_mode": "tensor", "flags": "--mem-fraction-static 0.8"},
        ),
        (
            "koboldcpp",
            "/opt/koboldcpp-linux-x64 --model /m/a.gguf --usecublas normal 0 mmq --gpulayers 20 --contextsize 8192 "
            "--quantkv 1 --flashattention --threads 6 --blasbatchsize 1024 --tensor_split 3 1",
            {"gpu_layers": 20, "context": 8192, "kv_type_k": "q8_0", "kv_type_v": "q8_0", "flash_attention": "on",
             "threads": 6, "batch": 1024, "ubatch": 1024, "tensor_split": "3,1", "flags": "--usecublas normal,0,mmq"},
        ),
        (
            "lmdeploy",
            "lmdeploy serve api_server /m --tp 2 --session-len 8192 --quant-policy 8 --max-batch-size 4",
            {"cards": 2, "split_mode": "tensor", "context": 8192, "kv_type_k": "int8", "kv_type_v": "int8",
             "parallel": 4},
        ),
        ("mistralrs", "mistralrs-server --port 1 --max-seqs 4 --pa-cache-type f8e4m3",
         {"parallel": 4, "kv_type_k": "f8e4m3", "kv_type_v": "f8e4m3"}),
        ("mlx-lm", "python -m mlx_lm.server --model /m --decode-concurrency 4 --prefill-step-size 512",
         {"parallel": 4, "flags": "--prefill-step-size 512"}),
        ("tgi", "text-generation-launcher --model-id m --num-shard 2 --max-total-tokens 4096 --quantize awq",
         {"cards": 2, "split_mode": "tensor", "context": 4096, "flags": "--quantize awq"}),
        ("ollama", "/usr/lib/ollama/llama-server --model /b/sha256-1 --port 9 -c 8192 -np 2 --cache-type-k q8_0 -t 4",
         {"context": 4096, "parallel": 2, "kv_type_k": "q8_0", "kv_type_v": "f16", "threads": 4}),
        ("ollama", "/usr/bin/ollama runner --model /b/sha256-1 --ctx-size 8192 --batch-size 512 --n-gpu-layers 20",
         {"context": 8192, "batch": 512, "gpu_layers": 20, "kv_type_k": "f16", "kv_type_v": "f16"}),
    ],
)  # fmt: skip
def test_flags_are_settings_and_what_is_not_on_the_line_is_the_default(
    key: str, line: str, expected: dict[str, Any]
) -> None:
    settings = settings_of(key, line)
    assert stated(settings) == expected
    assert settings.keys() >= ALWAYS_SET, "a command line that was understood leaves nothing unknown"


def test_a_flag_that_is_not_understood_proves_no_default() -> None:
    settings = settings_of("llama.cpp", "llama-server -t 2 --quite-new-thing 7")
    assert settings == {"threads": 2, "flags": "--quite-new-thing …"}


def test_a_value_that_cannot_be_read_is_no_default() -> None:
    settings = settings_of("koboldcpp", "koboldcpp --quantkv 9 --threads many")
    assert not {"kv_type_k", "kv_type_v", "threads"} & settings.keys()
    assert settings["batch"] == DEFAULT
    assert settings["flags"] == "--quantkv 9 --threads many"


def test_a_program_that_only_answers_like_the_engine_proves_no_default() -> None:
    assert settings_of("llama.cpp", "python3 proxy.py", program="python3.11") == {}
    assert settings_of("llama.cpp", "python3 start.py -t 3", program="python3.11") == {"threads": 3}


def test_an_environment_that_cannot_be_read_proves_no_default() -> None:
    command = Command(["llama-server", "-t", "2"], program="llama-server", is_environment_known=False)
    arguments = read_command(engines.find("llama.cpp"), command)
    assert arguments is not None
    assert arguments.settings == {"threads": 2}


@pytest.mark.parametrize(
    "words",
    [["VLLM::APIServer_0"], ["sglang::http_server"], ["python3", "-c", "from multiprocessing.spawn import spawn_main"]],
)
def test_a_process_that_hides_its_command_line_says_nothing(words: list[str]) -> None:
    assert read_command(engines.find("vllm"), Command(words, program="python3.11"), is_listener=True) is None


@pytest.mark.parametrize(
    ("key", "line", "environment", "expected"),
    [
        ("llama.cpp", "llama-server", {"LLAMA_ARG_CTX_SIZE": "8192", "LLAMA_ARG_N_PARALLEL": "2"},
         {"context": 4096, "parallel": 2}),
        ("llama.cpp", "llama-server -c 2048", {"LLAMA_ARG_CTX_SIZE": "8192"}, {"context": 2048}),
        ("llama.cpp", "llama-server", {"LLAMA_ARG_KV_OFFLOAD": "0", "LLAMA_ARG_MLOCK": "1", "LLAMA_ARG_NO_MMAP": "0"},
         {"kv_offload": "off", "flags": "--mlock"}),
        ("llama.cpp", "llama-server", {"LLAMA_ARG_CACHE_TYPE_K": "q8_0", "LLAMA_ARG_FLASH_ATTN": "off"},
         {"kv_type_k": "q8_0", "flash_attention": "off"}),
        ("ollama", "ollama serve", {"OLLAMA_KV_CACHE_TYPE": "q4_0", "OLLAMA_FLASH_ATTENTION": "1"},
         {"kv_type_k": "q4_0", "kv_type_v": "q4_0", "flash_attention": "on"}),
        ("ollama", "ollama serve", {"OLLAMA_NUM_PARALLEL": "4", "OLLAMA_SCHED_SPREAD": "true"},
         {"parallel": 4, "flags": "--sched-spread"}),
        ("vllm", "vllm serve m", {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, {"flags": "--attention-backend FLASHINFER"}),
        ("vllm", "vllm serve m", {"CUDA_VISIBLE_DEVICES": "0,1"}, {"environment": "CUDA_VISIBLE_DEVICES=0,1"}),
    ],
)  # fmt: skip
def test_environment_variables_stand_for_flags(
    key: str, line: str, environment: dict[str, str], expected: dict[str, Any]
) -> None:
    assert environment.keys() <= variables()
    settings = settings_of(key, line, environment)
    assert {name: settings.get(name) for name in expected} == expected


def test_configuration_files(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    (tmp_path / "config.yml").write_text(
        f"network:\n  api_key: {secret}\n  port: 5000\nmodel:\n  max_seq_len: 8192  # a comment\n  cache_mode: Q8\n"
        "  gpu_split: [20, 25]\n  tensor_parallel: false\n  rope_scale:\n"
    )
    tabby = settings_of("tabbyapi", "python main.py", folder=str(tmp_path), program="python3.11")
    assert stated(tabby) == {"context": 8192, "kv_type_k": "q8", "kv_type_v": "q8", "tensor_split": "20,25"}
    assert tabby.keys() >= ALWAYS_SET
    (tmp_path / "a.kcpps").write_text(json.dumps({"gpulayers": 20, "quantkv": 2, "password": secret, "lowvram": True}))
    kobold = settings_of("koboldcpp", f"koboldcpp --config {tmp_path}/a.kcpps --threads 4")
    assert stated(kobold) == {
        "gpu_layers": 20, "kv_type_k": "q4_0", "kv_type_v": "q4_0", "threads": 4, "flags": "--lowvram",
    }  # fmt: skip
    missing = settings_of("vllm", f"vllm serve --config {tmp_path}/none.yaml --max-num-seqs 4")
    assert missing == {"parallel": 4}, "a file that cannot be read may say anything"
    assert secret not in repr((tabby, kobold))


SECRET = "Zq7xV0tr9Lk2"
HOSTILE = [
    ["--api-key", SECRET],
    [f"--api-key={SECRET}"],
    ["--api_key", SECRET],
    ["--api-key", f"-{SECRET}"],
    ["--api-key", f"--{SECRET.lower()}"],
    ["--api-key", SECRET, f"{SECRET}2"],
    ["--api-key-file", f"/home/{SECRET}"],
    ["--hf-token", SECRET],
    ["-hft", SECRET],
    ["--password", SECRET],
    ["--my-passphrase", SECRET],
    ["--login", f"me:{SECRET}"],
    [f"--header=Authorization: Bearer {SECRET}"],
    ["--some-new-thing", SECRET],
    [f"-p{SECRET}"],
    [f"--{SECRET}"],
    ["--rpc", f"http://me:{SECRET}@box:50052"],
    ["--lora", f"https://me:{SECRET}@example.com/x.gguf"],
    [f"HF_TOKEN={SECRET}"],
]


@pytest.mark.parametrize("words", HOSTILE)
@pytest.mark.parametrize("key", [engine.key for engine in engines.all() if engine.programs])
def test_a_secret_of_a_command_line_is_never_stored(key: str, words: list[str]) -> None:
    engine = engines.find(key)
    for line in ([engine.programs[0], *words, "--mlock"], [engine.programs[0], "--mlock", *words]):
        environment = {"HF_TOKEN": SECRET, "CUDA_VISIBLE_DEVICES": f"http://me:{SECRET}@x", "API_KEY": SECRET}
        command = Command(line, environment, program=engine.programs[0])
        arguments = read_command(engine, command, is_listener=True)
        assert SECRET.lower() not in repr((command, arguments)).lower()


WORDS = st.one_of(
    st.sampled_from(
        ["-t", "-c", "--api-key", "-ot", "--mlock", "-ngl", "--config", "-m", "=", "-", "--", "--x=", "-ts"]
    ),
    st.text(max_size=12),
    st.integers().map(str),
)


@given(words=st.lists(WORDS, max_size=12), values=st.dictionaries(st.sampled_from(sorted(variables())), st.text()))
@example(words=["--api-key"], values={})
@example(words=["-m"], values={})
def test_the_reader_never_fails(words: list[str], values: dict[str, str]) -> None:
    for engine in engines.all():
        name = engine.programs[0] if engine.programs else "server"
        arguments = read_command(engine, Command([name, *words], values, program=name), is_listener=True)
        assert arguments is None or json.dumps(arguments.settings)


@given(
    flag=st.sampled_from(["--api-key", "--hf-token", "-hft", "--password", "--admin-key", "--ssl-keyfile-password"]),
    secret=st.from_regex(r"[A-Za-z0-9_-]{8,30}", fullmatch=True).filter(lambda text: not text.strip("-_").isdigit()),
    before=st.lists(WORDS, max_size=4),
    after=st.lists(WORDS, max_size=4),
    is_joined=st.booleans(),
)
def test_the_value_of_a_secret_flag_is_never_stored(
    flag: str, secret: str, before: list[str], after: list[str], is_joined: bool
) -> None:
    table = merge_tables([COMMON, *(engine.flags for engine in engines.all())])
    words = [f"{flag}={secret}"] if is_joined else [flag, secret]
    known = table.flags.keys() | table.without_bytes | table.unmodelled | table.ignored
    if secret in known or any(secret in word for word in [*before, *after]):
        return
    assert is_secret_flag(flag)
    allowed, _is_understood = allowed_arguments([*before, *words, *after], table)
    assert not [word for word in allowed if secret in word]
    assert all(name in known or name.startswith("--") for name, _values in group_by_flag(allowed))


@pytest.mark.parametrize(
    "line",
    [
        "--model-url https://host/a.gguf?sig=hunter2hunter2",
        "-md https://host/a.gguf?X-Amz-Signature=hunter2hunter2",
        "--rpc user:hunter2hunter2@10.0.0.2:50052",
        "--rpc 10.0.0.1:50052,user:hunter2hunter2@10.0.0.2:50052",
        '--json-schema {"api_key":"hunter2hunter2"}',
        '--override-kv {"auth":"hunter2hunter2"}',
    ],
)
@pytest.mark.parametrize("key", ["llama.cpp", "vllm"])
def test_a_secret_within_an_address_or_a_document_is_not_stored(key: str, line: str) -> None:
    assert "hunter2" not in repr(settings_of(key, f"{engines.find(key).programs[0]} {line} -t 8"))


def test_the_devices_of_remote_servers_are_stored() -> None:
    assert (
        "--rpc 10.0.0.1:50052,10.0.0.2:50052"
        in settings_of("llama.cpp", "llama-server --rpc 10.0.0.1:50052,10.0.0.2:50052")["flags"]
    )


def test_an_endless_command_line_is_not_read() -> None:
    llama = engines.find("llama.cpp")
    for words in (["llama-server", "-ot", "a" * 100_000], ["llama-server", *["-t"] * 300_000]):
        assert read_command(llama, Command(words, {}, "/", "llama-server"), is_listener=True) is None
    variable = {"LLAMA_ARG_CTX_SIZE": "9" * 100_000}
    assert read_command(llama, Command(["llama-server"], variable, "/", "llama-server"), is_listener=True) is None
