"""The rules of the house: layers as CONTRIBUTING.md shows them, examples that are true, nothing left lying about."""

import doctest
import re
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.needs import need

ROOT = Path(__file__).parent.parent


def test_contributing_shows_the_layers_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    checked = [re.split(r" [|:] ", layer) for layer in project["tool"]["importlinter"]["contracts"][0]["layers"]]
    rows = re.findall(r"^\| (`.*`) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == checked


WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "app").rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_are_true(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0


def test_what_is_missing_skips_a_test_and_fails_it_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    need(True, "nothing is missing")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no browser"):
        need(None, "no browser")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no browser"):
        need(None, "no browser")


KINDS = {".py", ".html", ".css", ".js", ".svg", ".png", ".woff2", ".json", ".csv", ".md", ".txt", ".toml", ".mako"}
NAMES = {".dockerignore", ".gitignore", "Dockerfile", "LICENSE", "Makefile", "run"}
LOCALE = {".po", ".mo", ".pot", ".cfg"}


def test_nothing_lies_in_the_checkout_that_somebody_left_there() -> None:
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is no checkout")
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    strange = [
        name
        for name in filter(None, listed.split("\0"))
        if Path(name).suffix not in KINDS | LOCALE and Path(name).name not in NAMES
    ]
    assert strange == []
