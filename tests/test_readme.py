"""The README says what the code does: every setting, engine, metric, suite and command has its line."""

from pathlib import Path

import pytest
import typer

from app import engines
from app.cli import app
from app.core.settings import Settings
from app.engines.base import Engine
from app.metrics import metrics
from app.suites import BUILT_IN

README = (Path(__file__).parent.parent / "README.md").read_text()
ROWS = [line for line in README.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_its_line(name: str) -> None:
    (row,) = [row for row in ROWS if row.startswith(f"| `ROOFMARK_{name.upper()}`")]
    assert (Settings.model_fields[name].description or "missing") in row


@pytest.mark.parametrize("engine", engines.all(), ids=lambda engine: engine.key)
def test_every_engine_has_its_line(engine: Engine) -> None:
    assert [row for row in ROWS if row.startswith(f"| {engine.title} | `{engine.key}` |")]


@pytest.mark.parametrize("key", metrics())
def test_every_metric_has_its_line(key: str) -> None:
    assert [row for row in ROWS if f"`{key}`" in row]


@pytest.mark.parametrize("key", BUILT_IN)
def test_every_suite_has_its_line(key: str) -> None:
    assert [row for row in ROWS if row.startswith(f"| `{key}` |")]


def test_every_command_has_its_line() -> None:
    group = typer.main.get_command(app)
    for name in group.commands:  # type: ignore[attr-defined]  # a group has commands
        assert f"`roofmark {name}" in README


def test_the_readme_opens_with_a_picture_and_the_two_commands() -> None:
    opening = README[: README.index("## ")]
    assert "](docs/" in opening
    assert "make demo" in opening
    assert "make test" in opening
