"""Pages in a real browser, and everything it complains about."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tests.needs import need
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
VARIANTS = ((1280, "light"), (390, "dark"))
"""What a page shows depends on its colours or on its width, on no pair of them."""


@contextmanager
def running_browser() -> Iterator["Browser"]:
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    need(executable, "Chromium is not installed (Debian: apt-get install chromium)")
    need(find_spec("playwright"), "playwright is not installed (the extra `test`)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One tab of a given width and colour scheme that remembers every error and warning of its console."""

    def __init__(
        self, browser: "Browser", base_url: str, width: int = 1280, scheme: str = "light", locale: str = "en-US"
    ) -> None:
        self.context = browser.new_context(
            base_url=base_url,
            locale=locale,
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        self.context.set_default_timeout(PATIENCE_S * 1000)  # how long a busy machine takes is never asserted
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda text: self._remember(text.type, text.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", lambda request: self._failed(request.url, request.failure))

    def _remember(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{self.page.url}: {text}")

    def _failed(self, url: str, failure: str | None) -> None:
        # leaving a page ends its open requests, such as a progress stream
        if failure != "net::ERR_ABORTED":
            self.complaints.append(f"{url}: {failure}")

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        pixels: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return pixels

    def close(self) -> None:
        self.context.close()


@contextmanager
def tab(
    browser: "Browser", base_url: str, width: int = 1280, scheme: str = "light", locale: str = "en-US"
) -> Iterator[Tab]:
    """Closed at the end; whatever the browser complained about fails the test."""
    opened = Tab(browser, base_url, width, scheme, locale)
    try:
        yield opened
        assert opened.complaints == []
    finally:
        opened.close()
