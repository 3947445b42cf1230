"""The history figure: what is drawn, what is said, and how much of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import plotly.graph_objects as go
import pytest

from app.charts import MAX_SERIES, Figure, history
from app.charts.base import MAX_POINTS, reduce
from app.configuration import Snapshot
from app.store.configs import Described
from app.store.hardware import HardwareChange
from app.store.listing import HistoryPoint

START = datetime(2026, 9, 1, 12, tzinfo=UTC)
SNAPSHOT = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q4_K_M", {"context": 4096})


def point(hours: float, config_id: int = 1, server_id: int = 1, **values: float | None) -> HistoryPoint:
    numbers = {"ttft_ms": 500.0, "prefill_tokens_per_s": 1000.0, "decode_tokens_per_s": 60.0, **values}
    return HistoryPoint(f"run{hours:g}", START + timedelta(hours=hours), config_id, server_id, **numbers)


def described(**changed: object) -> Described:
    fields = {**vars(SNAPSHOT), **changed}
    return Described("box", Snapshot(**fields))


def drawn(points: list[HistoryPoint], configs: dict[int, Described] | None = None) -> Figure:
    figure = history(points, configs or {1: described()}, lambda public_id: f"/runs/{public_id}")
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)  # plotly raises for anything it does not know
    return figure


def test_nothing_to_draw() -> None:
    assert history([], {}, str) is None


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
    count = MAX_SERIES + 3
    configs = {i: described(engine_version=f"b{i}") for i in range(count)}
    figure = drawn([point(i, config_id=i) for i in range(count)], configs)
    assert [key.series for key in figure.legend] == [2, 1, 0, 5, 4, 3, None]
    assert figure.legend[0].title == f"Qwen3-8B Q4_K_M · llama.cpp b{count - 1}"
    assert figure.legend[-1].title == "3 older configurations"
    assert figure.data[-1]["meta"] == {"series": None}
    assert figure.data[-1]["mode"] == "markers"


def test_a_configuration_keeps_its_look_when_others_come() -> None:
    configs = {i: described(engine_version=f"b{i}") for i in range(5)}

    def looks(count: int) -> dict[str, int | None]:
        figure = drawn([point(i, config_id=i) for i in range(count)], configs)
        return {key.title: key.series for key in figure.legend}

    few, more = looks(3), looks(5)
    assert few == {title: more[title] for title in few}
    assert len(set(more.values())) == 5


def test_intervals_are_drawn_where_they_are_known() -> None:
    known = {("run0", "decode_tokens_per_s"): (58.0, 63.0)}
    figure = history([point(0), point(1)], {1: described()}, str, intervals=known)
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)
    ttft, _, decode = figure.data
    assert "error_y" not in ttft
    assert (decode["error_y"]["array"], decode["error_y"]["arrayminus"]) == ([3, 0], [2, 0])


def test_changes_are_marked_per_server_in_words() -> None:
    configs = {1: described(), 2: described(quantization="Q8_0"), 3: described(model="Other")}
    runs = [point(0, 1), point(1, 3, server_id=2), point(2, 1), point(3, 2), point(4, 2), point(5, 3, server_id=2)]
    figure = drawn(runs, configs)
    assert figure.marks == ("1 September 2026, box: Q4_K_M → Q8_0",)
    (mark,) = figure.layout["annotations"]
    assert (mark["x"], mark["text"], mark["hovertext"]) == ("2026-09-01 15:00:00", "1", "box: Q4_K_M → Q8_0")
    assert len(figure.layout["shapes"]) == 1


def test_somebodys_words_are_no_markup() -> None:
    configs = {1: described(), 2: described(model="<b>x</b></script>")}
    figure = drawn([point(0), point(1, 2)], configs)
    assert "</script" not in figure.json
    assert figure.data[0]["name"].startswith("&lt;b&gt;x")
    assert "<b>x</b>" in figure.marks[0]


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
    kept = reduce(values, 300)
    assert list(kept) == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, 4999)
    assert {min(values), max(values)} <= {values[i] for i in kept}
    assert len(kept) <= 301
    assert list(reduce(values[:300], 300)) == list(range(300))


def test_the_summary_is_one_sentence() -> None:
    assert drawn([point(0), point(48, decode_tokens_per_s=None)]).summary == (
        "2 runs of 1 configuration from 1 September 2026 to 3 September 2026; "
        "the newest, Qwen3-8B Q4_K_M, has TTFT 500 ms, prefill 1,000 tok/s."
    )


def test_the_ceiling_lies_over_its_own_configuration() -> None:
    points = [point(0), point(1, config_id=2), point(2)]
    configs = {1: described(), 2: described(quantization="Q8_0")}
    figure = history(points, configs, str, roofs={1: 84.2})
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)
    (roof,) = [trace for trace in figure.data if trace["meta"].get("role") == "roof"]
    assert (roof["y"], roof["yaxis"], roof["mode"]) == ([84.2, 84.2], "y3", "lines")
    assert roof["meta"]["series"] == next(t["meta"]["series"] for t in figure.data if t["name"] == roof["name"])
    assert roof["x"][0] < "2026-09-01 12:00:00"
    assert roof["x"][1] > "2026-09-01 14:00:00"


# --- hardware --------------------------------------------------------------------------------------------------------


def on_hardware(points: list[HistoryPoint], hours: float, **more: Any) -> Figure:
    configs = {1: described(), 2: described(settings={"context": 8192})}
    change = HardwareChange(START + timedelta(hours=hours), "RTX 3090 → 2 × RTX 3090")
    figure = history(points, configs, str, hardware={1: [change]}, **more)
    assert figure is not None
    return figure


def test_another_hardware_breaks_the_line_and_is_marked() -> None:
    figure = on_hardware([point(0), point(1), point(5), point(6)], 5)
    lines = [(trace["yaxis"], trace["customdata"]) for trace in figure.data]
    assert lines[:2] == [("y", ["run0", "run1"]), ("y", ["run5", "run6"])]
    assert {trace["meta"]["series"] for trace in figure.data} == {0}
    assert len(figure.legend) == 1
    assert figure.marks == ("1 September 2026, box: RTX 3090 → 2 × RTX 3090",)


def test_the_ceiling_is_drawn_over_the_newest_hardware() -> None:
    figure = on_hardware([point(0), point(48), point(96)], 48, roofs={1: 90.0})
    (roof,) = (trace for trace in figure.data if trace["meta"].get("role") == "roof")
    assert roof["x"][0] > figure.data[0]["x"][0]
    assert roof["x"][0] < figure.data[1]["x"][0]


def test_hardware_and_configuration_that_change_together_are_one_mark() -> None:
    figure = on_hardware([point(0), point(1), point(5, config_id=2)], 5)
    assert figure.marks == ("1 September 2026, box: RTX 3090 → 2 × RTX 3090; Context 4,096 → 8,192",)


def test_a_configuration_measured_before_and_after_is_broken_whatever_ran_between() -> None:
    figure = on_hardware([point(0), point(3, config_id=2), point(5)], 4)
    first = [trace["customdata"] for trace in figure.data if trace["yaxis"] == "y" and trace["meta"]["series"] == 0]
    assert first == [["run0"], ["run5"]]
