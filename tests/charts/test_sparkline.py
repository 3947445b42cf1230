from xml.etree import ElementTree

from app.charts import sparkline, year_sparkline
from app.charts.sparkline import HEIGHT, MAX_VALUES, WIDTH


def points(svg: str) -> list[tuple[float, float]]:
    line = ElementTree.fromstring(svg).find("polyline")
    assert line is not None
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_it_rises_with_its_values_and_stays_inside() -> None:
    drawn = points(sparkline([1, None, 2, 4]))
    assert len(drawn) == 3
    assert drawn[0][1] > drawn[1][1] > drawn[2][1]
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in drawn)


def test_fewer_than_two_values_make_no_trend() -> None:
    assert sparkline([]) == sparkline([5]) == sparkline([None, 5]) == ""


def test_equal_values_lie_in_the_middle() -> None:
    assert {y for _, y in points(sparkline([3, 3, 3]))} == {HEIGHT / 2}


def test_only_the_newest_are_drawn_and_nothing_is_styled_in_place() -> None:
    svg = sparkline(list(range(500)), 'of <"x">')
    assert len(points(svg)) == MAX_VALUES
    assert "style" not in svg
    assert ElementTree.fromstring(svg).attrib["aria-label"] == 'of <"x">'


def test_a_year_begins_at_zero_and_has_the_same_months_for_everything() -> None:
    full, late = year_sparkline([(0.0, 50.0), (1.0, 100.0)], "A"), year_sparkline([(0.5, 100.0)], "B")
    assert 'points="3.0,16.0 93.0,3.0"' in full
    assert 'cx="48.0" cy="3.0"' in late
    assert year_sparkline([], "C") == year_sparkline([(0.5, 0.0)], "C") == ""
    assert "<b>" not in year_sparkline([(0.5, 1.0)], "<b>")
