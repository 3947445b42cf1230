"""Every page over a full notebook, light and dark, wide and narrow: nothing overflows, nothing complains."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.chromium import VARIANTS, Tab, tab
from tests.browser.notebook import PATHS, running_notebook
from tests.ceiling.models import MODELS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_notebook(tmp_path_factory.mktemp("pages") / "data") as address:
        yield address


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
        page.locator(".js-plotly-plot").first.wait_for()
        page.get_by_label("Suite", exact=True).select_option("lengths")
        page.wait_for_url("**/history?suite=lengths")
        page.get_by_label("Machine", exact=True).first.select_option("strix-halo")
        page.wait_for_url("**/history?machine=strix-halo&suite=lengths")
        page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot').length === 1")
        page.get_by_role("heading", name="Runs of the suite lengths").wait_for()


def test_lines_of_the_history_are_hidden_and_a_time_is_dragged(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/history?machine=m3-ultra")
        plot = page.locator(".js-plotly-plot")
        plot.locator(".lines path").first.wait_for()
        (line, *_) = page.locator("[data-line]").all()
        key = line.get_attribute("data-line")
        line.click()
        page.wait_for_url(f"**/history?machine=m3-ultra&hide={key}")
        page.reload()
        assert page.locator(f'[data-line="{key}"]').get_attribute("aria-pressed") == "false"
        page.locator(f'[data-line="{key}"]').click()
        page.wait_for_url("**/history?machine=m3-ultra")
        plot.locator(".lines path").first.wait_for()
        box = plot.locator(".nsewdrag").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 20, steps=4)
        page.mouse.up()
        page.wait_for_url(re.compile(r"since=\d{4}-\d\d-\d\d&until=\d{4}"))
        page.get_by_text("Show all time").click()
        page.wait_for_url(lambda url: "since" not in url)
        page.get_by_text("30 d", exact=True).click()
        page.wait_for_url("**period=30d**")


def test_choosing_an_axis_draws_the_explorer_anew(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/explore")
        page.get_by_label("Against", exact=True).select_option("prompt_tokens")
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


def test_two_runs_are_ticked_compared_and_swapped(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/runs")
        for public_id in ("seed000039", "seed000037"):
            page.get_by_label(f"Choose run {public_id}").check()
        page.get_by_role("button", name="Compare").click()
        page.wait_for_url("**/compare?run=seed000037&run=seed000039")
        page.get_by_role("heading", name="What differs").wait_for()
        page.get_by_role("link", name="Swap").click()
        page.wait_for_url("**/compare?run=seed000039&run=seed000037")


def test_a_baseline_is_pinned_and_later_runs_say_how_they_stand(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/runs/seed000028")
        page.get_by_role("button", name="Pin as baseline").click()
        page.get_by_text("This run is the baseline").wait_for()
        page.goto("/runs")
        page.locator("a.verdict").first.click()
        page.wait_for_url("**/compare?run=seed000028&run=*")
        page.goto("/runs/seed000028")
        page.get_by_role("button", name="Unpin baseline").click()
        page.get_by_role("button", name="Pin as baseline").wait_for()


def test_without_scripts_everything_can_be_read(browser: "Browser", address: str) -> None:
    context = browser.new_context(base_url=address, java_script_enabled=False)
    page = context.new_page()
    page.goto("/history?suite=triple")
    page.get_by_text("Data table").first.click()
    page.locator(".chart-data tbody a").first.click()
    assert page.locator(".triple .figure").first.is_visible()
    context.close()


def test_a_run_is_hidden_and_taken_back_at_once(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/runs/seed000036")
        page.get_by_text("Hide from statistics").click()
        page.get_by_label("Why?").fill("The fans stood still.")
        page.get_by_role("button", name="Hide").click()
        page.get_by_text("The run is hidden").wait_for()
        assert page.get_by_text("The fans stood still.").first.is_visible()
        page.get_by_role("button", name="Undo").click()
        page.get_by_text("Hide from statistics").wait_for()
        assert page.get_by_text("The fans stood still.").count() == 0


def test_typing_narrows_the_list_down_and_the_address_says_so(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/runs")
        page.get_by_role("searchbox", name="Search").fill("fans panel")
        page.wait_for_url("**/runs?text=fans+panel")
        page.locator("#runs tbody tr").nth(1).wait_for(state="detached")
        assert page.locator("#runs tbody tr").count() == 1


@pytest.mark.parametrize("path", ["/runs/seed000039", "/runs/seed000032"])
def test_on_a_phone_points_and_samples_need_no_scrolling(browser: "Browser", address: str, path: str) -> None:
    with tab(browser, address, 390) as opened:
        page = opened.page
        page.goto(path)
        for name in ("Table of workloads", "Table of samples"):
            for region in page.get_by_role("region", name=name).all():
                assert region.evaluate("each => each.scrollWidth <= each.clientWidth")


@pytest.mark.parametrize("path", ["/", "/servers", "/shares", "/compare?run=seed000039&run=seed000037"])
def test_on_a_phone_every_entry_of_the_menu_and_every_verdict_is_in_sight(
    browser: "Browser", address: str, path: str
) -> None:
    with tab(browser, address, 390) as opened:
        page = opened.page
        page.goto(path)
        for element in page.locator("nav a, .compared tbody td").all():
            box = element.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390


@pytest.mark.parametrize("script", ["plotly-basic.min.js", "charts.js"])
def test_a_chart_that_cannot_be_drawn_says_so_and_opens_its_numbers(
    browser: "Browser", address: str, script: str
) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.route(f"**/{script}", lambda route: route.abort())
        page.goto("/history?suite=triple")
        page.get_by_text("could not be drawn").first.wait_for()
        assert page.locator(".chart-data tbody a").first.is_visible()
        assert any(script in text for text in opened.complaints)
        opened.complaints.clear()


def test_nothing_moves_when_a_chart_comes(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        held_routes: list[Route] = []
        page.route("**/plotly-basic.min.js", lambda route: held_routes.append(route))
        page.goto("/history?suite=triple", wait_until="commit")
        plot = page.locator(".chart-plot").first
        plot.wait_for()
        assert "Loading" in plot.evaluate("each => getComputedStyle(each, '::before').content")
        height = plot.bounding_box()
        held_routes[0].continue_()
        plot.locator(".main-svg").first.wait_for()
        assert plot.bounding_box() == height


def test_on_paper_it_is_light_whole_and_without_buttons(browser: "Browser", address: str) -> None:
    with tab(browser, address, scheme="dark") as opened:
        page = opened.page
        page.goto("/history?suite=triple")
        page.locator(".js-plotly-plot .lines path").first.wait_for()
        dark = _first_line_colour(opened)
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size({"width": 690, "height": 900})  # A4 between its margins
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.main-svg')]"
            ".every(each => each.clientWidth <= each.closest('.chart').clientWidth)"
        )
        assert _first_line_colour(opened) != dark
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert opened.overflow() == 0
        for name in ("nav", "main button", "main .button", ".top-end"):
            assert not any(element.is_visible() for element in page.locator(name).all()), name
        assert all(plot.is_visible() for plot in page.locator(".chart-plot").all())
        page.emulate_media(media="screen", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.wait_for_function(
            "was => getComputedStyle(document.querySelector('.js-plotly-plot .lines path')).stroke === was", arg=dark
        )


EMPTY = """
() => [...document.querySelectorAll('main .card')]
  .filter(each => each.checkVisibility() && !each.innerText.trim() && !each.querySelector('svg, img'))
  .map(each => each.outerHTML.slice(0, 160))
"""


def test_on_paper_no_page_has_controls_or_empty_boxes(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.emulate_media(media="print")
        for path in PATHS:
            page.goto(path)
            for name in ("nav", "main button", "main .button", ".moves"):
                assert not any(element.is_visible() for element in page.locator(name).all()), (path, name)
            assert page.evaluate(EMPTY) == [], path


def test_a_config_is_uploaded_from_a_runs_page_and_the_calculator_follows(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        page = opened.page
        page.goto("/runs/seed000039")
        page.get_by_text("Where these figures come from").click()
        page.locator(".ceiling-basis dd a").click()
        page.get_by_text("A config.json", exact=True).click()
        config = json.dumps(MODELS["Llama-3.1-8B"]).encode()
        page.get_by_label("File").set_input_files({"name": "c.json", "mimeType": "application/json", "buffer": config})
        page.locator("details[open]").get_by_label("Bits per weight").fill("8.5")
        page.locator("details[open]").get_by_role("button", name="Save").click()
        page.wait_for_url("**/runs/seed000039#ceiling-title")
        page.get_by_text("the model from its config.json, stated on").wait_for()
        page.get_by_role("link", name="Open in the calculator").click()
        page.get_by_label("Bits per weight").fill("Q4_K_M")
        page.get_by_label("Bits per weight").press("Tab")
        page.wait_for_url("**as_bits=Q4_K_M**")
        page.get_by_text("its weights scaled to 4.85 bits each instead of 8.50").first.wait_for()


@pytest.mark.parametrize(("width", "scheme"), VARIANTS)
def test_the_api_is_described_under_the_content_security_policy(
    browser: "Browser", address: str, width: int, scheme: str
) -> None:
    with tab(browser, address, width, scheme) as opened:
        page = opened.page
        answer = page.goto("/docs")
        assert answer is not None
        assert "style-src 'self'" in answer.headers["content-security-policy"]
        page.get_by_text("/api/v1/compare", exact=True).wait_for()
        assert page.locator(".opblock").count() >= 10
        page.locator(".opblock-summary-control", has_text="/health").click()
        page.get_by_text("Answers as soon as pages are served").wait_for()
        assert opened.overflow() == 0
