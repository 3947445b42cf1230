"""The rules of the house themselves: what CONTRIBUTING.md says about layers, and when a missing thing fails a test."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.needs import need

ROOT = Path(__file__).parent.parent


def test_contributing_shows_the_layers_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    checked = [re.split(r" [|:] ", layer) for layer in project["tool"]["importlinter"]["contracts"][0]["layers"]]
    told = re.findall(r"^\| (`.*`) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in told] == checked


def test_what_is_missing_skips_a_test_and_fails_it_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    need(True, "nothing is missing")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no browser"):
        need(None, "no browser")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no browser"):
        need(None, "no browser")
