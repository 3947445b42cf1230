"""What travels: vendored browser files, the wheel with everything it needs, and pins that name no place."""

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from app import __version__
from app.core import files
from tests.needs import need

ROOT = Path(__file__).parent.parent
VENDOR = files.STATIC / "vendor"
VENDOR_LINE = re.compile(
    r"^(?P<file>\S+)  +(?P<package>\S+ \S+)  +(?P<licence>\S+)  +(?P<text>\S+)  +(?P<sha256>[0-9a-f]{64})$"
)


def vendored() -> list[dict[str, str]]:
    lines = (VENDOR / "VENDOR.txt").read_text().splitlines()
    return [match.groupdict() for line in lines if (match := VENDOR_LINE.match(line))]


@pytest.mark.parametrize("entry", vendored(), ids=lambda entry: entry["file"])
def test_a_vendored_file_is_the_one_that_was_named(entry: dict[str, str]) -> None:
    assert hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert (VENDOR / entry["text"]).read_text().strip()


def test_every_vendored_file_is_named() -> None:
    named = {name for entry in vendored() for name in (entry["file"], entry["text"])} | {"VENDOR.txt"}
    assert {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()} == named


def test_pins_have_hashes_and_name_no_place() -> None:
    text = (ROOT / "requirements.txt").read_text()
    assert "://" not in text
    assert not re.search(r"^ *(-[a-z]\b|--(?!hash=sha256:))", text, re.MULTILINE)
    blocks = re.split(r"\n(?=\S)", text.strip())
    for block in blocks:
        assert re.match(r"[a-z0-9-]+==\S+( ; .*)? \\\n", block)
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block)


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(requirement for extra in project["optional-dependencies"].values() for requirement in extra),
    ]
    pinned = {line.partition("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line}
    assert {re.split(r"[\[>=<~!; ]", requirement)[0] for requirement in requirements} <= pinned


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, made from the source distribution as a packager would, and that distribution."""
    need(find_spec("hatchling"), "hatchling is not installed")
    folder = tmp_path_factory.mktemp("built")
    _build("sdist", ROOT, folder)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # unknown to the first releases of 3.11
        archive.extractall(folder / "unpacked")
    _build("wheel", folder / "unpacked" / f"roofmark-{__version__}", folder)
    return folder


def _build(target: str, source: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_carries_everything_beside_the_code(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    for folder in (files.MIGRATIONS, files.TEMPLATES, files.STATIC):
        beside = {path.relative_to(ROOT).as_posix() for path in folder.rglob("*") if path.is_file()}
        inside = {name.removeprefix("app/_files/") for name in names}
        assert beside - inside - {name for name in beside if "__pycache__" in name} == set()
    assert not any(name.startswith("tests") or "__pycache__" in name for name in names)


def test_code_in_a_wheel_finds_its_files(built: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from app.core import files; from app.db.database import Database\n"
        "from app.db.migrate import current_revision, migrate, revisions\n"
        "assert files.__file__.startswith(sys.argv[1]) and files.TEMPLATES.is_dir() and files.STATIC.is_dir()\n"
        "database = Database('sqlite:///' + sys.argv[1] + '/data/roofmark.db')\n"
        "migrate(database, files.MIGRATIONS); assert current_revision(database) == revisions(files.MIGRATIONS)[-1]"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_source_distribution_leaves_the_checkouts_own_things_out(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        tops = {Path(name).parts[1] for name in archive.getnames() if len(Path(name).parts) > 1}
    assert {"app", "migrations", "static", "templates", "tests", "pyproject.toml", "LICENSE"} <= tops
    assert not tops & {".venv", ".cache", ".git", "data"}
