"""Processes that are started as a server is, and only listen: `written_process(folder, "vllm", "serve m --port 9")`.

This module is also the program, under any name. `--port PORT` makes it listen, and what follows `--start` is the
program and the arguments of a child. With `answers_as` it answers as that engine's server in tests/engines/written.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import psutil

CHILDREN, ENGINE = "WRITTEN_CHILDREN", "WRITTEN_ENGINE"


@contextmanager
def written_process(
    folder: Path, name: str, arguments: str, environment: Mapping[str, str] | None = None, answers_as: str = ""
) -> Iterator[psutil.Process]:
    """Runs `name` in `folder` until the block ends; yields the process when all of its children have started."""
    own, *children = arguments.split(" --start ")
    command, environ = (
        _command(folder, name, own.split()),
        {
            **os.environ,
            **(environment or {}),
            CHILDREN: json.dumps(children),
            ENGINE: answers_as,
            "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
        },
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
    with _listening(words):
        print("ready", flush=True)
        sys.stdin.buffer.read()
    for child in started:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()


def _listening(words: list[str]) -> AbstractContextManager[object]:
    engine = os.environ.pop(ENGINE, "")
    if "--port" not in words:
        return nullcontext()
    port = int(words[words.index("--port") + 1])
    if not engine:
        return socket.create_server(("127.0.0.1", port))
    from tests.engines.written import SERVERS  # only where it answers: a second of imports
    from tests.replay import serve

    return serve(SERVERS[engine]().routes, pace=0.01, port=port)


def _split(child: str) -> tuple[str, list[str]]:
    name, *arguments = child.split()
    return name, arguments


if __name__ == "__main__":
    main()
