"""The history figure: what is drawn, what is said, and how much of it."""

from datetime import UTC, datetime, timedelta
from math import log
from typing import Any

import plotly.graph_objects as go
import pytest

from app.charts import MAX_SERIES, Figure, history
from app.charts.base import MAX_POINTS, downsample_minmax
from app.charts.history import HistoryLook
from app.charts.history.lines import MAX_LINES, SERIES, LineEntry
from app.charts.history.marks import Event
from app.core.configuration import Snapshot
from app.db.configs import ConfigDescription
from app.metrics import HEADLINE_METRICS, metrics
from app.results.hardware import HardwareChange
from app.results.history.changepoint import ChangePoint, Drift
from app.results.history.level_shifts import MetricDrift, MetricShift, SeriesDrift, Shift
from app.results.history.table import HistoryPoint, HistoryTable
from app.results.series import SeriesIndex

START = datetime(2026, 9, 1, 12, tzinfo=UTC)
SNAPSHOT = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q4_K_M", {"context": 4096})


METRICS = [metrics()[key] for key in HEADLINE_METRICS]


def point(
    hours: float,
    config_id: int = 1,
    server_id: int = 1,
    prompt: str = "p",
    labels: str = "[]",
    spread: float | None = None,
    **values: float | None,
) -> HistoryPoint:
    numbers = {"ttft_ms": 500.0, "prefill_tokens_per_s": 1000.0, "decode_tokens_per_s": 60.0, **values}
    readings = tuple(part for value in numbers.values() for part in (value, spread, 5))
    started = START + timedelta(hours=hours)
    return HistoryPoint(f"run{hours:g}", started, config_id, server_id, prompt, labels, readings)


def described(**changed: object) -> ConfigDescription:
    fields = {**vars(SNAPSHOT), **changed}
    return ConfigDescription("box", Snapshot(**fields))


def drawn(points: list[HistoryPoint], configs: dict[int, ConfigDescription] | None = None, **more: Any) -> Figure:
    look = HistoryLook(**{name: more.pop(name) for name in ("by", "has_roofs", "is_from_zero") if name in more})
    configs = configs or {1: described()}
    if look.by == SERIES:
        more["index"] = SeriesIndex(configs)
    figure = history(
        HistoryTable.of(points), configs, METRICS, lambda public_id: f"/runs/{public_id}", look=look, **more
    )
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)  # plotly raises for anything it does not know
    return figure


def entries(figure: Figure) -> list[LineEntry]:
    return [entry for entry in figure.legend if isinstance(entry, LineEntry)]


def test_nothing_to_draw() -> None:
    assert history(HistoryTable.of([]), {}, METRICS, str) is None
    assert (
        history(
            HistoryTable.of([point(0, ttft_ms=None, prefill_tokens_per_s=None, decode_tokens_per_s=None)]),
            {1: described()},
            METRICS,
            str,
        )
        is None
    )


def test_three_panels_share_one_time_axis_and_start_at_zero() -> None:
    figure = drawn([point(0), point(1)])
    axes = [figure.layout[name] for name in ("yaxis", "yaxis2", "yaxis3")]
    assert [axis["title"]["text"] for axis in axes] == ["TTFT ms", "Prefill tok/s", "Decode tok/s"]
    assert {axis["rangemode"] for axis in axes} == {"tozero"}
    assert [trace["yaxis"] for trace in figure.data] == ["y", "y2", "y3"]
    assert not any("xaxis" in trace for trace in figure.data)
    bottoms = [axis["domain"][0] for axis in axes]
    tops = [axis["domain"][1] for axis in axes]
    assert all(bottom > top for bottom, top in zip(bottoms, tops[1:], strict=False))


def test_a_figure_knows_no_colours_fonts_or_styled_text() -> None:
    text = drawn([point(0), point(1)]).json
    assert not any(word in text for word in ("color", "font", "dash", "symbol", "<b>", "<i>", "<span"))


def test_each_point_leads_to_its_run() -> None:
    figure = drawn([point(0), point(1)])
    assert figure.data[0]["customdata"] == ["/runs/run0", "/runs/run1"]
    assert figure.table.links == ("/runs/run1", "/runs/run0")


def test_unknown_values_are_left_out_of_their_panel_only() -> None:
    figure = drawn([point(0, prefill_tokens_per_s=None), point(1)])
    assert [trace["y"] for trace in figure.data] == [[500, 500], [1000], [60, 60]]
    assert figure.table.rows[1][3] == "–"


def test_the_newest_configurations_are_distinct_and_the_others_stay_behind() -> None:
    count = MAX_LINES + 3
    configs = {i: described(engine_version=f"b{i}") for i in range(count)}
    figure = drawn([point(i, config_id=i) for i in range(count)], configs)
    assert len({(key.series, key.shape) for key in entries(figure)}) == MAX_LINES + 1
    assert figure.legend[0].title == f"Qwen3-8B Q4_K_M · llama.cpp b{count - 1}"
    assert figure.legend[-1].title == "3 older configurations"
    assert figure.data[-1]["meta"] == {"series": None, "key": "others"}
    assert figure.data[-1]["mode"] == "markers"


def test_a_configuration_keeps_its_look_when_others_come() -> None:
    configs = {i: described(engine_version=f"b{i}") for i in range(5)}

    def looks(count: int) -> dict[str, int | None]:
        figure = drawn([point(i, config_id=i) for i in range(count)], configs)
        return {key.title: key.series for key in figure.legend}

    few, more = looks(3), looks(5)
    assert few == {title: more[title] for title in few}
    assert len(set(more.values())) == 5


def test_the_spread_of_samples_is_a_band_below_the_line_and_stands_beside_the_value() -> None:
    figure = drawn([point(0, spread=1.5), point(1, spread=2.5)])
    bands, lines = figure.data[:3], figure.data[3:]
    assert [trace["meta"].get("role") for trace in bands] == ["band"] * 3
    assert bands[2]["y"] == [58.5, 57.5, 62.5, 61.5]
    assert lines[2]["text"] == ["60.0 ± 1.5 tok/s", "60.0 ± 2.5 tok/s"]
    assert not [trace for trace in drawn([point(0, spread=1.5), point(1)]).data if trace["meta"].get("role")]


def test_a_band_of_very_many_runs_holds_all_of_them() -> None:
    points = [point(i, decode_tokens_per_s=60 + i % 9, spread=1.0) for i in range(3000)]
    band = drawn(points).data[2]
    assert len(band["y"]) < 300
    assert (min(band["y"]), max(band["y"])) == (59, 69)


def test_other_hardware_and_another_prompt_break_the_line() -> None:
    change = HardwareChange(START + timedelta(hours=2), "RTX 3090 → 2 × RTX 3090")
    figure = drawn([point(0), point(1), point(2), point(3, prompt="q")], hardware={1: [change]})
    assert figure.data[2]["y"] == [60, 60, None, 60, None, 60]
    assert figure.data[2]["customdata"] == [f"/runs/run{i}" for i in (0, 1, 2, 2, 3, 3)]


def test_the_ceiling_is_that_of_today() -> None:
    configs = {1: described(), 2: described(quantization="Q8_0")}
    hardware = {
        1: [HardwareChange(START + timedelta(hours=1), "RAM"), HardwareChange(START + timedelta(hours=3), "GPU")]
    }
    points = [point(0), point(1, 2), point(2, 2), point(3, 2), point(4, 2)]
    figure = drawn(points, configs, hardware=hardware, roofs={2: 84.2}, has_roofs=True)
    (roof,) = [trace for trace in figure.data if trace["meta"].get("role") == "roof"]
    assert "2026-09-01 14:00:00" < roof["x"][0] < "2026-09-01 15:00:00"


def test_series_by_a_field_of_the_configuration_have_a_line_for_each_configuration() -> None:
    configs = {
        1: described(),
        2: described(settings={"context": 4096, "batch": 512}),
        3: described(quantization="Q8_0", settings={"context": 8192}),
    }
    points = [point(0, 1), point(1, 2), point(2, 1), point(3, 3)]
    by_quantization = drawn(points, configs, by="quantization", line_link=lambda value: f"/history?only={value}")
    assert [(key.title, key.link) for key in by_quantization.legend] == [
        ("Q8_0", "/history?only=Q8_0"),
        ("Q4_K_M", "/history?only=Q4_K_M"),
    ]
    q4 = next(trace for trace in by_quantization.data if trace["name"] == "Q4_K_M")
    assert q4["y"] == [500, 500, None, 500]
    assert q4["hovertext"][1] != q4["hovertext"][-1]
    by_context = drawn(points, configs, by="context")
    assert [key.title for key in by_context.legend] == ["Context 8,192", "Context 4,096"]


def test_series_by_labels_take_those_of_the_run_and_of_its_configuration() -> None:
    configs = {1: described(), 2: described(labels=["tuned"])}
    points = [point(0), point(1, labels='["night"]'), point(2, 2, labels='["night"]')]
    assert [key.title for key in drawn(points, configs, by="label").legend] == ["night, tuned", "night", "no label"]


def test_of_many_values_of_a_field_the_rest_is_said() -> None:
    count = MAX_LINES + 3
    configs = {i: described(engine_version=f"b{i}") for i in range(count)}
    figure = drawn([point(i, i) for i in range(count)], configs, by="engine_version")
    assert [key.title for key in figure.legend][-2:] == ["llama.cpp b3", "3 others"]
    assert sum(len(trace["x"]) for trace in figure.data) == 3 * count


def test_one_metric_alone_fills_the_chart() -> None:
    tpot = [metrics()["tpot_ms"]]
    readings = HistoryPoint("run0", START, 1, 1, "p", "[]", (16.5, None, 5))
    figure = history(HistoryTable.of([readings]), {1: described()}, tpot, str, roofs={1: 84.2})
    assert figure is not None
    assert [key for key in figure.layout if key.startswith("yaxis")] == ["yaxis"]
    assert figure.layout["yaxis"]["domain"] == [0, 1]
    assert figure.table.columns[2:] == ("TPOT ms",)
    assert "ceiling" not in figure.summary  # that of decode
    assert len(figure.data) == 1


def shift(hours: int, *ratios: tuple[int, float]) -> Shift:
    moved = tuple(MetricShift(place, ChangePoint(1, ratio, ratio, ratio, 0.001)) for place, ratio in ratios)
    return Shift(1, START + timedelta(hours=hours), f"run{hours - 1}", f"run{hours}", moved, True)


def test_a_shift_is_marked_in_its_own_panels_and_said_with_links() -> None:
    figure = drawn([point(i) for i in range(6)], shifts=[shift(3, (0, 1.05), (2, 0.89))])
    shapes, notes = figure.layout["shapes"], figure.layout["annotations"]
    assert [(shape["yref"], shape["name"]) for shape in shapes] == [("y domain", "worse"), ("y3 domain", "worse")]
    texts = [(note["text"], note["hovertext"]) for note in notes]
    assert texts == [("A", "TTFT 5.0 % longer"), ("A", "decode 11 % slower")]
    (listed,) = figure.marks
    (mark,) = listed.marks
    assert mark.text == (
        "TTFT 5.0 % longer, decode 11 % slower since 1 September 2026, no known change of configuration "
        "(Qwen3-8B Q4_K_M)"
    )
    assert mark.links == (("last run before", "/runs/run2"), ("first run after", "/runs/run3"))
    assert "1 level shift within a configuration" in figure.summary


def test_a_drift_is_a_sloping_line_in_its_own_panel_and_said_with_links() -> None:
    falling = MetricDrift(2, Drift(0.9, 0.88, 0.92, log(60)), timedelta(hours=5))
    series = SeriesDrift(1, START, START + timedelta(hours=5), "run0", "run5", (falling,))
    figure = drawn([point(i) for i in range(6)], drifts=[series])
    (line,), (note,) = figure.layout["shapes"], figure.layout["annotations"]
    assert (line["yref"], line["y0"], line["y1"], line["name"]) == ("y3", 60, 54, "worse")
    assert (line["x0"], line["x1"]) == ("2026-09-01 12:00:00", "2026-09-01 17:00:00")
    assert (note["text"], note["hovertext"]) == ("a", "−2.1 % an hour")
    (listed,) = figure.marks
    assert listed.title.startswith("Slow drifts within one configuration")
    (mark,) = listed.marks
    assert mark.text == (
        "decode has been drifting by −2.1 % an hour since 1 September 2026, no known change of configuration "
        "(Qwen3-8B Q4_K_M)"
    )
    assert mark.links == (("first run", "/runs/run0"), ("newest run", "/runs/run5"))
    assert "; 1 slow drift within a configuration" in figure.summary


def test_shifts_and_drifts_are_counted_apart() -> None:
    rising = MetricDrift(2, Drift(1.1, 1.05, 1.15, log(60)), timedelta(hours=5))
    series = SeriesDrift(1, START, START + timedelta(hours=5), "run0", "run5", (rising,))
    figure = drawn([point(i) for i in range(6)], drifts=[series, series], shifts=[shift(3, (2, 0.9))])
    assert "; 1 level shift and 2 slow drifts within a configuration" in figure.summary
    assert [shape["name"] for shape in figure.layout["shapes"]] == ["worse", "better", "better"]


def test_more_decode_is_better_and_more_ttft_is_not() -> None:
    figure = drawn([point(i) for i in range(6)], shifts=[shift(3, (2, 1.2)), shift(4, (0, 0.9)), shift(5, (0, 1.1))])
    assert [shape["name"] for shape in figure.layout["shapes"]] == ["better", "better", "worse"]
    assert [note["text"] for note in figure.layout["annotations"]] == ["A", "B", "C"]


def test_older_marks_are_counted_where_there_are_too_many() -> None:
    figure = drawn([point(i) for i in range(30)], shifts=[shift(i, (2, 0.9)) for i in range(1, 20)])
    (shifts,) = figure.marks
    assert shifts.title.endswith("the newest 12 of 19")
    assert len(figure.layout["shapes"]) == 12


def test_what_happened_is_marked_over_all_panels_with_its_label_and_words() -> None:
    happened = Event(START + timedelta(hours=2), "b<2>", "llama.cpp b1 → b<2>: decode −7.7 % on 3 models", "worse")
    figure = drawn(
        [point(0), point(3)], events=[happened, Event(START, "new PSU", "new PSU, 1 September 2026", "note")]
    )
    shapes, notes = figure.layout["shapes"], figure.layout["annotations"]
    assert [(shape["yref"], shape["name"]) for shape in shapes] == [("paper", "worse"), ("paper", "note")]
    assert [note["text"] for note in notes] == ["b&lt;2&gt;", "new PSU"]
    assert notes[0]["hovertext"] == "llama.cpp b1 → b&lt;2&gt;: decode −7.7 % on 3 models"
    assert notes[0]["x"] == "2026-09-01 14:00:00"


# --- series ----------------------------------------------------------------------------------------------------------


def test_a_series_is_one_line_through_its_versions() -> None:
    configs = {1: described(), 2: described(engine_version="b6400"), 3: described(quantization="Q8_0")}
    figure = drawn([point(0), point(1, 2), point(2, 3), point(3, 2)], configs, by=SERIES)
    q4, q8 = entries(figure)
    assert (q4.title, q4.group, q8.title, q8.group) == ("Q4_K_M", "Qwen3-8B", "Q8_0", "Qwen3-8B")
    assert q4.series != q8.series  # of one model, colours tell quantizations apart
    assert q4.shape != q8.shape
    line = next(trace for trace in figure.data if trace["name"] == "Qwen3-8B Q4_K_M" and trace["yaxis"] == "y")
    assert line["y"] == [500, 500, 500]
    assert line["hovertext"] == ["Qwen3-8B Q4_K_M · b6301", *["Qwen3-8B Q4_K_M · b6400"] * 2]
    assert figure.summary.startswith("4 runs of 2 series on 1 September 2026")


def test_of_a_hundred_series_few_are_in_the_background_and_each_look_is_its_own() -> None:
    configs = {i: described(model=f"m{i // 5}", quantization=f"Q{i % 5}") for i in range(30)}
    figure = drawn([point(i, i) for i in range(30)], configs, by=SERIES)
    looks = [(key.series, key.shape) for key in entries(figure)]
    assert len(set(looks)) == 30
    assert len({key.series for key in entries(figure) if key.group == "m0"}) == 1
    assert {key.series for key in figure.legend} == set(range(MAX_SERIES))
    assert {len({key.shape for key in entries(figure) if key.group == f"m{number}"}) for number in range(6)} == {5}


def test_settings_of_a_model_and_quantization_differ_in_the_marker() -> None:
    configs = {i: described(settings={"context": 1024 * (i + 1)}) for i in range(4)}
    figure = drawn([point(i, i) for i in range(4)], configs, by=SERIES)
    shapes = [key.shape or (0, 0) for key in entries(figure)]
    assert len({dash for dash, _ in shapes}) == 1
    assert len({marker for _, marker in shapes}) == 4


def test_an_axis_may_fit_the_data_and_a_high_ceiling_is_drawn_only_on_request() -> None:
    points = [point(0), point(1)]
    unasked = drawn(points, roofs={1: 240.0}, is_from_zero=False)
    assert {unasked.layout[name]["rangemode"] for name in ("yaxis", "yaxis2", "yaxis3")} == {"normal"}
    assert not [trace for trace in unasked.data if trace["meta"].get("role") == "roof"]
    asked = drawn(points, roofs={1: 240.0}, has_roofs=True)
    assert [trace["y"] for trace in asked.data if trace["meta"].get("role") == "roof"] == [[240.0, 240.0]]


def test_somebodys_words_are_no_markup() -> None:
    configs = {1: described(), 2: described(model="<b>x</b></script>")}
    figure = drawn([point(0), point(1, 2)], configs)
    assert "</script" not in figure.json
    assert figure.data[0]["name"].startswith("&lt;b&gt;x")


@pytest.mark.parametrize("configurations", [1, 7, 40])
def test_many_runs_are_reduced_and_their_extremes_stay(configurations: int) -> None:
    count = 12_000
    configs = {i: described(engine_version=f"b{i}") for i in range(configurations)}
    points = [point(i / 10, i % configurations, ttft_ms=500 + i % 7) for i in range(count)]
    # an outlier of the newest configuration, which is drawn by itself
    spike = count // 2 - (count // 2) % configurations + (count - 1) % configurations
    points[spike] = point(spike / 10, (count - 1) % configurations, ttft_ms=9000.0)
    figure = drawn(points, configs)
    assert sum(len(trace["x"]) for trace in figure.data) <= MAX_POINTS + 2 * len(figure.data)
    assert max(max(trace["y"]) for trace in figure.data if trace["yaxis"] == "y") == 9000
    assert figure.data[0]["customdata"][-1] == f"/runs/{points[-1].public_id}"
    assert len(figure.table.rows) == 100
    assert figure.table.caption == "The newest 100 of 12,000 runs."


def test_reducing_keeps_order_ends_and_extremes() -> None:
    values = [float((i * 7919) % 1000) for i in range(5000)]
    indices = downsample_minmax(values, 300)
    assert list(indices) == sorted(set(indices))
    assert (indices[0], indices[-1]) == (0, 4999)
    assert {min(values), max(values)} <= {values[i] for i in indices}
    assert len(indices) <= 301
    assert {17, 4321} <= set(downsample_minmax(values, 300, always=(17, 4321)))
    assert list(downsample_minmax(values[:300], 300)) == list(range(300))


def test_the_summary_is_one_sentence() -> None:
    assert drawn([point(0), point(48, decode_tokens_per_s=None)]).summary == (
        "2 runs of 1 configuration from 1 September 2026 to 3 September 2026; "
        "the newest, Qwen3-8B Q4_K_M, has TTFT 500 ms, prefill 1,000 tok/s."
    )


def test_the_ceiling_lies_over_its_own_configuration() -> None:
    points = [point(0), point(1, config_id=2), point(2)]
    configs = {1: described(), 2: described(quantization="Q8_0")}
    figure = drawn(points, configs, roofs={1: 84.2}, has_roofs=True)
    (roof,) = [trace for trace in figure.data if trace["meta"].get("role") == "roof"]
    assert (roof["y"], roof["yaxis"], roof["mode"]) == ([84.2, 84.2], "y3", "lines")
    assert roof["meta"]["series"] == next(t["meta"]["series"] for t in figure.data if t["name"] == roof["name"])
    assert roof["x"][0] < "2026-09-01 12:00:00"
    assert roof["x"][1] > "2026-09-01 14:00:00"


def test_a_configuration_measured_before_and_after_is_broken_whatever_ran_between() -> None:
    configs = {1: described(), 2: described(settings={"context": 8192})}
    change = HardwareChange(START + timedelta(hours=4), "RTX 3090 → 2 × RTX 3090")
    figure = drawn([point(0), point(3, config_id=2), point(5)], configs, hardware={1: [change]})
    first = next(trace for trace in figure.data if trace["meta"]["series"] == 0)
    assert first["y"] == [500, None, 500]
