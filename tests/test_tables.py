"""CSV: what a spreadsheet would compute is text, and everything comes back as it was."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.csv_export import FORMULA_STARTS, csv_text, escape_formula

CELLS = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1+1", "  =1+1", '=HYPERLINK("x")'])
def test_a_formula_becomes_text(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("cell", ["Q4_K_M", "a=b", "", "1-2", -2.5, 7, None])
def test_what_is_no_formula_stays(cell: str | float | None) -> None:
    assert escape_formula(cell) == cell


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2)))
def test_every_table_comes_back(rows: list[list[str | float | None]]) -> None:
    read_rows = read(csv_text(["one", "two"], rows))
    assert read_rows[0] == ["one", "two"]
    assert read_rows[1:] == [["" if cell is None else str(escape_formula(cell)) for cell in row] for row in rows]
    texts = [
        (cell, back)
        for row, line in zip(rows, read_rows[1:], strict=True)
        for cell, back in zip(row, line, strict=True)
    ]
    assert not any(isinstance(cell, str) and back.lstrip(" ").startswith(FORMULA_STARTS) for cell, back in texts)
