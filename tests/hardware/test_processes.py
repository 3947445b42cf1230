"""The process behind a server of this machine: found by its port, with its relatives, and read as far as it may be."""

import logging
import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from app import engines
from app.cli.probe import facts_text
from app.core.settings import Settings
from app.engines.base import ModelInfo
from app.hardware.processes import ServerProcess, listener_pids, server_processes
from app.measure.config_snapshot import server_facts
from app.measure.server_process import ObservedProcess, observe_process
from tests.ports import free_port
from tests.written_process import written_process


def observed(port: int, engine: str, model: ModelInfo | None = None, host: str = "127.0.0.1") -> ObservedProcess:
    process = observe_process(f"http://{host}:{port}", engine, model)
    assert process is not None
    return process


def has(process: ObservedProcess, **settings: Any) -> bool:
    return dict(process.settings) | settings == dict(process.settings)


def test_the_process_that_listens(tmp_path: Path) -> None:
    port = free_port()
    with written_process(
        tmp_path, "llama-server", f"-t 3 -ctk q8_0 --port {port}", {"LLAMA_ARG_BATCH": "256"}
    ) as started:
        assert listener_pids(port) == [started.pid]
        for host in ("127.0.0.1", "localhost"):
            process = observed(port, "llama.cpp", host=host)
            assert (process.pid, process.started_at) == (started.pid, started.create_time())
            assert has(process, threads=3, kv_type_k="q8_0", batch=256)
    assert observe_process(f"http://127.0.0.1:{port}", "llama.cpp") is None


def test_only_named_variables_are_read(tmp_path: Path) -> None:
    port = free_port()
    with written_process(tmp_path, "vllm", f"serve m --port {port}", {"HF_TOKEN": "hf_secret", "A": "1"}):
        (listener, *_others) = server_processes(port, ["A"])
        assert (listener.environment, listener.is_listener) == ({"A": "1"}, True)
        assert "hf_secret" not in repr(listener)


def test_the_command_line_of_a_launcher_above_the_listener(tmp_path: Path) -> None:
    port = free_port()
    arguments = f"serve Qwen/Q --max-num-seqs 6 -tp 2 --start worker --port {port}"
    with written_process(tmp_path, "vllm", arguments) as launcher:
        process = observed(port, "vllm")
        assert process.pid == launcher.pid
        assert has(process, parallel=6, cards=2)


def test_the_runner_that_ollama_starts(tmp_path: Path) -> None:
    port = free_port()
    environment = {"OLLAMA_KV_CACHE_TYPE": "q8_0", "OLLAMA_FLASH_ATTENTION": "1"}
    with written_process(tmp_path, "ollama", f"serve --port {port}", environment):
        assert has(observed(port, "ollama"), kv_type_k="q8_0", flash_attention="on", threads="default")
    runners = (
        "--start llama-server --model /b/sha256-aa -t 3 -np 1 --start llama-server --model /b/sha256-bb -t 5 -np 1"
    )
    with written_process(tmp_path, "ollama", f"serve --port {port} {runners}", environment):
        model = ModelInfo(id="m", name="m")
        process = observe_process(f"http://127.0.0.1:{port}", "ollama", model, "/home/me/models/blobs/sha256-bb")
        assert process is not None
        assert has(process, kv_type_k="q8_0", threads=5, parallel=1)
        assert not observed(port, "ollama", model).settings, "which of the two runs the model is unknown"


def test_the_server_behind_a_gateway(tmp_path: Path) -> None:
    port = free_port()
    children = "--start llama-server -m /m/a.gguf -t 3 --start llama-server -m /m/b.gguf -t 5"
    with written_process(tmp_path, "llama-swap", f"--config x.yaml --port {port} {children}") as gateway:
        model = ModelInfo(id="b", name="b", engine="llama.cpp", file_path="/m/b.gguf")
        assert has(observed(port, "llama-swap", model), threads=5)
        stopped = ModelInfo(id="c", name="c", engine="llama.cpp", file_path="/m/c.gguf")
        process = observed(port, "llama-swap", stopped)
        assert (process.pid, dict(process.settings)) == (gateway.pid, {})


def test_the_child_that_a_router_started_for_the_model(tmp_path: Path) -> None:
    port = free_port()
    with written_process(
        tmp_path, "llama-server", f"--models-dir /m --port {port} --start llama-server --model /m/b.gguf -t 5"
    ) as router:
        loaded = ModelInfo(id="b", name="b", file_path="/m/b.gguf")
        assert has(observed(port, "llama.cpp", loaded), threads=5)
        process = observed(port, "llama.cpp", ModelInfo(id="a", name="a", file_path="/m/a.gguf"))
        assert process.pid == router.pid


@pytest.mark.parametrize(
    ("name", "arguments", "engine", "settings"),
    [
        ("sglang", "serve --tp 2 --kv-cache-dtype fp8_e5m2", "sglang", {"cards": 2, "kv_type_k": "fp8_e5m2"}),
        ("koboldcpp.py", "--gpulayers 20 --quantkv 1", "koboldcpp", {"gpu_layers": 20, "kv_type_v": "q8_0"}),
        ("mistralrs-server", "--max-seqs 4", "mistralrs", {"parallel": 4}),
        ("main.py", "--max-seq-len 8192", "tabbyapi", {"context": 8192}),
    ],
)
def test_engines(tmp_path: Path, name: str, arguments: str, engine: str, settings: dict[str, Any]) -> None:
    port = free_port()
    with written_process(tmp_path, name, f"{arguments} --port {port}"):
        assert has(observed(port, engine), **settings)


def test_a_server_elsewhere_and_roofmarks_own_process_have_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        assert listener_pids(port) == [os.getpid()]
        assert observe_process(f"http://127.0.0.1:{port}", "llama.cpp") is None
    assert observe_process("http://192.0.2.7:8080", "llama.cpp") is None


def test_a_model_that_another_host_runs_has_none(tmp_path: Path) -> None:
    port = free_port()
    with written_process(tmp_path, "ollama", f"serve --port {port}"):
        remote = ModelInfo(id="m:cloud", name="m", runs_on="ollama.com")
        assert observe_process(f"http://127.0.0.1:{port}", "ollama", remote) is None


@pytest.mark.parametrize("program", ["ssh", "docker-proxy", "nginx"])
def test_a_tunnel_or_a_proxy_is_not_the_server(program: str) -> None:
    assert ServerProcess(7, 1.0, program).is_forwarder
    assert not ServerProcess(7, 1.0, "llama-server").is_forwarder


def test_what_belongs_to_somebody_else_is_unknown_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(process: psutil.Process) -> None:
        raise psutil.AccessDenied(process.pid)

    port = free_port()
    with written_process(tmp_path, "llama-server", f"-t 3 --port {port}") as started:
        for name in ("cmdline", "environ", "cwd", "exe"):
            monkeypatch.setattr(psutil.Process, name, refuse)
        with caplog.at_level(logging.INFO):
            process = observed(port, "llama.cpp")
    assert (process.pid, dict(process.settings)) == (started.pid, {})
    assert "cannot be read" in caplog.text


def test_a_system_that_hides_connections_is_asked_process_by_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kind: str) -> None:
        raise psutil.AccessDenied

    port = free_port()
    with written_process(tmp_path, "llama-server", f"--port {port}") as started:
        monkeypatch.setattr(psutil, "net_connections", refuse)
        assert listener_pids(port) == [started.pid]


def test_a_probe_says_what_is_from_the_command_line(tmp_path: Path) -> None:
    port = free_port()
    with written_process(tmp_path, "llama-server", f"-ctk q8_0 --port {port}", answers_as="llama.cpp"):
        url = f"http://127.0.0.1:{port}"
        with engines.open_client(url, None, Settings()) as client:
            info = engines.probe(client)
        document = server_facts(url, info)
    lines = facts_text(url, info, document["process"]).splitlines()
    assert "  kv_type_k: q8_0 (from its command line)" in lines
    assert any(line.startswith("  not on its command line") and "threads" in line for line in lines)
    assert "  parallel: 1" in lines
