import os
import subprocess
import sys
from pathlib import Path

import pytest

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
