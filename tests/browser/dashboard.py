"""The dashboard as a person starts it: its own process, a free port, a data folder of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.ports import free_port
from tests.waiting import until

_WITH_PORTS = "import app.engines; app.engines.well_known_ports = lambda: {ports}; from app.cli import main; main()"


@contextmanager
def running_dashboard(data_dir: Path, *, ports: Sequence[int] | None = None, **settings: str) -> Iterator[str]:
    """Gives its address; `settings` are environment variables, `ports` those on which it looks for servers of this
    machine instead of the usual ones."""
    port = free_port()
    entry = ["-m", "app"] if ports is None else ["-c", _WITH_PORTS.format(ports=list(ports))]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ROOFMARK_")},
        "ROOFMARK_DATA_DIR": str(data_dir),
        **settings,
    }
    log = data_dir.parent / f"{data_dir.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *entry, "serve", "--port", str(port)],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        address = f"http://127.0.0.1:{port}"
        try:
            until(lambda: process.poll() is not None or _answers(address))
            assert process.poll() is None, log.read_text()
            yield address
        finally:
            process.terminate()
            process.wait(timeout=30)


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").is_success
    except httpx.TransportError:  # it does not listen yet
        return False
