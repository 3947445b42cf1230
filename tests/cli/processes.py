"""Helpers for tests that run `roofmark` as a process."""

import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
Roofmark = Callable[..., subprocess.CompletedProcess[str]]


def one_sentence(result: subprocess.CompletedProcess[str]) -> str:
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("roofmark: ")
    return line
