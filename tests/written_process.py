"""Processes that are started as a server is, and only listen: `written_process(folder, "vllm", "serve m --port 9")`.

This module is also the program, under any name. `--port PORT` makes it listen, and what follows `--start` is the
program and the arguments of a child.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

CHILDREN = "WRITTEN_CHILDREN"


@contextmanager
def written_process(
    folder: Path, name: str, arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[psutil.Process]:
    """Runs `name` in `folder` until the block ends; yields the process when all of its children have started."""
    own, *children = arguments.split(" --start ")
    command, environ = (
        _command(folder, name, own.split()),
        {**os.environ, **(environment or {}), CHILDREN: json.dumps(children)},
    )
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environ
    ) as process:  # which ends when its standard input is closed
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield psutil.Process(process.pid)


def _command(folder: Path, name: str, arguments: list[str]) -> list[str]:
    program = folder / name
    if not program.is_symlink():
        program.symlink_to(Path(__file__).resolve())
    return [sys.executable, str(program), *arguments]


def main() -> None:
    """Listens and starts children as told, and ends when its standard input does."""
    words, folder, children = sys.argv[1:], Path(sys.argv[0]).parent, json.loads(os.environ.pop(CHILDREN, "[]"))
    started = [
        subprocess.Popen(_command(folder, *_split(child)), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for child in children
    ]
    for child in started:
        assert child.stdout is not None
        child.stdout.readline()
    listeners = []
    if "--port" in words:
        port = int(words[words.index("--port") + 1])
        listeners.append(socket.create_server(("127.0.0.1", port)))
    print("ready", flush=True)
    sys.stdin.buffer.read()
    for child in started:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()


def _split(child: str) -> tuple[str, list[str]]:
    name, *arguments = child.split()
    return name, arguments


if __name__ == "__main__":
    main()
