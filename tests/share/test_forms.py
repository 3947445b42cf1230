"""A snapshot in all of its forms: stored, as CSV, Markdown, a picture, and a file of its own."""

import base64
import csv
import hashlib
import io
import re
import struct
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.charts import LegendEntry, Table
from app.core.errors import BadInput, Conflict
from app.share import CeilingShare, Column, DataTable, Fact, Snapshot, Tile, UserText, links, options
from app.share.card import draw_card
from app.share.figures import public_figure
from app.share.formats import to_csv, to_document, to_markdown
from app.share.page import render_file
from tests.share.snapshots import COMPARED, FIGURE, SNAPSHOT

MADE = datetime(2026, 11, 29, tzinfo=UTC)


def test_what_is_stored_is_read_back_as_it_was() -> None:
    read = Snapshot.from_json(SNAPSHOT.to_json(), 1)
    assert read == SNAPSHOT
    assert [type(cell) for cell in read.figures[0].rows[0]] == [int, float]


def test_another_version_is_one_sentence() -> None:
    with pytest.raises(Conflict, match="version 7, and this version of Roofmark reads version 2"):
        Snapshot.from_json(SNAPSHOT.to_json(), 7)


@pytest.mark.parametrize("damaged", [{}, {"kind": "run"}, SNAPSHOT.to_json() | {"tiles": [{"title": 1}]}])
def test_a_damaged_share_is_one_sentence(damaged: dict[str, object]) -> None:
    with pytest.raises(Conflict, match="is damaged"):
        Snapshot.from_json(damaged, 1)


def test_a_digest_is_of_everything_but_the_title() -> None:
    assert replace(SNAPSHOT, title="Other").digest == SNAPSHOT.digest
    assert replace(SNAPSHOT, prose=()).digest != SNAPSHOT.digest


@pytest.mark.parametrize(
    ("typed", "title"), [("", SNAPSHOT.title), (" My\n rig ", "My rig"), ("My\0 rig\u202e", "My rig")]
)
def test_a_title_of_ones_own(typed: str, title: str) -> None:
    assert links.with_title(SNAPSHOT, typed).title == title


def test_too_long_a_title_is_refused() -> None:
    with pytest.raises(BadInput, match="200 characters"):
        links.with_title(SNAPSHOT, "x" * 201)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(BadInput, match="'everything' is not one of them"):
        options.parse_options(["note", "everything"])


def test_the_document_names_its_schema() -> None:
    made = to_document(SNAPSHOT, MADE)
    assert made["schema"] == "roofmark.share/1"
    assert made["created_at"] == "2026-11-29T00:00:00+00:00"
    assert made["tiles"][2]["value"] == 71.23


# --- comparisons -----------------------------------------------------------------------------------------------------


def test_every_form_of_a_comparison_says_the_same() -> None:
    assert Snapshot.from_json(COMPARED.to_json(), 2) == COMPARED
    markdown, file, table = to_markdown(COMPARED), unescape(render_file(COMPARED, MADE)), to_csv(COMPARED)
    assert "- ▼ Q8_0 against Q4_K_M: decode 51 % slower\n" in markdown
    assert "| Q8_0 | 34.9, ▼ 51 % slower | 34.9, ▼ 51 % slower | 34.9, ▼ 51 % slower |" in markdown
    assert "| Q4_K_M | 71.2, best |" in markdown
    assert "Q8_0 against Q4_K_M,worse,decode 51 % slower" in table
    for text in (markdown, file, table):
        assert "this machine was busy before the run (53 %)" in text
    assert file.count('class="value-bar series-') == 6
    assert to_document(COMPARED)["metric_bars"][2]["bars"][1]["change"] == "51 % slower"


@pytest.mark.parametrize("results", [2, 3, 4, 8])
def test_the_picture_has_room_for_every_result(results: int) -> None:
    bars = tuple(replace(COMPARED.metric_bars[0].bars[1], name=f"Q8_0 and more {n}" * 3) for n in range(results))
    many = replace(COMPARED, metric_bars=tuple(replace(metric, bars=bars) for metric in COMPARED.metric_bars))
    picture = draw_card(many)
    assert struct.unpack(">II", picture[16:24]) == (1200, 630)
    assert picture != draw_card(COMPARED)


# --- figures ---------------------------------------------------------------------------------------------------------


def test_a_figure_keeps_its_numbers_and_loses_links_and_hidden_words() -> None:
    trace = {**FIGURE.data[0], "customdata": ["/runs/abc"], "hovertext": ["on Ann's box"], "ids": ["x"]}
    layout = {**FIGURE.layout, "annotations": [{"x": 1, "text": "1", "hovertext": "words"}], "meta": {"a": "x"}}
    private = replace(
        FIGURE,
        data=[trace],
        layout=layout,
        table=Table(("Run",), (("1",),), links=("/runs/abc",)),
        legend=(LegendEntry(0, "One", link="/history?config=abc"),),
    )
    made = public_figure(private)
    assert made.data == FIGURE.data
    assert made.layout["annotations"] == [{"x": 1, "text": "1"}]
    assert "meta" not in made.layout
    assert made.table.links == ()
    assert made.legend == (LegendEntry(0, "One"),)


def test_hover_texts_that_are_numbers_stay() -> None:
    made = public_figure(replace(FIGURE, data=[{**FIGURE.data[0], "hovertext": ["1,024", "53.9"]}]))
    assert made.data[0]["hovertext"] == ["1,024", "53.9"]


# --- CSV -------------------------------------------------------------------------------------------------------------


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_a_spreadsheet_has_the_numbers_as_they_were_measured() -> None:
    read = rows(to_csv(SNAPSHOT))
    assert ["Decode", "71.23", "tok/s", "1.9", "70", "73", "5", "Timed by Roofmark"] in read
    assert ["Prefill", "", "tok/s", "", "", "", "", "No sample gave it."] in read
    assert ["8192", ""] in read


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "＝", "＠"])
def test_no_cell_of_a_spreadsheet_is_a_formula(start: str) -> None:
    dangerous = f"{start}HYPERLINK(1)"
    made = replace(SNAPSHOT, title=dangerous, facts=(Fact(dangerous, dangerous),), prose=(UserText("Note", dangerous),))
    cells = [cell for row in rows(to_csv(made)) for cell in row if "HYPERLINK" in cell]
    assert len(cells) == 4
    assert all(cell.startswith("'") for cell in cells)


@given(st.text(), st.sampled_from(["", *"=+-@\t\r＝"]))
def test_whatever_a_cell_holds_it_begins_no_formula(text: str, start: str) -> None:
    (*_, (cell, *_)) = rows(to_csv(Snapshot("run", "", "", facts=(Fact(start + text, "last"),))))
    assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "＝"))


def test_numbers_below_zero_stay_numbers() -> None:
    table = DataTable("Losses", (Column("Loss"), Column("Typed", is_text=True)), ((-3.5, "-4.5 or so"),))
    assert ["-3.5", "'-4.5 or so"] in rows(to_csv(replace(SNAPSHOT, figures=(table,))))


# --- Markdown --------------------------------------------------------------------------------------------------------


def test_a_post_has_the_triple_the_ceiling_and_the_link() -> None:
    post = to_markdown(SNAPSHOT, "https://box.example/s/1")
    assert "| TTFT | 520 ± 9 | ms |" in post
    assert "| Prefill | – | tok/s |" in post
    assert "Decode ceiling: **62.0 %** reached of 115 tok/s = 936 GB/s / 8.16 GB" in post
    assert "| 8,192 | – |" in post
    assert post.endswith("[Charts and all numbers](https://box.example/s/1)\n")


def test_words_of_a_person_are_no_markup() -> None:
    post = to_markdown(replace(SNAPSHOT, title="a|b\n# <img src=x> [x](y) *z* `c` _d_ snake_case"))
    assert r"a\|b \# \<img src=x\> \[x\](y) \*z\* \`c\` \_d\_ snake_case" in post


# --- the picture -----------------------------------------------------------------------------------------------------


def chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    names, at = [], 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        names.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + length]))
        at += 12 + length
    return names


def test_the_picture_has_the_usual_size_and_no_metadata() -> None:
    names = chunks(draw_card(SNAPSHOT))
    assert {name for name, _ in names} == {b"IHDR", b"IDAT", b"IEND"}
    assert struct.unpack_from(">II", names[0][1]) == (1200, 630)


@pytest.mark.parametrize(
    "changed",
    [
        {"title": "伺服器"},
        {"title": "Łódź, ő and a title that is much too long for two lines " * 3},
        {"title": "x" * 200},
        {"title": "\u0007"},
        {"title": ""},
        {"tiles": (), "bars": ()},
        {"bars": (CeilingShare("Decode ceiling", 1.4, 100, "tok/s", ""),)},
        {"tiles": (Tile("TTFT", 123456789.0, "ms"),) * 3},
    ],
)
def test_a_picture_is_drawn_of_anything(changed: dict[str, object]) -> None:
    assert len(draw_card(replace(SNAPSHOT, **changed))) > 5000  # type: ignore[arg-type]  # of the fields' types


@pytest.mark.parametrize("before", ["", "short "])
def test_a_word_without_end_goes_on_in_the_second_line_of_the_picture(before: str) -> None:
    """A first line has room for 40 of these letters at most."""
    first, second = (draw_card(replace(SNAPSHOT, title=f"{before}{'m' * 36}{end}")) for end in "vw")
    assert first != second


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_file_asks_for_nothing_and_allows_only_its_own_code() -> None:
    html = render_file(SNAPSHOT, MADE)
    assert not re.search(r'(src|href|action)="(?!#|data:)', html.split("<script>")[0])
    (policy,) = map(unescape, re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html))
    assert "default-src 'none'" in policy
    allowed = set(re.findall(r"sha256-([\w+/=]+)", policy))
    parts = re.findall(
        r"<(?:script|style)(?: id=\"plotly.js-style-global\"[^>]*| media=\"print\")?>(.*?)</(?:script|style)>",
        html,
        re.DOTALL,
    )
    assert {base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts} == allowed
    assert len(parts) == 17


def test_a_file_without_charts_carries_no_drawing_library() -> None:
    assert len(render_file(replace(SNAPSHOT, charts=()), MADE)) < 200_000


def test_words_of_a_person_are_text_in_the_page() -> None:
    html = render_file(replace(SNAPSHOT, title="</title><script>alert(1)</script>"), MADE)
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
