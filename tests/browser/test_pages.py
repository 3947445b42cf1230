"""Every page over a full notebook, light and dark, wide and narrow: nothing overflows, nothing complains."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app import files
from app.db import Database, migrate
from tests.browser.chromium import VARIANTS, Tab, tab
from tests.browser.dashboard import running_dashboard
from tests.seed import seed

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATHS = (
    "/",
    "/runs",
    "/runs/new",
    "/runs/seed000039",
    "/runs/seed000032",
    "/history",
    "/explore",
    "/explore?y=ttft_ms&x=prompt_tokens&series=variant",
    "/explore?y=decode_tokens_per_s&x=configuration&raw=on",
    "/machines",
    "/machines/new",
    "/machines/new?here=true",
    "/machines/devices",
    "/machines/strix-halo",
    "/machines/strix-halo/edit",
    "/servers",
    "/servers/strix-halo-8080",
    "/suites",
    "/suites/triple",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data_dir = tmp_path_factory.mktemp("pages") / "data"
    _fill(data_dir)
    with running_dashboard(data_dir) as address:
        yield address


def _fill(data_dir: Path) -> None:
    database = Database(f"sqlite:///{data_dir / 'roofmark.db'}")
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        seed(session, runs=40)
    database.dispose()


def _draw_and_hover(opened: Tab) -> None:
    """Charts are drawn after the page has loaded; their hover labels are made when somebody looks."""
    page = opened.page
    for plot in page.locator("[data-figure]").all():
        plot.scroll_into_view_if_needed()
        plot.locator(".main-svg").first.wait_for()
        plot.focus()
        page.keyboard.press("ArrowLeft")
        plot.locator(".hovertext").first.wait_for()


@pytest.mark.parametrize(("width", "scheme"), VARIANTS)
def test_every_page_is_quiet_and_fits(browser: "Browser", address: str, width: int, scheme: str) -> None:
    with tab(browser, address, width, scheme) as opened:
        for path in PATHS:
            answer = opened.page.goto(path)
            assert answer is not None
            assert answer.ok, path
            _draw_and_hover(opened)
            assert opened.overflow() == 0, path


def _first_line_colour(opened: Tab) -> str:
    colour: str = opened.page.locator(".js-plotly-plot .lines path").first.evaluate(
        "line => getComputedStyle(line).stroke"
    )
    return colour


def test_a_change_of_theme_draws_charts_anew_and_is_remembered(browser: "Browser", address: str) -> None:
    with tab(browser, address, scheme="light") as opened:
        page = opened.page
        page.goto("/history")
        page.locator(".js-plotly-plot .lines path").first.wait_for()
        light = _first_line_colour(opened)
        page.locator("[data-theme-toggle]").click()
        page.wait_for_function(
            "was => getComputedStyle(document.querySelector('.js-plotly-plot .lines path')).stroke !== was", arg=light
        )
        dark = _first_line_colour(opened)
        page.reload()
        page.locator(".js-plotly-plot .lines path").first.wait_for()
        assert _first_line_colour(opened) == dark


def test_choosing_a_filter_draws_the_history_anew(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/history")
        page.locator(".js-plotly-plot").wait_for()
        page.get_by_label("Suite", exact=True).select_option("lengths")
        page.wait_for_url("**/history?suite=lengths")
        page.get_by_role("heading", name="Runs of the suite lengths").wait_for()
        page.locator(".js-plotly-plot").wait_for()


def test_choosing_an_axis_draws_the_explorer_anew(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/explore")
        page.get_by_label("against", exact=True).select_option("prompt_tokens")
        page.wait_for_url("**/explore?x=prompt_tokens&y=decode_tokens_per_s&series=model")
        page.get_by_role("heading", name="Decode against prompt tokens").wait_for()
        page.get_by_label("Show", exact=True).select_option("ttft_ms")
        page.locator("#presets a[aria-current]", has_text="TTFT against prompt length").wait_for()
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        page.get_by_label("Each run by itself").check()
        page.wait_for_url("**raw=on")
        page.get_by_text("Data table").click()
        page.locator(".chart-data tbody a").first.click()
        page.wait_for_url("**/runs/*")


def test_a_note_is_saved_in_place(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/runs/seed000030")
        page.get_by_text("Add a note").click()
        page.get_by_label("Note", exact=True).last.fill("Fans at 80 %")
        page.get_by_role("button", name="Save note").click()
        page.locator(".note-text", has_text="Fans at 80 %").wait_for()
        page.get_by_text("Edit the note").wait_for()


def test_without_scripts_everything_can_be_read(browser: "Browser", address: str) -> None:
    context = browser.new_context(base_url=address, java_script_enabled=False)
    page = context.new_page()
    page.goto("/history?suite=triple")
    page.get_by_text("Data table").click()
    page.locator(".chart-data tbody a").first.click()
    assert page.locator(".triple .figure").first.is_visible()
    context.close()
