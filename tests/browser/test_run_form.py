"""Several runs of several suites, watched while they arrive, and one measured again with a change."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from app.demo import DemoEngine
from tests.browser.chromium import Tab, tab
from tests.browser.dashboard import running_dashboard
from tests.browser.test_main_job import add_server
from tests.engine_fixture import real_engine

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPETITIONS = 50
"""So many that none of the runs ends by itself."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoEngine]:
    with real_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_dashboard(tmp_path_factory.mktemp("notebook") / "data") as address:
        yield address


@pytest.mark.engine
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_batch_is_watched_and_measured_again(
    browser: "Browser", address: str, engine: DemoEngine, width: int, scheme: str
) -> None:
    with tab(browser, address, width, scheme) as opened:
        name = f"Engine {scheme}"
        add_server(opened, engine.base_url, name)
        _queue_two_suites(opened, name)
        _watch(opened)
        _cancel_what_waits(opened)
        _change_and_run_again(opened)


def _queue_two_suites(opened: Tab, server: str) -> None:
    page = opened.page
    page.goto("/runs/new")
    page.get_by_label("Server", exact=True).select_option(label=server)
    page.locator("input[name=suite][value=lengths]").check()
    page.get_by_text("Lengths leaves out its point of 8,000 prompt tokens.").wait_for()
    page.get_by_label("Runs of each suite").fill("2")
    page.get_by_role("textbox", name="Repetitions").fill(str(REPETITIONS))
    page.get_by_role("textbox", name="Warm-ups").fill("0")
    page.get_by_text("4 runs, one after another: triple, lengths, triple, lengths.").wait_for()
    page.locator(".settings summary").click()
    page.get_by_label("Split among GPUs").fill("1")
    assert opened.overflow() == 0
    button = page.get_by_role("button", name="Run benchmark")
    page.evaluate("scrollTo(0, 0)")
    box = button.bounding_box()
    assert box is not None
    assert box["y"] < 900, "the button is in sight wherever the page is scrolled to"
    button.click()
    page.wait_for_url(re.compile(r"/runs/[a-z0-9]{10}$"))


def _watch(opened: Tab) -> None:
    """Nothing is loaded again meanwhile."""
    page = opened.page
    page.locator("[data-live-words]", has_text=re.compile(r"^\d+ of 128 tokens so far$")).wait_for()
    page.locator("[data-live-rate]", has_text=re.compile(r"^[\d.]+ tok/s$")).wait_for()
    assert page.locator("[data-live-text]").inner_text().strip()
    assert page.locator(".dot").count() == REPETITIONS
    assert page.locator(".dot-running").count() == 1
    assert opened.overflow() == 0


def _cancel_what_waits(opened: Tab) -> None:
    page = opened.page
    page.get_by_text("Still to come of those queued together: 3 runs").wait_for()
    page.get_by_role("button", name="Cancel all that wait").click()
    page.get_by_text("Still to come").wait_for(state="detached")
    page.locator(".dot-running").wait_for()  # what is being measured goes on
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_text(re.compile("was cancelled after")).wait_for()


def _change_and_run_again(opened: Tab) -> None:
    page = opened.page
    page.get_by_role("link", name="Run again with a change").click()
    threads = page.get_by_label("Split among GPUs")
    assert threads.input_value() == "1"
    threads.fill("2")
    assert page.get_by_role("textbox", name="Repetitions").input_value() == str(REPETITIONS)
    assert opened.overflow() == 0
    page.get_by_role("button", name="Run benchmark").click()
    page.wait_for_url(re.compile(r"/runs/[a-z0-9]{10}$"))
    page.locator("dt", has_text="Split among GPUs").locator("xpath=following-sibling::dd", has_text="2").wait_for()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_text(re.compile("was cancelled after")).wait_for()
