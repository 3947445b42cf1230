"""How decode falls with context: one run for each configuration under its ceiling, in words and as a figure."""

from dataclasses import replace
from datetime import UTC, datetime

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from app.charts.base import MAX_SERIES
from app.charts.context import context_figure
from app.db.database import Database
from app.db.tables import Config, Run
from app.results.context_curves import ContextCurve, MeasuredContext, context_curves, context_verdict
from app.results.run_filter import RunFilter
from tests.year import seed_year


def curve(*points: tuple[int, float, float | None], title: str = "Model Q8_0") -> ContextCurve:
    return ContextCurve(
        title=title,
        config_id=1,
        machine_id=1,
        engine_version="b1",
        public_id="run",
        started_at=datetime(2026, 11, 1, tzinfo=UTC),
        points=tuple(MeasuredContext(*point) for point in points),
        ceiling=(),
        why_no_ceiling="",
    )


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (
            [(128, 88, 120), (16_000, 61, 86.4)],
            "Decode falls from 88.0 tok/s at 128 tokens to 61.0 at 16,000 (−31 %); its ceiling falls by 28 %: the "
            "slowdown is what the KV cache costs.",
        ),
        (
            [(128, 80, 120), (16_000, 40, 100)],
            "Decode falls from 80.0 tok/s at 128 tokens to 40.0 at 16,000 (−50 %); its ceiling falls by 17 %: the KV "
            "cache explains 26 % of the slowdown.",
        ),
        (
            [(128, 80, 120), (16_000, 40, 119.9)],
            "Decode falls from 80.0 tok/s at 128 tokens to 40.0 at 16,000 (−50 %); its ceiling stays the same: reading "
            "the KV cache does not explain the slowdown.",
        ),
        (
            [(128, 80, 120), (16_000, 70, 60)],
            "Decode falls from 80.0 tok/s at 128 tokens to 70.0 at 16,000 (−12 %); its ceiling falls by 50 %: it is "
            "nearer to its ceiling with a long context than with a short one.",
        ),
        (
            [(128, 80, None), (16_000, 70, None)],
            "Decode falls from 80.0 tok/s at 128 tokens to 70.0 at 16,000 (−12 %); its ceiling is unknown.",
        ),
        (
            [(128, 80, 120), (16_000, 79.5, 119)],
            "Decode is as fast with 16,000 tokens in the cache as with 128: 79.5 tok/s.",
        ),
        (
            [(128, 80, None), (16_000, 90, None)],
            "Decode rises from 80.0 tok/s at 128 tokens to 90.0 at 16,000 (+12 %).",
        ),
    ],
)
def test_the_words_follow_from_the_numbers(points: list[tuple[int, float, float | None]], words: str) -> None:
    assert curve(*points).words == words
    assert context_verdict([curve(*points)]) == words


speeds = st.floats(0.01, 10_000)


@given(speeds, speeds, st.none() | st.tuples(speeds, speeds))
def test_any_numbers_make_a_sentence(first: float, last: float, ceilings: tuple[float, float] | None) -> None:
    ends = ceilings or (None, None)
    made = curve((128, first, ends[0]), (4096, last, ends[1]))
    assert made.words.endswith(".")
    assert not made.cause or made.change < 0
    figure = context_figure([made], lambda _curve: "/runs/x")
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)


def test_several_curves_are_summed_up_with_the_one_that_falls_most() -> None:
    flat, steep = curve((128, 80, 120), (4096, 78, 117)), curve((128, 80, 120), (4096, 40, 60), title="Steep Q4_0")
    assert context_verdict([flat, steep]) == (
        "With a long context decode falls by 2.5 to 50 % in 2 configurations, most with Steep Q4_0: decode falls from "
        "80.0 tok/s at 128 tokens to 40.0 at 4,096 (−50 %); its ceiling falls by 50 %: the slowdown is what the KV "
        "cache costs."
    )
    assert context_verdict([]) == ""
    assert context_figure([], lambda _curve: "") is None


def test_of_many_curves_the_one_that_the_verdict_names_is_drawn() -> None:
    steep = replace(curve((0, 100, 120), (4096, 50, 60), title="Steep"), started_at=datetime(2025, 1, 1, tzinfo=UTC))
    flat = [curve((0, 100, 120), (4096, 90 + place, 108), title=f"Flat {place}") for place in range(8)]
    figure = context_figure([*flat, steep], lambda _curve: "/runs/x")
    assert figure is not None
    assert "Steep" in [entry.title for entry in figure.legend]
    assert len(figure.legend) == MAX_SERIES
    assert f"Drawn are {MAX_SERIES} of 9" in figure.summary
    assert "Steep" in context_verdict([*flat, steep])


def test_a_curve_is_one_run_of_the_newest_build_under_its_ceiling(database: Database) -> None:
    with database.write() as session:
        seed_year(session)
    with database.read() as session:
        curves = context_curves(session, RunFilter())
        everything = context_curves(session, RunFilter(), with_earlier_builds=True)
        of_model = context_curves(session, RunFilter(model="Llama-3.1-8B", machine="workstation"))
        runs = {run.public_id: run for run in session.exec(select(Run)).all()}
        configs = {config.id: config for config in session.exec(select(Config)).all()}
    assert {one.title.split(" · ")[0] for one in of_model} == {"Llama-3.1-8B Q4_K_M", "Llama-3.1-8B Q8_0"}
    assert len({one.title for one in curves}) == len(curves) < len(everything)
    assert {one.public_id for one in curves} <= {one.public_id for one in everything}
    for one in everything:
        assert (runs[one.public_id].config_id, runs[one.public_id].machine_id) == (one.config_id, one.machine_id)
        assert one.engine_version == configs[one.config_id].engine_version
        assert [point.context for point in one.points] == sorted({point.context for point in one.points})
        ceilings = [point.ceiling_tokens_per_s for point in one.points]
        assert all(
            ceiling and ceiling > point.tokens_per_s for ceiling, point in zip(ceilings, one.points, strict=True)
        )
        assert ceilings == sorted(ceilings, reverse=True)  # type: ignore[type-var]  # none is unknown
    figure = context_figure(curves, lambda one: f"/runs/{one.public_id}")
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)
    assert len(figure.legend) == 6
    measured = [trace for trace in figure.data if "role" not in trace["meta"]]
    roofs = [trace for trace in figure.data if trace["meta"].get("role") == "roof"]
    assert [trace["meta"]["series"] for trace in measured] == [trace["meta"]["series"] for trace in roofs]
    assert {row[0] for row in figure.table.rows} == {one.title for one in curves}
