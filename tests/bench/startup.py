"""How long a person waits: `--help` beside a bare Typer program, the server beside its two largest imports.

From the second start on, as a person mostly starts it: every module has been compiled, wherever the environment of this
run keeps or forbids compiled files. The warm-up of each figure compiles them.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

from tests.bench.table import Figure, at_most, in_turn
from tests.ports import free_port

ROOT = Path(__file__).parent.parent.parent
ROUNDS = 9

BARE_TYPER = """
import typer
app = typer.Typer()
@app.command()
def hello(name: str = typer.Option("you", help="Whom to greet.")) -> None:
    "Greet somebody."
@app.command()
def bye() -> None:
    "Say good-bye."
app()
"""


def environment(folder: str) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    data = {"ROOFMARK_DATA_DIR": folder, "ROOFMARK_LOG_LEVEL": "ERROR"}
    return {**variables, **data, "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}


def seconds(folder: str, *arguments: str) -> float:
    began = time.perf_counter()
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=ROOT, env=environment(folder), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def server_ready_s(folder: str) -> float:
    """From starting the process until /health answers; the database is there already."""
    port = free_port()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--port", str(port)],
        cwd=ROOT,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                connection = HTTPConnection("127.0.0.1", port)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return time.perf_counter() - began
            except OSError:  # it does not listen yet
                time.sleep(0.005)
            finally:
                connection.close()
    finally:
        process.terminate()
        process.wait()


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        help_s, bare_s = in_turn(
            lambda: seconds(folder, "-m", "app", "--help"),
            lambda: seconds(folder, "-c", BARE_TYPER + "#", "--help"),
            ROUNDS,
        )
        ready_s, import_s = in_turn(
            lambda: server_ready_s(folder), lambda: seconds(folder, "-c", "import fastapi, sqlmodel"), ROUNDS
        )
    yield at_most("roofmark --help, beside a bare Typer program", help_s, bare_s, "s", 1.5)
    yield at_most("server ready, beside importing FastAPI, SQLModel", ready_s, import_s, "s", 1.5)
