"""Figures of several streams at once, and of sensors."""

import plotly.graph_objects as go
import pytest

from app.charts import Figure, absence, sensors_of, serving_figure
from app.core.samples import Sample
from app.metrics.serving import serving
from app.metrics.throughput import Slo
from tests.metrics.rounds import one_round
from tests.traces import sample

SLO = Slo(1000, 30)


def valid(figure: Figure | None) -> Figure:
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)
    return figure


def test_serving_has_three_panels_and_both_limits() -> None:
    figure = valid(serving_figure(serving([*one_round(1), *one_round(2), *one_round(4, first_ms=1500)], SLO), SLO))
    assert [trace["yaxis"] for trace in figure.data] == ["y", "y2", "y2", "y2", "y3", "y3", "y3"]
    limits = [trace["y"] for trace in figure.data if trace["meta"].get("role") == "roof"]
    assert limits == [[1000, 1000], [30, 30]]
    assert figure.summary.startswith("Up to 2 streams every request kept within the limits")
    assert [row[0] for row in figure.table.rows] == ["1", "2", "4"]
    assert [row[7] for row in figure.table.rows] == ["100 %", "100 %", "0 %"]


def test_when_nothing_keeps_within_the_limits_it_is_said() -> None:
    figure = valid(serving_figure(serving(one_round(2, first_ms=1500), SLO), SLO))
    assert figure.summary.startswith("With 2 streams already, not every request")
    assert serving_figure([], SLO) is None


def with_sensors(**values: list[float | None]) -> Sample:
    named = {name.replace("__", "."): value for name, value in values.items()}
    return sample(sensors={"at_ms": [0, 500, 1000], "values": named, "throttles": ["gpu1: temperature"]})


def test_sensors_have_a_panel_for_what_there_is_and_a_line_for_each_card() -> None:
    figure = valid(
        sensors_of(
            with_sensors(
                gpu0__power_w=[100, 200, None],
                gpu1__power_w=[50, 50, 50],
                cpu_load_percent=[5, 6, 7],
                gpu0__load_percent=[90, 90, 90],
                ram_available_bytes=[8e9, 8e9, 8e9],
                swap_used_bytes=[0, 0, 0],
            )
        )
    )
    assert [key.title for key in figure.legend] == ["GPU 0", "GPU 1", "Processor", "Machine"]
    assert [trace["name"] for trace in figure.data] == [
        "GPU 0: Power W",
        "GPU 1: Power W",
        "Processor: Load %",
        "GPU 0: Load %",
        "Machine: RAM available GB",
    ]
    assert figure.table.rows[0] == ("GPU 0: Power W", "150", "100", "200")
    assert "Throttled: GPU 1: temperature." in figure.summary
    assert "Power W: 50.0 to 200; Load %: 5.00 to 90.0" in figure.summary


@pytest.mark.parametrize(("used", "is_drawn"), [([0, 0], False), ([0, None], False), ([0, 4e9], True)])
def test_swap_is_drawn_where_there_is_some(used: list[float | None], is_drawn: bool) -> None:
    figure = sensors_of(
        sample(sensors={"at_ms": [0, 500], "values": {"ram_available_bytes": [8e9, 8e9], "swap_used_bytes": used}})
    )
    assert figure is not None
    assert ("Machine: Swap used GB" in [trace["name"] for trace in figure.data]) is is_drawn


@pytest.mark.parametrize("key", ["off", "elsewhere", "silent", "short"])
def test_the_absence_of_sensors_has_a_sentence(key: str) -> None:
    assert absence(key).endswith(".")
    assert absence(None) == absence("unheard of") == ""


def test_without_sensors_there_is_no_figure() -> None:
    assert sensors_of(sample()) is None
    assert sensors_of(sample(sensors={"server_was_busy": True})) is None
    assert sensors_of(sample(sensors={"at_ms": [0, 1, 2], "values": {}, "throttles": []})) is None
    assert sensors_of(with_sensors(gpu0__power_w=[None, None, None])) is None
