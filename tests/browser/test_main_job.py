"""The whole job as a person does it: add a server by its URL, run, watch, read the result and the history, cancel."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from app.demo import DemoEngine
from tests.browser.chromium import Tab, tab
from tests.browser.dashboard import running_dashboard
from tests.engine_fixture import real_engine

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoEngine]:
    with real_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_dashboard(tmp_path_factory.mktemp("notebook") / "data") as address:
        yield address


@pytest.mark.engine
@pytest.mark.parametrize(("width", "scheme", "repetitions"), [(1280, "light", 3), (390, "dark", 1)])
def test_the_main_job(
    browser: "Browser", address: str, engine: DemoEngine, width: int, scheme: str, repetitions: int
) -> None:
    with tab(browser, address, width, scheme) as opened:
        name = f"Engine {scheme}"
        add_server(opened, engine.base_url, name)
        _start_run(opened, name, suite="triple", repetitions=repetitions)
        _watch_to_the_end(opened, repetitions)
        _find_in_history(opened)
        _start_run(opened, name, suite="lengths", repetitions=100)
        _cancel(opened)


def add_server(opened: Tab, base_url: str, name: str) -> None:
    page = opened.page
    page.goto("/servers/new")
    page.get_by_label("URL").fill(base_url)
    page.get_by_role("button", name="Probe").click()
    page.get_by_text("answers.").wait_for()
    page.get_by_label("Name", exact=True).fill(name)
    assert opened.overflow() == 0
    page.get_by_role("button", name="Add server").click()
    page.get_by_role("heading", name=name, level=1).wait_for()
    assert page.get_by_text("gemma-3-270m").first.is_visible()


def _start_run(opened: Tab, server: str, suite: str, repetitions: int) -> None:
    page = opened.page
    page.goto("/runs/new")
    page.get_by_label("Server", exact=True).select_option(label=server)
    page.locator("input[name=suite]:checked").uncheck()
    page.locator(f"input[name=suite][value={suite}]").check()
    page.get_by_role("textbox", name="Repetitions").fill(str(repetitions))
    assert opened.overflow() == 0
    page.get_by_role("button", name="Run benchmark").click()
    page.wait_for_url(re.compile(r"/runs/[a-z0-9]{10}$"))
    page.get_by_role("button", name="Cancel").wait_for()


def _watch_to_the_end(opened: Tab, repetitions: int) -> None:
    page = opened.page
    page.get_by_text(re.compile(rf"sample [1-9] of {repetitions}")).wait_for()  # without loading the page again
    assert opened.overflow() == 0
    interval_text = "One sample: no interval" if repetitions == 1 else f"{repetitions} samples"
    page.get_by_text(interval_text).first.wait_for()  # the stream's end loads the result
    for title, unit in (("TTFT", "ms"), ("Prefill", "tok/s"), ("Decode", "tok/s")):
        tile = page.locator(".triple .tile", has_text=title)
        assert re.search(rf"\d.*{re.escape(unit)}", tile.locator(".figure").inner_text(), re.DOTALL)
    page.locator(".js-plotly-plot").nth(1).wait_for()
    assert opened.overflow() == 0


def _find_in_history(opened: Tab) -> None:
    page = opened.page
    run_url = page.url
    page.goto("/history")
    plot = page.locator(".js-plotly-plot")
    plot.wait_for()
    assert opened.overflow() == 0
    plot.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_url(run_url)


def _cancel(opened: Tab) -> None:
    page = opened.page
    page.get_by_text(re.compile(r"sample [1-9]\d* of 100, point 1 of")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text(re.compile("was cancelled after")).wait_for()
    page.locator("[aria-labelledby=samples-title] tbody tr").first.wait_for()  # nothing that was taken is lost
