"""Two questions about models, from the overview, in a year of runs: the answer stands first, at any width."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.core import files
from app.db.database import Database
from app.db.migrate import migrate
from tests.browser.chromium import tab
from tests.browser.dashboard import running_dashboard
from tests.year import seed_year

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data_dir: Path = tmp_path_factory.mktemp("year") / "data"
    database = Database(f"sqlite:///{data_dir / 'roofmark.db'}")
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        seed_year(session, 0)
    database.dispose()
    with running_dashboard(data_dir) as url:
        yield url


@pytest.mark.parametrize("width", [1280, 390])
def test_the_best_per_model_is_one_click_away(browser: "Browser", address: str, width: int) -> None:
    with tab(browser, address, width) as opened:
        page = opened.page
        page.goto("/")
        page.get_by_role("link", name="Models", exact=True).click()
        answer = page.locator(".answer").bounding_box()
        assert "Fastest here" in page.locator(".answer").inner_text()
        assert answer is not None
        assert answer["y"] + answer["height"] < 844  # in sight on a phone without scrolling
        page.get_by_label("Sort by").select_option("below")
        page.wait_for_url("**sort=below*")
        assert "slower" in page.locator(".leaderboard tbody tr").first.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_the_fastest_quantization_is_two_clicks_away(browser: "Browser", address: str, width: int) -> None:
    with tab(browser, address, width) as opened:
        page = opened.page
        page.goto("/")
        page.get_by_role("link", name="Models", exact=True).click()
        page.get_by_role("link", name="Gemma-3-27B", exact=True).first.click()
        assert "Q3_K_M is the fastest on strix-halo" in page.locator(".answer").inner_text()
        page.locator(".chart-plot .main-svg").first.wait_for()
        page.get_by_label("Best by").select_option("ttft")
        page.wait_for_url("**by=ttft*")
        page.get_by_text("TTFT by build on strix-halo").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
