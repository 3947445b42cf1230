"""Keys that go somewhere, unless somebody types."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.chromium import tab
from tests.browser.notebook import running_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_notebook(tmp_path_factory.mktemp("pages") / "data") as address:
        yield address


def test_keys_go_to_pages_and_the_list_says_which(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/")
        for key, path in (("r", "/runs"), ("m", "/models"), ("h", "/history"), ("e", "/explore"), ("o", "/")):
            page.keyboard.press("g")
            page.keyboard.press(key)
            page.wait_for_url(re.compile(rf"{re.escape(path)}(\?.*)?$"))
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        dialog.wait_for()
        page.keyboard.press("n")  # not while the list is open
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
        page.keyboard.press("n")
        page.wait_for_url("**/runs/new")


def test_the_slash_finds_the_search_and_typing_goes_nowhere(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/")
        page.keyboard.press("/")
        page.wait_for_url("**/runs#text")
        search = page.get_by_label("Search")
        search.and_(page.locator(":focus")).wait_for()
        page.keyboard.type("gr?n/")
        assert search.input_value() == "gr?n/"
        assert not page.get_by_role("dialog").is_visible()
        assert "/runs" in page.url
