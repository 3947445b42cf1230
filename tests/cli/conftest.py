import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import main
from app.measure import interference
from tests.cli.processes import ROOT, Roofmark


@pytest.fixture
def roofmark_process(tmp_path: Path) -> Roofmark:
    """Runs `roofmark` as a process. A start costs a second of CPU time: a test of it is enough for each command."""

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
def roofmark(
    tmp_path: Path, migrated_file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Roofmark:
    """Calls `roofmark` in this process, on an empty database of this version, which `roofmark_process` has too.

    How busy the machine is, a run looks at for a moment only: no test of a command asks for it.
    """
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(migrated_file, data / "roofmark.db")
    for name in ("PAUSE_SAMPLE_S", "SECOND_SAMPLE_S"):
        monkeypatch.setattr(interference, name, 0.01)

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        defaults = {"ROOFMARK_DATA_DIR": str(data), "ROOFMARK_SENSORS": "false", "NO_COLOR": "1"}
        capfd.readouterr()
        with monkeypatch.context() as patch:
            for name, value in (defaults | environment).items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["roofmark", *arguments])
            with pytest.raises(SystemExit) as ended:
                main()
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out, err)

    return call
