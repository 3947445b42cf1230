"""Every page for everybody: no violation that axe knows, and all of it by keyboard, with the focus in sight."""

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.axe import AXE, VENDOR, axe_violations
from tests.browser.chromium import VARIANTS, Tab, tab
from tests.browser.notebook import PATHS, running_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MOST_STEPS = 600


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_notebook(tmp_path_factory.mktemp("accessible") / "data") as paths:
        yield paths


def test_axe_is_the_file_that_was_named() -> None:
    (line,) = (line for line in (VENDOR / "VENDOR.txt").read_text().splitlines() if line.startswith("axe.min.js"))
    assert line.split()[-1] == hashlib.sha256((VENDOR / "axe.min.js").read_bytes()).hexdigest()
    assert "Mozilla Public" in AXE[:600]


def _open(opened: Tab, path: str) -> None:
    """Charts drawn, and everything that can be unfolded open."""
    page = opened.page
    answer = page.goto(path)
    assert answer is not None
    # a page that is not there is a page too, and the browser says so
    opened.complaints[:] = [text for text in opened.complaints if "status of 4" not in text]
    for plot in page.locator("[data-figure]").all():
        plot.locator(".main-svg").first.wait_for()
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")


@pytest.mark.parametrize(("width", "scheme"), VARIANTS)
def test_axe_finds_nothing(browser: "Browser", address: str, width: int, scheme: str) -> None:
    with tab(browser, address, width, scheme) as opened:
        violations = {}
        for path in (*PATHS, "/runs/nonesuch"):
            _open(opened, path)
            if text := axe_violations(opened):
                violations[path] = text
        assert violations == {}


FOCUSABLE = """
() => {
  const wanted = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const inSight = each => each.checkVisibility({visibilityProperty: true}) && !each.disabled && each.tabIndex >= 0;
  // of radio buttons that belong together the keyboard reaches one, and arrows the others
  const reached = each => each.type !== 'radio' || each.checked;
  // from the top, wherever the page has put the focus
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute('tabindex');
  window.wanted = [...document.querySelectorAll(wanted)].filter(each => inSight(each) && reached(each));
  return window.wanted.map(each => each.outerHTML.slice(0, 160));
}
"""
FOCUSED = """
() => {
  const at = document.activeElement;
  if (at === document.body || at === document.documentElement) return null;
  const look = getComputedStyle(at);
  return {
    place: window.wanted.indexOf(at),
    html: at.outerHTML.slice(0, 160),
    seen: look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) >= 1,
  };
}
"""


def _walk(opened: Tab) -> list[dict[str, Any]]:
    """What the Tab key reaches, one after the other, until the page is left."""
    steps: list[dict[str, Any]] = []
    for _ in range(MOST_STEPS):
        opened.page.keyboard.press("Tab")
        at = opened.page.evaluate(FOCUSED)
        if at is None:
            return steps
        if steps and at["place"] == steps[0]["place"]:
            return steps
        steps.append(at)
    raise AssertionError(f"the keyboard does not get out: {steps[-1]['html']}")


def test_the_keyboard_reaches_everything_in_order_and_is_seen(browser: "Browser", address: str) -> None:
    with tab(browser, address) as opened:
        for path in (*PATHS, "/runs/nonesuch"):
            _open(opened, path)
            focusable = opened.page.evaluate(FOCUSABLE)
            steps = _walk(opened)
            # of a field of several parts, such as a date, the browser marks the inner one itself
            seen = {step["html"] for step in steps if step["seen"]}
            unseen = [step["html"] for step in steps if step["html"] not in seen]
            assert unseen == [], path
            places = [step["place"] for step in steps if step["place"] >= 0]
            assert [html for place, html in enumerate(focusable) if place not in places] == [], path
            assert places == sorted(places), path
