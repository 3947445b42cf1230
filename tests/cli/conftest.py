import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import main
from tests.cli.processes import ROOT, Roofmark


@pytest.fixture
def roofmark(tmp_path: Path) -> Roofmark:
    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            cwd=ROOT,
            env={**os.environ, "ROOFMARK_DATA_DIR": str(tmp_path / "data"), "NO_COLOR": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call


@pytest.fixture
def roofmark_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Roofmark:
    """Calls `roofmark` without a process for each command: for tests with many commands."""
    monkeypatch.setenv("ROOFMARK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("ROOFMARK_SENSORS", "false")

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["roofmark", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out, err)

    return call
