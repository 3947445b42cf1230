"""Sharing in a real browser: from a run to its public page, the file that needs no server, and the end of the link."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.core import files
from app.db.database import Database
from app.db.migrate import migrate
from tests.browser.chromium import VARIANTS, Tab, tab
from tests.browser.dashboard import running_dashboard
from tests.seed import seed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data_dir = tmp_path_factory.mktemp("shares") / "data"
    database = Database(f"sqlite:///{data_dir / 'roofmark.db'}")
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        seed(session, runs=40)
    database.dispose()
    with running_dashboard(data_dir, ROOFMARK_PASSWORD=PASSWORD) as address:
        yield address


def _log_in(page: "Page") -> None:
    page.goto("/login")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def _share(page: "Page", run: str) -> str:
    """From the run's page through the preview; gives the link."""
    page.goto(f"/runs/{run}")
    page.get_by_role("link", name="Share").click()
    page.wait_for_load_state()  # what is ticked before the scripts run is only asked about when the link is made
    page.get_by_label("Title").fill(f"Shared {run}")
    page.get_by_role("checkbox", name="Machine name").check()
    page.locator(".share .facts dt", has_text="Machine").wait_for()  # the preview follows what is ticked
    page.locator(".share .js-plotly-plot").first.wait_for()
    page.locator(".share-card").evaluate("image => image.decode()")
    page.get_by_role("button", name="Create the link").click()
    page.get_by_text("is ready: copy it below").wait_for()
    return page.locator("tr", has_text=f"Shared {run}").locator("code").inner_text()


def _colour(page: "Page") -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def _switch_and_hover(opened: Tab) -> None:
    page = opened.page
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    before = _colour(page)
    page.locator("[data-theme-toggle]").click()
    assert _colour(page) != before
    for plot in page.locator("[data-figure]").all():
        plot.scroll_into_view_if_needed()
        plot.focus()
        page.keyboard.press("ArrowLeft")
        plot.locator(".hovertext").first.wait_for()


def _remember_requests(page: "Page", asked: list[str]) -> None:
    page.on("request", lambda request: asked.append(request.url))


@pytest.mark.parametrize(("width", "scheme"), VARIANTS)
def test_a_link_from_the_run_to_its_end(browser: "Browser", address: str, width: int, scheme: str) -> None:
    run = "seed000032" if scheme == "dark" else "seed000039"
    with tab(browser, address, width, scheme) as inside:
        _log_in(inside.page)
        link = _share(inside.page, run)
        assert inside.overflow() == 0
        with tab(browser, address, width, scheme) as reader:  # who is not logged in
            reader.page.goto(link)
            assert reader.page.get_by_role("heading", name=f"Shared {run}", level=1).is_visible()
            _switch_and_hover(reader)
            reader.page.locator(".share-post summary").click()
            reader.page.get_by_role("button", name="Copy").click()
            reader.page.get_by_role("button", name="Copied").wait_for()
            assert reader.overflow() == 0
            assert reader.context.cookies() == []
        inside.page.get_by_role("button", name=f"Revoke the link to Shared {run}").click()
        inside.page.get_by_text("revoked link").wait_for()
        assert [inside.page.request.get(f"{link}{form}").status for form in ("", ".json", ".png")] == [404] * 3


def test_the_file_opens_from_a_disk_and_asks_for_nothing(browser: "Browser", address: str, tmp_path: Path) -> None:
    with tab(browser, address) as inside:
        _log_in(inside.page)
        inside.page.goto(_share(inside.page, "seed000039"))
        with inside.page.expect_download() as download:
            inside.page.get_by_role("link", name="Save as one HTML file").click()
        path = tmp_path / "shared.html"
        download.value.save_as(path)
    for width, scheme in VARIANTS:
        with tab(browser, address, width, scheme) as reader:
            asked: list[str] = []
            _remember_requests(reader.page, asked)
            reader.context.set_offline(True)
            reader.page.goto(path.as_uri())
            _switch_and_hover(reader)
            assert reader.overflow() == 0
            assert reader.page.evaluate("document.fonts.check('16px Inter')")
            assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
