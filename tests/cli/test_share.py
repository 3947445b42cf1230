"""`roofmark share`: a link, a file, or a post."""

import html
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlmodel import select
from typer.testing import CliRunner, Result

from app.cli import app
from app.core.settings import Settings
from app.db import annotations
from app.db.database import Database
from app.db.tables import Share
from tests.seed import seed
from tests.web.notebook import pages


@pytest.fixture
def run_id(database: Database) -> str:
    with database.write() as session:
        public_id = seed(session, runs=2, configs_used=1, detailed=2)[0]
        annotations.edit_note(session, public_id, "Fans at 80 %")
        return public_id


@pytest.fixture(autouse=True)
def _own_data(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)


def roofmark(*arguments: str, command: str = "share") -> Result:
    return CliRunner().invoke(app, [command, *arguments])


def shares(database: Database) -> list[Share]:
    with database.read() as session:
        return list(session.exec(select(Share)).all())


def test_a_link_is_printed_by_its_path(database: Database, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFMARK_ROOT_PATH", "roofmark")
    result = roofmark(run_id, "--title", "My rig", "--include", "note")
    assert result.exit_code == 0
    (share,) = shares(database)
    assert result.stdout == f"/roofmark/s/{share.slug}\n"
    assert share.title == share.snapshot["title"] == "My rig"
    assert share.snapshot["prose"] == [{"title": "Note", "text": "Fans at 80 %"}]


def test_a_public_address_makes_whole_links(
    database: Database, run_id: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    private = roofmark(run_id)
    assert private.stdout.startswith("/s/")
    assert "Only people who reach this server can open it" in private.stderr
    monkeypatch.setenv("ROOFMARK_PUBLIC_URL", "https://bench.example.org/roofmark/")
    public = roofmark(run_id)
    slug = shares(database)[-1].slug
    assert (public.stdout, public.stderr) == (f"https://bench.example.org/roofmark/s/{slug}\n", "")
    listed = json.loads(roofmark("list", "--json", command="shares").stdout)["shares"]
    assert f"https://bench.example.org/roofmark/s/{slug}" in [share["url"] for share in listed]
    picture = tmp_path / "result.png"
    assert roofmark(run_id, "--picture", str(picture)).stdout == ""
    assert picture.read_bytes().startswith(b"\x89PNG")
    monkeypatch.setenv("ROOFMARK_PUBLIC_URL", "bench.example.org")
    assert "ROOFMARK_PUBLIC_URL is not usable: it must be an address" in str(roofmark(run_id).exception)


def test_a_run_is_named_by_a_word_too(database: Database, run_id: str) -> None:
    assert roofmark("latest").exit_code == roofmark("seed000001").exit_code == 0
    by_word, by_id = shares(database)
    assert by_word.kind == "run"
    assert by_word.snapshot == by_id.snapshot
    assert roofmark("seed000000", "latest").exit_code == 0
    assert shares(database)[-1].kind == "comparison"
    assert "has no baseline" in str(roofmark("baseline").exception)


def test_several_runs_are_compared(database: Database, run_id: str) -> None:
    result = roofmark(run_id, "seed000001")
    assert result.exit_code == 0
    (share,) = shares(database)
    assert share.kind == "comparison"


def test_a_file_and_a_post_make_no_link(database: Database, run_id: str, tmp_path: Path) -> None:
    path = tmp_path / "shared.html"
    result = roofmark(run_id, "--html", str(path), "--markdown")
    assert result.exit_code == 0
    assert "| Decode | " in result.stdout
    assert "Fans" not in result.stdout
    assert path.read_text().startswith("<!doctype html>")
    assert shares(database) == []


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("http://127.0.0.1:8765/explore?y=decode_tokens_per_s&x=quantization&series=", "explorer"),
        ("https://example.org/roofmark/ceiling?device=rtx+3090&total=8.03&bits=Q4_K_M&kv=", "ceiling"),
        ("/compare?run={run}&run=seed000001", "comparison"),
        ("/runs/{run}?point=512/128/1/0#ceiling-title", "run"),
    ],
)
def test_the_address_of_a_page_shares_what_its_button_does(
    settings: Settings, database: Database, run_id: str, address: str, kind: str
) -> None:
    address = address.replace("{run}", run_id)
    assert roofmark(address, "--title", "Mine").exit_code == 0
    (share,) = shares(database)
    assert (share.kind, share.title) == (kind, "Mine")
    with pages(settings) as client:
        parts = urlsplit(address)
        page = client.get(f"{parts.path.removeprefix('/roofmark')}?{parts.query}").text
        (button,) = set(re.findall(r'href="(/shares/new\?[^"]+)"', page))
        preview = client.get(html.unescape(button)).text
        form: dict[str, list[str]] = {}
        for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', preview):
            form.setdefault(name, []).append(html.unescape(value))
        client.post("/shares", data=form)
    by_command, by_button = shares(database)
    assert by_command.snapshot == by_button.snapshot | {"title": "Mine"}


def test_links_are_listed_and_revoked(database: Database, run_id: str) -> None:
    assert roofmark("list", command="shares").stdout == ""
    link = roofmark(run_id, "--title", "One").stdout.strip()
    second_link = roofmark(run_id, "--title", "Other").stdout.strip()
    listed = roofmark("list", command="shares").stdout.splitlines()
    assert [line.split()[0] for line in listed] == [second_link, link]
    revoked = roofmark("revoke", f"https://example.org{link}", command="shares")
    assert revoked.exit_code == 0
    document = json.loads(roofmark("list", "--json", command="shares").stdout)
    assert [(share["title"], share["revoked_at"] is None) for share in document["shares"]] == [
        ("Other", True),
        ("One", False),
    ]
    assert "has been revoked" in str(roofmark("revoke", link, command="shares").exception)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonesuch"], "There is no run"),
        (["/history?suite=triple"], "can be shared, not '/history?suite=triple'"),
        (["/explore?y=nonesuch"], "nonesuch"),
        (["/ceiling"], "Type the model's parameters"),
        (["/runs/{run}", "{run}"], "A page is shared alone"),
        (["{run}", "--include", "all"], "'all' is not one of them"),
        (["{run}", "--html", "/nonesuch/x.html"], "cannot be written"),
        (["{run}", "--title", "x" * 201], "longer than 200"),
    ],
)
def test_what_cannot_be_shared_is_one_sentence(run_id: str, arguments: list[str], sentence: str) -> None:
    result = roofmark(*(argument.replace("{run}", run_id) for argument in arguments))
    assert sentence in str(result.exception)
