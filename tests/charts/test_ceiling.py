"""Figures of ceilings: what is drawn and what is said."""

import plotly.graph_objects as go
import pytest

from app.ceiling.decode import CurvePoint, Device
from app.charts import MeasuredSpeed, PhaseWork, against_context, roofline, without_ceiling

CURVE = [CurvePoint(0, 100.0, 60.0, 85.0, 0.0), CurvePoint(8192, 50.0, 30.0, 42.5, 0.5)]
DEVICE = Device.of("card", 1000, 100)


def test_decode_against_context_has_a_ceiling_a_band_and_the_runs_own_points() -> None:
    figure = against_context(CURVE, [MeasuredSpeed(600, 70.0), MeasuredSpeed(100, 75.0)])
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)
    assert [trace["meta"].get("role") for trace in figure.data] == ["edge", "band", "roof", None]
    assert figure.data[-1]["x"] == [100, 600]
    assert "100 tok/s with an empty cache and 50.0 with 8,192 tokens, where the KV cache is 50.0 %" in figure.summary
    assert figure.table.rows[1] == ("8,192", "50.0", "30.0", "42.5", "50.0")


def test_without_a_curve_there_is_no_figure() -> None:
    assert against_context([]) is None


def test_decode_against_context_is_drawn_without_a_ceiling_too() -> None:
    figure = without_ceiling([MeasuredSpeed(8_000, 40.0), MeasuredSpeed(128, 50.0), MeasuredSpeed(2_000, 48.0)])
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)
    assert figure.data[0]["x"] == [128, 2_000, 8_000]
    assert figure.summary == "50.0 tok/s with 128 tokens in the cache on average, 40.0 with 8,000: −20 %."
    assert figure.table.rows[-1] == ("8,000", "40.0")
    assert without_ceiling([]) is None
    assert without_ceiling([MeasuredSpeed(128, 50.0), MeasuredSpeed(128, 48.0)]) is None


def test_the_roofline_bends_where_computing_takes_over() -> None:
    figure = roofline(DEVICE, [PhaseWork("Decode", 0.5, 3e11), PhaseWork("Prefill", 400.0, 4e13)])
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)
    assert figure.data[0]["x"][1] == pytest.approx(100)
    assert figure.data[0]["y"][1:] == [100, 100]
    assert "Below 100 FLOP per byte memory bandwidth is the limit" in figure.summary
    assert figure.table.rows == (("Decode", "0.500", "0.300", "0.500"), ("Prefill", "400", "40.0", "100"))


def test_without_a_peak_there_is_no_roofline() -> None:
    assert roofline(Device.of("card", 1000), [PhaseWork("Decode", 0.5, 3e11)]) is None
    assert roofline(DEVICE, []) is None
