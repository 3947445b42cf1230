"""A full notebook for browsers: every kind of page has something to show."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core import files
from app.db import annotations, servers
from app.db.database import Database
from app.db.migrate import migrate
from tests.browser.dashboard import running_dashboard
from tests.seed import _setups, seed

FINGERPRINT = _setups()[2].snapshot.fingerprint
PATHS = (
    "/",
    "/runs",
    "/runs?hidden=only",
    "/runs?text=nothing+like+it",
    "/runs/new",
    "/runs/seed000039",
    "/runs/seed000038",
    "/runs/seed000032",
    "/runs/seed000039/delete",
    "/configs/" + FINGERPRINT,
    "/history",
    "/explore",
    "/explore/context",
    "/explore?y=ttft_ms&x=prompt_tokens&series=variant",
    "/explore?y=decode_tokens_per_s&x=configuration&raw=on",
    "/compare",
    "/compare?run=seed000039&run=seed000037&run=seed000032",
    "/compare?" + "&".join(f"run=seed{number:06d}" for number in range(30, 38)),
    "/compare?run=seed000039",
    "/compare?" + "&".join(f"run=seed{number:06d}" for number in range(31, 39)),
    "/ceiling",
    "/ceiling?model=1&device=Radeon+8060S+on+strix-halo",
    "/glossary",
    "/machines",
    "/machines/new",
    "/machines/new?here=true",
    "/machines/devices",
    "/machines/strix-halo",
    "/machines/strix-halo/edit",
    "/models",
    "/models?group=machine&by=ttft",
    "/models/named?name=Qwen3-30B-A3B",
    "/models/weights",
    "/models/1",
    "/servers",
    "/servers/new",
    "/servers/strix-halo-8080",
    "/servers/strix-halo-8080/edit",
    "/servers/strix-halo-8080/archive",
    "/servers/m3-ultra-8000/delete",
    "/suites",
    "/suites/new",
    "/suites/triple",
    "/shares",
    "/shares/new?kind=run&run=seed000032",
    "/shares/new?kind=comparison&run=seed000039&run=seed000037&run=seed000032",
    "/shares/new?kind=explorer&y=decode_tokens_per_s&x=configuration&series=machine",
    "/shares/new?kind=ceiling&device=rtx+3090&total=8.03&bits=Q4_K_M",
)


@contextmanager
def running_notebook(data_dir: Path) -> Iterator[str]:
    """Gives its address."""
    database = Database(f"sqlite:///{data_dir / 'roofmark.db'}")
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        ids = seed(session, runs=40)
        annotations.edit_note(session, ids[-1], "Fans at 80 %, side panel off.")
        annotations.set_labels(session, ids[-1], ["night", "fans 80 %"])
        annotations.hide(session, ids[-2], annotations.REASONS[0])
        servers.archive_server(session, "m3-ultra-8000")
    database.dispose()
    with running_dashboard(data_dir) as address:
        yield address
