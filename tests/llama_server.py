"""A real llama.cpp server that is started as `llama-server` is: `llama_server(folder, "-ctk q8_0 -t 2")`.

The engine is the demo's own library; this module is also the program, under that name, and reads the flags that the
tests use.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.engine_fixture import cached_model
from tests.ports import free_port
from tests.waiting import until

PROGRAM = "llama-server"


@contextmanager
def llama_server(
    folder: Path, flags: str = "", *, port: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Runs the server with these flags on a port, a free one by default; yields its URL, and stops it."""
    program, port = folder / PROGRAM, port or free_port()
    if not program.exists():
        program.symlink_to(Path(__file__).resolve())
    command = [sys.executable, str(program), "-m", str(cached_model()), "--port", str(port), *flags.split()]
    # the module imports its package
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent), **(environment or {})}
    with (folder / f"{PROGRAM}.log").open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environ)
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        assert process.poll() is None, (folder / f"{PROGRAM}.log").read_text(errors="replace")
        try:
            return httpx.get(f"{url}/health", trust_env=False).status_code == 200
        except httpx.TransportError:  # it does not listen yet
            return False

    try:
        until(is_ready)
        yield url
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=30)


def main() -> None:
    """Serves until standard input closes."""
    import xllamacpp

    parser = argparse.ArgumentParser(prog=PROGRAM, allow_abbrev=False)
    parser.add_argument("-m")
    parser.add_argument("--port", type=int)
    parser.add_argument("-ctk", default="f16")
    parser.add_argument("-ctv", default="f16")
    parser.add_argument("-t", type=int, default=1)
    parser.add_argument("-b", type=int, default=2048)
    parser.add_argument("-ub", type=int, default=512)
    parser.add_argument("--api-key")
    arguments, _unknown = parser.parse_known_args()
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.hostnames = arguments.m, arguments.port, ["127.0.0.1"]
    params.n_ctx, params.n_parallel = 4096, 1
    params.n_batch, params.n_ubatch = arguments.b, arguments.ub
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.t
    params.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{arguments.ctk.upper()}")
    params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{arguments.ctv.upper()}")
    params.no_extra_bufts = True  # as for the demo
    params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
    if arguments.api_key:
        params.api_keys = [arguments.api_key]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()
    os._exit(0)  # the engine's threads may be in the middle of a request


if __name__ == "__main__":
    main()
