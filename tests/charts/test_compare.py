"""A comparison's figures."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest

from app.charts import curves, forest, pauses
from app.core.samples import Workload
from app.db.database import Database
from app.results.compare import Comparison
from tests.compare.runs import Q4, Q8, compared, place, run, timed

LONGER = Workload(2000, 32)


@pytest.fixture
def comparison(database: Database) -> Comparison:
    q8, q4 = place(database, Q8, Q4)

    def both(ttft_ms: float, speed: float) -> list[object]:
        longer = [replace(sample, ordinal=sample.ordinal + 6) for sample in timed(4 * ttft_ms, speed, LONGER)]
        return [*timed(ttft_ms, speed), *longer]

    names = [run(database, q8, both(500, 50)), run(database, q4, both(400, 60))]  # type: ignore[arg-type]  # samples
    return compared(database, *names)


def test_a_ratio_lies_within_its_interval_around_one(comparison: Comparison) -> None:
    figure = forest(comparison)
    assert figure is not None
    ttft = figure.data[0]
    assert ttft["x"] == [pytest.approx(0.8, rel=1e-3)]
    assert ttft["meta"] == {"series": 1}
    assert ttft["error_x"]["array"][0] >= 0
    assert figure.layout["xaxis"]["type"] == "log"
    low, high = (10**end for end in figure.layout["xaxis"]["range"])
    assert low < 0.8
    assert high > 1.2
    assert [figure.layout[axis]["title"]["text"] for axis in ("yaxis", "yaxis2", "yaxis3")] == [
        "TTFT: lower is better",
        "Prefill: higher is better",
        "Decode: higher is better",
    ]
    assert figure.table.rows[0][:3] == ("TTFT", "Q4_K_M", "0.800")
    assert figure.table.rows[0][-1] == "20 % shorter"
    json.loads(figure.json)


def test_pauses_rise_from_nothing_to_all_but_the_longest(comparison: Comparison) -> None:
    figure = pauses(comparison)
    assert figure is not None
    for trace in figure.data:
        assert trace["x"] == sorted(trace["x"])
        assert (trace["y"][0], trace["y"][-1]) == (0, 99)
    assert [row[0] for row in figure.table.rows] == ["A · Q8_0", "B · Q4_K_M"]
    assert len(figure.legend) == 2


def test_curves_run_over_the_lengths(comparison: Comparison) -> None:
    figure = curves(comparison)
    assert figure is not None
    assert figure.layout["xaxis"]["title"]["text"] == "Prompt tokens"
    assert figure.data[0]["x"] == [512, 2000]
    assert len(figure.data) == 6
    assert [row[0] for row in figure.table.rows] == ["512", "2,000"]


def test_curves_run_over_depth(database: Database) -> None:
    q8, q4 = place(database, Q8, Q4)
    behind = [Workload(64, 32), Workload(64, 32, depth=2000)]
    names = []
    for config in (q8, q4):
        samples = [
            replace(sample, ordinal=6 * place_ + sample.ordinal)
            for place_, point in enumerate(behind)
            for sample in timed(500, 50, point)
        ]
        names.append(run(database, config, samples))
    figure = curves(compared(database, *names))
    assert figure is not None
    assert figure.data[0]["x"] == [0, 2000]


def test_without_anything_in_common_there_is_nothing_to_draw(database: Database) -> None:
    q8, q4 = place(database, Q8, Q4)
    apart = compared(database, run(database, q8, timed(500, 50)), run(database, q4, timed(500, 50, LONGER)))
    assert forest(apart) is None
    assert curves(apart) is None


@pytest.mark.parametrize("factor", [0.001, 0.3, 0.97, 1.02, 3, 1000])
def test_an_axis_has_a_few_round_ticks_whatever_the_ratio(database: Database, factor: float) -> None:
    q8, q4 = place(database, Q8, Q4)
    figure = forest(compared(database, run(database, q8, timed(500, 50)), run(database, q4, timed(500 * factor, 50))))
    assert figure is not None
    axis = figure.layout["xaxis"]
    low, high = (10**end for end in axis["range"])
    if "tickvals" in axis:
        assert 1 <= sum(low <= tick <= high for tick in axis["tickvals"]) <= 9
        assert 1 in axis["tickvals"]
    else:
        assert axis["dtick"] == 1


@pytest.mark.parametrize("factor", [1.005, 1.03, 1.1, 1.3, 1.8, 2.5, 6, 30])
def test_ticks_of_ratios_are_far_enough_apart_for_their_labels(database: Database, factor: float) -> None:
    q8, q4 = place(database)
    comparison = compared(
        database, run(database, q8, timed(500, 50)), run(database, q4, timed(500 * factor, 50 / factor))
    )
    figure = forest(comparison)
    assert figure is not None
    axis = figure.layout["xaxis"]
    low, high = axis["range"]
    ticks = [math.log10(tick) for tick in axis.get("tickvals", []) if low <= math.log10(tick) <= high]
    assert all(after - before >= 0.08 * (high - low) for before, after in pairwise(ticks))


def test_results_of_which_there_are_too_many_for_a_look_are_named_by_their_letters(database: Database) -> None:
    q8, _ = place(database)
    names = [run(database, q8, timed(500 + number, 50), hours=number) for number in range(8)]
    for figure in (forest(comparison := compared(database, *names)), pauses(comparison)):
        assert figure is not None
        letters = ["".join(trace.get("text", "")) for trace in figure.data]
        background = [trace for trace in figure.data if trace["meta"]["series"] is None]
        assert len(background) % 2 == 0
        assert {letter for letter in letters if letter} == {"G", "H"}
        assert all("text" in trace["mode"] for trace in background)
