"""Seven questions of somebody with a year of runs: each is answered in words, first, a few clicks from the overview."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from app.core import files
from app.db.database import Database
from app.db.migrate import migrate
from tests.browser.axe import axe_violations
from tests.browser.chromium import Tab, tab
from tests.browser.dashboard import running_dashboard
from tests.year import BOXES, BUILDS, UPDATE, WRONG, seed_year

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

MOST_CLICKS = 3
WIDTHS = (1280, 390)
OLD, NEW = BUILDS[UPDATE - 1 : UPDATE + 1]
NEWEST = BUILDS[-1]

pytestmark = pytest.mark.parametrize("width", WIDTHS)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data_dir = tmp_path_factory.mktemp("year") / "data"
    database = Database(f"sqlite:///{data_dir / 'roofmark.db'}")
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        seed_year(session, detailed=1)
    database.dispose()
    with running_dashboard(data_dir) as url:
        yield url


IN_SIGHT = """
answer => {
  const box = answer.getBoundingClientRect();
  return window.scrollY === 0 && box.top >= 0 && box.bottom <= innerHeight && box.width > 0;
}
"""
BEFORE_ALL_FIGURES = """
answer => [...document.querySelectorAll('main table, main [data-figure], main .chart')]
  .every(figure => answer.compareDocumentPosition(figure) & Node.DOCUMENT_POSITION_FOLLOWING)
"""


class Visit:
    """Somebody who begins at the overview and looks for one answer; every click counts, that on a menu, too."""

    def __init__(self, opened: Tab) -> None:
        self.opened, self.page, self.clicks = opened, opened.page, 0
        self.page.goto("/")

    def click(self, target: "Locator") -> None:
        target.click()
        self.clicks += 1

    def ask(self, question: str) -> None:
        """Follows a question of the overview."""
        self.click(self.page.get_by_role("navigation", name="Answers").get_by_role("link", name=question))
        self.page.get_by_role("navigation", name="Answers").wait_for(state="detached")
        self.page.wait_for_load_state()  # only then scripts hear of another choice

    def verdict(self, selector: str = ".answer") -> str:
        """Returns the words that the page begins with: in sight without scrolling, before every table and picture."""
        assert self.clicks <= MOST_CLICKS
        words = self.page.locator(selector).first
        words.wait_for()
        assert words.evaluate(IN_SIGHT), self.page.url
        assert words.evaluate(BEFORE_ALL_FIGURES), self.page.url
        return _plain(words.inner_text())

    def text(self, selector: str) -> str:
        """Returns what a part of the page says below its verdict."""
        return _plain(self.page.locator(selector).first.inner_text())

    def texts(self, selector: str) -> list[str]:
        return [_plain(text) for text in self.page.locator(selector).all_inner_texts()]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


@contextmanager
def visit(browser: "Browser", address: str, width: int) -> Iterator[Visit]:
    """The page of the answer fits its window, is for everybody in both colour schemes, and complains about nothing."""
    with tab(browser, address, width) as opened:
        visitor = Visit(opened)
        yield visitor
        page = opened.page
        for plot in page.locator("[data-figure]").all():
            plot.locator(".main-svg").first.wait_for()
        assert opened.overflow() == 0, page.url
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.reload()
            for plot in page.locator("[data-figure]").all():
                plot.locator(".main-svg").first.wait_for()
            assert axe_violations(opened) == [], (page.url, scheme)


def test_which_quantization_is_fastest_and_what_it_costs(browser: "Browser", address: str, width: int) -> None:
    with visit(browser, address, width) as visitor:
        visitor.ask("Which quantization is fastest?")
        assert visitor.verdict().startswith("Q3_K_M (")
        assert re.search(
            r"Q3_K_M is the fastest on strix-halo: decode \d+ % faster than Q8_0, with [\d.]+ GB less memory",
            visitor.verdict(),
        )
        for machine in ("mac-studio", "strix-halo"):
            table = visitor.page.locator(".machine-speeds").filter(has_text=machine).first.inner_text()
            assert re.search("Q3_K_M.*Q4_K_M.*Q6_K.*Q8_0", table, re.DOTALL), "the fastest first"
        figures = visitor.text("table.quantizations")
        assert re.search(
            r"Q3_K_M llama\.cpp b\d+ 302 4,7\d\d 1\d\d 18\.\d GB of 192 GB, computed "
            r"[\d.]+ GB weights \+ [\d.]+ GB KV cache",
            figures,
        ), "decode, prefill, TTFT and memory"
        visitor.click(visitor.page.get_by_role("link", name="All models").first)
        visitor.click(visitor.page.get_by_role("link", name="Llama-3.1-8B", exact=True).first)
        visitor.page.get_by_role("heading", name="Llama-3.1-8B", exact=True).wait_for()
        assert re.search(r"Q3_K_M \([\d.]+ tok/s\)|Q3_K_M is the fastest", visitor.verdict())


def test_the_best_ever_of_each_model(browser: "Browser", address: str, width: int) -> None:
    with visit(browser, address, width) as visitor:
        visitor.ask("What is the best per model?")
        assert "Fastest here" in visitor.verdict()
        assert "Qwen3-30B-A3B Q3_K_M on mac-studio" in visitor.verdict()
        rows = visitor.texts(".leaderboard tbody tr")
        assert len(rows) == sum(map(len, (names for box in BOXES for names in box.models.values())))
        speeds = [float(text) for text in visitor.texts(".leaderboard tbody tr td.num b")]
        assert speeds == sorted(speeds, reverse=True)
        assert visitor.page.locator(".leaderboard tbody tr svg.sparkline").count() == len(rows)
        (favourite,) = (row for row in rows if re.match(r"Gemma-3-27B ?Q4_K_M", row))
        assert re.search(r"[6-9]\.\d % slower", favourite), "its latest against its best, since the update"


def test_an_update_that_slowed_decode_down(browser: "Browser", address: str, width: int) -> None:
    with visit(browser, address, width) as visitor:
        lately = visitor.text("section:has(> #changes-title)")
        assert re.search(rf"llama\.cpp {OLD} → {NEW}: decode 7\.\d % slower on 3 models strix-halo", lately)
        visitor.ask("Did an update slow me down?")
        assert re.match(
            rf"llama\.cpp {OLD} → {NEW} on strix-halo, \d+ June 2026: decode 7\.\d % slower on 3 models\. "
            r"\d+ other engine updates changed nothing for certain\.$",
            visitor.verdict(),
        )
        (event,) = visitor.page.locator(".event-update:not(details .event-update)").all()
        assert NEW in event.inner_text()
        visitor.click(event.get_by_role("link", name="Compare"))
        visitor.page.wait_for_url("**/compare?run=*")
        assert "worse" in visitor.verdict(".verdicts .verdict-line")
        assert re.match(r"Decode \d+(\.\d)? % slower", visitor.verdict(".verdicts .verdict-words"))
        assert re.search(rf"{OLD}.*{NEW}", visitor.text("section:has(> #differs-title)"))


def test_what_my_last_change_did(browser: "Browser", address: str, width: int) -> None:
    """The newest run is of Qwen3 with the newest build and a quantized cache; the nearest configuration before has
    neither. Runs of other quantizations lie between them."""
    with visit(browser, address, width) as visitor:
        visitor.ask("What did my last change do?")
        assert re.match(r"Decode \d+(\.\d)? % slower", visitor.verdict(".verdicts .verdict-words"))
        assert "KV cache type K f16 → q8_0" in visitor.verdict(".verdicts .card")
        assert f"{BUILDS[-2]} → {NEWEST}" in visitor.verdict(".verdicts .card")
        visitor.page.go_back()
        visitor.click(visitor.page.locator("section:has(> #latest-title)").get_by_role("link").first)
        changed = visitor.text("section:has(> #changed-title)")
        assert re.match(r"What changed: (worse )?decode \d+(\.\d)? % slower", changed)
        assert "KV cache type K f16 → q8_0" in changed
        assert "Q4_K_M →" not in changed


def test_how_decode_falls_with_context(browser: "Browser", address: str, width: int) -> None:
    with visit(browser, address, width) as visitor:
        visitor.ask("How does decode fall with context?")
        verdict = visitor.verdict(".explore-verdict")
        assert re.match(r"With a long context decode falls by [\d.]+ to 4\d % in \d+ configurations", verdict)
        assert "most with Qwen3-30B-A3B Q4_K_M · strix-halo" in verdict
        _curves_are_apart(visitor)
        titles = visitor.texts(".context-table tbody td:first-child")
        assert len(titles) == len(set(titles)) >= 6
        named = verdict.partition("most with ")[2].partition(": ")[0]
        assert named in visitor.texts(".legend li")


def _curves_are_apart(visitor: Visit) -> None:
    """Each drawn curve is of one run, so of one machine and one build, and lies under a ceiling of its own."""
    traces = visitor.page.evaluate(
        "JSON.parse(document.querySelector('main script[type=\"application/json\"]').text).data"
    )
    roofs = {trace["meta"]["series"]: trace for trace in traces if trace["meta"].get("role") == "roof"}
    measured = [trace for trace in traces if trace["meta"].get("role") != "roof"]
    assert len(measured) == len(roofs) >= 6
    for trace in measured:
        assert len(set(trace["customdata"])) == 1
        assert trace["x"] == sorted(set(trace["x"]))
        assert max(trace["y"]) < max(roofs[trace["meta"]["series"]]["y"])
        assert trace["y"] == sorted(trace["y"], reverse=True)


def test_a_run_that_is_wrong(browser: "Browser", address: str, width: int) -> None:
    with visit(browser, address, width) as visitor:
        assert "One run looks wrong." in visitor.text(".page-head")
        visitor.ask("Is a run wrong?")
        visitor.page.wait_for_url(f"**/runs/{WRONG}")
        verdict = visitor.verdict(".wrong-run")
        assert verdict.startswith("Decode 45 % below the other runs of this configuration.")
        assert re.search(r"9\d(\.\d)? tok/s, where the median of \d others is 16\d", verdict)
        beside = visitor.page.locator(".wrong-run")
        for name in ("Hide", "Run again"):
            assert beside.get_by_role("button", name=name, exact=True).is_visible()
        page = visitor.page.locator("main").inner_text()
        assert "What would it take" not in page, "what disturbed the run explains and predicts nothing"
        assert "Remaining loss" in page
        assert "Layers, fixed cost" not in page


def test_whether_it_fits_and_what_is_left(browser: "Browser", address: str, width: int) -> None:
    with visit(browser, address, width) as visitor:
        visitor.ask("Does it fit into memory?")
        assert re.match(
            r"It fits: weights 18\.5 GB and KV cache [\d.]+ [GM]B at [\d,]+ tokens "
            r"leave 7\d\.\d GB of 96\.0 GB on Radeon 8060S",
            visitor.verdict(),
        )
        assert "more tokens of context have room" in visitor.verdict()
        assert "18.5 GB" in visitor.text(".memory-use")
        assert visitor.page.locator(".memory-bar").first.is_visible()
        visitor.page.get_by_label("Model", exact=True).select_option(label="Llama-3.3-70B Q8_0")
        visitor.page.locator(".answer", has_text="weights 7").wait_for()
