"""Names, labels and notes as long as they may be, with nowhere to break them: pages keep their width, lists their
figures."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from sqlmodel import select

from app.core import files
from app.db import annotations, baselines
from app.db.database import Database
from app.db.migrate import migrate
from app.db.tables import Config, Machine, Model, Server
from tests.browser.chromium import tab
from tests.browser.dashboard import running_dashboard
from tests.seed import seed

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LISTS = ("/", "/runs", "/compare", "/servers", "/machines", "/models")
"""Whose tables fit a wide window."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data_dir = tmp_path_factory.mktemp("long") / "data"
    database = Database(f"sqlite:///{data_dir / 'roofmark.db'}")
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        ids = seed(session, runs=40)
        for machine in session.exec(select(Machine)):
            machine.name = f"機器{machine.id}" + "超長" * 50
        for server in session.exec(select(Server)):
            server.name, server.base_url = "s" * 120, f"http://{'h' * 200}:{server.id}"
        for model in session.exec(select(Model)):
            model.name = f"/models/{model.id}{'x' * 240}.gguf"
        for config in session.exec(select(Config)):
            config.settings = config.settings | {"flags": "--flag" * 60, "k" * 80: "v" * 200}
        for public_id in ids[-3:]:
            annotations.edit_note(session, public_id, "n" * 500)
            annotations.set_labels(session, public_id, ["l" * 60, "標籤" * 30])
        annotations.hide(session, ids[-3], "r" * 400)
        baselines.pin(session, ids[0])
    database.dispose()
    with running_dashboard(data_dir) as address:
        yield address


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overflows(browser: "Browser", address: str, width: int) -> None:
    runs = "&".join(f"run=seed{number:06d}" for number in range(32, 40))
    with tab(browser, address, width) as opened:
        for path in (
            *LISTS,
            "/runs/seed000039",
            "/runs/seed000037",
            "/runs/seed000039/delete",
            "/history",
            "/explore?y=decode_tokens_per_s&x=model&series=configuration",
            f"/compare?{runs}",
            f"/shares/new?kind=comparison&{runs}",
            "/shares/new?kind=run&run=seed000039&include=note&include=labels&include=machine&include=flags",
        ):
            opened.page.goto(path)
            for plot in opened.page.locator("[data-figure]").all():
                plot.locator(".main-svg").first.wait_for()
            assert opened.overflow() == 0, path
            if path in LISTS and width > 1000:
                hidden = opened.page.evaluate(
                    "[...document.querySelectorAll('.scroll')].map(each => each.scrollWidth - each.clientWidth)"
                )
                assert max(hidden) <= 0, path
