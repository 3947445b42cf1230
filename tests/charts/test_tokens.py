"""Token timeline and gaps of a run's samples."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.charts import Figure, gaps, timeline, typical_sample
from app.charts.base import MAX_POINTS
from app.charts.tokens import _percentile_labels
from app.core.samples import Event, Kind, Sample, Workload
from app.core.units import format_quantity
from app.metrics import flags_of, token_times
from tests.seed import made_sample

POINT = Workload(512, 64)


def sample(ordinal: int, decode: float = 50.0, is_warmup: bool = False, tokens: int = 64) -> Sample:
    return made_sample(ordinal, replace(POINT, output_tokens=tokens), 400.0 + ordinal, decode, is_warmup)


def valid(figure: Figure | None) -> Figure:
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)
    return figure


def without_tokens(base: Sample) -> Sample:
    return replace(base, trace=replace(base.trace, events=()))


def test_the_median_stands_in_the_middle_by_decode_and_is_usable() -> None:
    warm = sample(0, 55, is_warmup=True)
    spoiled = replace(sample(1, 52), flags=("incomplete",))
    samples = [warm, spoiled, sample(2, 40), sample(3, 50), sample(4, 60)]
    typical = typical_sample(samples)
    assert typical is not None
    assert typical.ordinal == 3
    assert typical_sample([warm]) is None
    assert typical_sample([without_tokens(sample(1))]) is None


def test_without_a_usable_sample_the_median_is_one_of_the_others() -> None:
    spoiled = replace(sample(1, 52), flags=("incomplete",))
    assert typical_sample([spoiled]) is spoiled


def test_the_headline_median_is_what_the_timeline_states() -> None:
    figure = valid(timeline([sample(0, 10), sample(2, 50), sample(10, 90), replace(sample(99), flags=("incomplete",))]))
    assert figure.layout["annotations"][0]["text"] == "Median TTFT 402 ms"
    assert figure.legend[0].title == "Sample 3, a typical one"


def test_the_sentence_of_the_timeline_is_of_one_sample() -> None:
    """The median of the first tokens may be later than the last token of the typical sample."""
    figure = valid(timeline([sample(0, 10), sample(2, 50), sample(10, 90)]))
    first_ms, last_ms = (
        token_times.first_token_ms(sample(2, 50).trace),
        token_times.last_token_ms(sample(2, 50).trace),
    )
    assert figure.summary.startswith(f"Sample 3: the first token came after {format_quantity(first_ms, 'ms')}, all ")
    assert figure.summary.endswith(f" were complete after {format_quantity(last_ms, 'ms')}.")


def test_answers_to_a_cached_prompt_are_not_mixed_with_those_to_a_fresh_one() -> None:
    fresh = [sample(n, 50) for n in range(3)]
    cached = [replace(made_sample(10 + n, POINT, 10.0, 90), reuses_cache=True) for n in range(5)]
    figure = valid(timeline([*fresh, *cached]))
    assert figure.layout["annotations"][0]["text"] == "Median TTFT 401 ms"
    assert len(figure.data) == 3
    assert typical_sample([*cached, *fresh]) in fresh
    assert valid(timeline(cached)).layout["annotations"][0]["text"] == "Median TTFT 10.0 ms"


def test_the_timeline_starts_with_the_prefill_and_ends_with_all_tokens() -> None:
    samples = [sample(0, is_warmup=True), sample(1, 40), sample(2, 50), sample(3, 60)]
    figure = valid(timeline(samples))
    assert [trace["name"] for trace in figure.data] == ["Sample 2", "Sample 4", "Sample 3"]
    assert [trace["meta"]["series"] for trace in figure.data] == [None, None, 0]
    line = figure.data[-1]
    first = token_times.first_token_ms(samples[2].trace)
    assert line["x"][:2] == [0, first]
    assert line["y"][:3] == [0, 0, 1]
    assert line["y"][-1] == 64
    assert [key.title for key in figure.legend] == ["Sample 3, a typical one", "2 other samples"]
    assert figure.layout["shapes"][0]["x1"] == first


def test_tokens_of_bundled_events_are_shared_out_over_them() -> None:
    base = sample(0)
    every_fourth = [e for i, e in enumerate(base.trace.token_events) if i % 4 == 0]
    figure = valid(timeline([replace(base, trace=replace(base.trace, events=tuple(every_fourth)))]))
    assert figure.data[0]["y"][2:4] == [4, 8]
    assert figure.data[0]["y"][-1] == 64


def test_tokens_that_the_server_counts_in_each_event_are_taken_as_they_are() -> None:
    base = sample(0)
    events = tuple(Event(100.0 * i, Kind.ANSWER, 4, tokens) for i, tokens in enumerate((1, 3, 64), 1))
    figure = valid(timeline([replace(base, trace=replace(base.trace, events=events))]))
    assert figure.data[0]["y"] == [0, 0, 1, 3, 64]


@pytest.mark.parametrize("draw", [timeline, lambda samples: gaps(samples[0])])
def test_a_run_without_a_stream_has_no_figure(draw: Callable[..., object]) -> None:
    assert draw([without_tokens(sample(1))]) is None


def test_many_samples_stay_few_points() -> None:
    figure = valid(timeline([sample(i, tokens=1000) for i in range(20)]))
    assert sum(len(trace["x"]) for trace in figure.data) <= 1.1 * MAX_POINTS


def test_gaps_show_their_percentiles() -> None:
    base = sample(2)
    figure = valid(gaps(base))
    gap_times = token_times.gaps_ms(base.trace)
    assert figure.data[0]["y"] == [round(gap, 3) for gap in gap_times]
    assert figure.layout["yaxis"]["title"]["text"] == "Inter-token latency, ms"
    assert len(figure.layout["shapes"]) == 3
    notes = " ".join(note["text"] for note in figure.layout["annotations"])
    assert all(f"p{percent} " in notes for percent in (50, 90, 99))
    assert figure.summary.startswith("Inter-token latency of sample 3: p50 ")
    assert [row[0] for row in figure.table.rows] == ["shortest", "p50", "p90", "p99", "longest"]


def test_gaps_of_bundled_events_are_called_chunk_gaps() -> None:
    base = sample(0)
    few = tuple(e for i, e in enumerate(base.trace.token_events) if i % 4 == 0)
    bundled = replace(base, trace=replace(base.trace, events=few))
    bundled = replace(bundled, flags=flags_of(bundled))
    assert "multi_token_chunks" in bundled.flags
    figure = valid(gaps(bundled))
    assert figure.layout["yaxis"]["title"]["text"] == "Chunk gap, ms"
    assert "token" not in figure.data[0]["hovertemplate"].lower()


@given(st.lists(st.floats(1, 1000), min_size=3, max_size=3), st.floats(1, 3))
def test_labels_of_percentiles_never_lie_over_each_other(values: list[float], beyond: float) -> None:
    marks = list(zip((50, 90, 99), sorted(values), strict=True))
    highest = marks[-1][1] * beyond
    labels = _percentile_labels(marks, highest)
    at = [label["y"] for label in labels]
    assert all(above - below > 0.089 * highest for below, above in pairwise(at))
    assert " · ".join(label["text"] for label in labels).count("p") == len(marks)
