"""From an empty notebook to a running benchmark, with the clicks counted, where an engine runs on this machine."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from app.demo import DemoEngine
from tests.browser.chromium import Tab, tab
from tests.browser.dashboard import running_dashboard
from tests.engine_fixture import real_engine
from tests.ports import free_port
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MOST_CLICKS = 3


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoEngine]:
    with real_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.mark.engine
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_found_server_is_measured_with_one_click(
    browser: "Browser", tmp_path_factory: pytest.TempPathFactory, engine: DemoEngine, width: int, scheme: str
) -> None:
    data_dir = tmp_path_factory.mktemp("empty") / "data"
    engine_port = int(engine.base_url.rpartition(":")[2])
    with running_dashboard(data_dir, ports=[engine_port]) as address, tab(browser, address, width, scheme) as opened:
        page = opened.page
        page.add_init_script(
            "addEventListener('click', () => sessionStorage.clicks = 1 + Number(sessionStorage.clicks || 0), true)"
        )
        page.goto("/")
        row = page.get_by_role("list", name="Servers found on this machine").get_by_role("listitem").first
        assert "gemma-3-270m" in row.inner_text()
        assert opened.overflow() == 0
        row.get_by_role("button", name="Run benchmark").click()
        page.wait_for_url(re.compile(r"/runs/[a-z0-9]{10}$"))
        page.locator(".state-running, .state-done").first.wait_for()
        assert int(page.evaluate("sessionStorage.clicks")) <= MOST_CLICKS
        page.get_by_text("gemma-3-270m").first.wait_for()
        _end(opened, address)


def _end(opened: Tab, address: str) -> None:
    """Cancels the run of the page unless it has ended, since a worker outlives its dashboard."""
    page = opened.page
    page.request.post(f"{page.url}/cancel", headers={"origin": address})
    until(lambda: "state-running" not in page.request.get(page.url).text())


def test_without_a_server_it_says_how_to_start_one(
    browser: "Browser", tmp_path_factory: pytest.TempPathFactory
) -> None:
    data_dir, unused = tmp_path_factory.mktemp("empty") / "data", free_port()
    with running_dashboard(data_dir, ports=[unused]) as address, tab(browser, address, 390, "light") as opened:
        page = opened.page
        page.goto("/")
        page.get_by_text("No server answers on this machine.").wait_for()
        assert page.get_by_text("llama-server -m").is_visible()
        assert not page.get_by_text(str(unused)).is_visible()
        page.get_by_text("ports that were tried").click()
        assert page.get_by_text(str(unused)).is_visible()
        assert page.get_by_label("Address of the server").is_visible()
        assert opened.overflow() == 0
