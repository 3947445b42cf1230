"""The main pages in Traditional Chinese, as a browser of Taiwan asks for them."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.chromium import VARIANTS, tab
from tests.browser.notebook import PATHS, running_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HEADINGS = {
    "/": "總覽",
    "/runs": "測試",
    "/history": "歷史",
    "/explore": "探索",
    "/compare": "比較",
    "/ceiling": "上限",
    "/servers": "伺服器",
    "/machines": "機器",
    "/models": "模型",
    "/suites": "測試組",
    "/shares": "分享連結",
    "/glossary": "詞彙表",
    "/runs/new": "執行測試",
}
SECTIONS = ("上限", "什麼限制了這個結果？", "Token", "組態", "樣本", "其他指標")
"""Of the page of a run."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_notebook(tmp_path_factory.mktemp("language") / "data") as address:
        yield address


@pytest.mark.parametrize(("width", "scheme"), VARIANTS)
def test_every_page_is_in_chinese_and_fits(browser: "Browser", address: str, width: int, scheme: str) -> None:
    with tab(browser, address, width, scheme, locale="zh-TW") as opened:
        page = opened.page
        for path in PATHS:
            answer = page.goto(path)
            assert answer is not None
            assert answer.ok, path
            assert page.locator("html").get_attribute("lang") == "zh-Hant", path
            assert opened.overflow() == 0, path
            if path in HEADINGS:
                assert page.locator("h1").inner_text() == HEADINGS[path], path
            menu = page.locator("header nav").inner_text()
            assert not re.search(r"[A-Za-z]", menu), menu


def test_a_run_is_told_in_chinese(browser: "Browser", address: str) -> None:
    with tab(browser, address, locale="zh-TW") as opened:
        opened.page.goto("/runs/seed000032")
        headings = opened.page.locator("h2").all_inner_texts()
        # where there are several points, a heading also says which one it is about
        assert not [section for section in SECTIONS if not any(title.startswith(section) for title in headings)]
        assert [title for title in headings if re.fullmatch(r"[A-Za-z ,]+", title)] == ["Token"]
        assert opened.page.locator(".triple .label .term").all_inner_texts() == ["首 token 延遲", "前置處理", "解碼"]


def test_the_language_can_be_chosen_and_is_remembered(browser: "Browser", address: str) -> None:
    with tab(browser, address, locale="zh-TW") as opened:
        page = opened.page
        page.goto("/runs?suite=triple")
        page.get_by_role("button", name="English").click()
        page.wait_for_url("**/runs?suite=triple")
        assert page.locator("h1").inner_text() == "Runs"
        page.goto("/")
        assert page.locator("html").get_attribute("lang") == "en"
