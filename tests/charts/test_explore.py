"""The explorer without pages: fields, data points, chart and words."""

from dataclasses import replace
from datetime import UTC, datetime

import plotly.graph_objects as go
import pytest

from app.charts import Figure
from app.charts import explore as charts
from app.charts.base import MAX_POINTS
from app.core.samples import Workload
from app.db.configs import snapshot_of
from app.db.tables import Config, Model
from app.metrics import metrics
from app.results.explore import ExploreResult, View, empty_text, notes, verdict
from app.results.explore.aggregate import aggregate
from app.results.explore.observations import GroupKey, Observation, ObservationSet
from app.results.explore.query import parse_view
from app.results.fields.field import RunContext, natural_key, sort_key
from app.results.fields.registry import explorer_fields

DECODE = "decode_tokens_per_s"
USUAL = View("quantization", DECODE, "model")
CONFIGS = {
    1: Config(
        id=1, server_id=1, model_id=1, engine="e", fingerprint="a", settings={"context": 4096, "rope": "2", "mix": 1}
    ),
    2: Config(
        id=2, server_id=1, model_id=2, engine="e", fingerprint="b", settings={"context": 8192, "rope": 3, "mix": "on"}
    ),
}
MODELS = {
    1: Model(id=1, name="Qwen3-8B", quantization="Q8_0", geometry_sha256="a"),
    2: Model(id=2, name="Qwen3-8B", quantization="IQ2_XS", geometry_sha256="b"),
}
FIELDS = explorer_fields(CONFIGS.values())


PLAIN = Workload(512, 128)


def context(config: int = 1, workload: Workload = PLAIN, machine: str = "box") -> RunContext:
    return RunContext(
        snapshot_of(CONFIGS[config], MODELS[config]),
        engine="Engine",
        machine=machine,
        server="s",
        suite="triple",
        workload=workload,
        config_title=f"c{config}",
        decode_ceiling=100.0,
    )


def result(
    view: View, rows: dict[RunContext, list[Observation]], runs: int = 0, is_main_only: bool = True
) -> ExploreResult:
    contexts = {GroupKey(number, 1, "", "", ""): context for number, context in enumerate(rows)}
    observations = {key: rows[context] for key, context in contexts.items()}
    observation_set = ObservationSet(observations, runs or sum(map(len, rows.values())))
    return aggregate(view, FIELDS, observation_set, contexts, is_main_only)


def runs(*values: float | None, reason: str | None = None, config: int = 1) -> list[Observation]:
    return [
        (f"r{config}{n}", None, value if value is None else float(value), reason if value is None else None)
        for n, value in enumerate(values)
    ]


def drawn(explored: ExploreResult) -> Figure:
    figure = charts.figure(explored, lambda point: f"/{point.public_id or 'many'}")
    assert figure is not None
    go.Figure(data=figure.data, layout=figure.layout)  # plotly raises for anything it does not know
    return figure


def test_every_metric_and_setting_is_a_field() -> None:
    assert metrics().keys() <= FIELDS.keys()
    assert {"setting.context", "setting.kv_type_k", "setting.rope"} <= FIELDS.keys()


def test_a_setting_is_a_number_where_all_of_its_values_are() -> None:
    assert FIELDS["setting.context"].kind == "number"
    assert FIELDS["setting.rope"].kind == FIELDS["setting.mix"].kind == "category"
    assert FIELDS["setting.rope"].read(context(2)) == "3"


def test_quantizations_sort_by_their_bits_and_versions_by_their_numbers() -> None:
    field = FIELDS["quantization"]
    assert sorted(["what", "F16", "Q8_0", "IQ2_XS", "Q4_K_M"], key=lambda value: sort_key(field, value)) == [
        "IQ2_XS", "Q4_K_M", "Q8_0", "F16", "what",
    ]  # fmt: skip
    variants = ["B Q8_0", "A F16", "B IQ2_XS", "A Q4_0"]
    assert sorted(variants, key=lambda value: sort_key(FIELDS["variant"], value)) == [
        "A Q4_0", "A F16", "B IQ2_XS", "B Q8_0",
    ]  # fmt: skip
    assert sorted(["llama.cpp b10000", "llama.cpp b999"], key=natural_key)[0] == "llama.cpp b999"


def test_data_points_are_medians_with_their_ends() -> None:
    explored = result(USUAL, {context(1): runs(10, 30, 11), context(2): runs(50, config=2)})
    assert [
        (point.x, point.y, point.low, point.high, point.observations, point.public_id) for point in explored.data_points
    ] == [
        ("IQ2_XS", 50, 50, 50, 1, "r20"),
        ("Q8_0", 11, 10, 30, 3, None),
    ]
    figure = drawn(explored)
    assert figure.layout["xaxis"]["ticktext"] == ["IQ2_XS", "Q8_0"]
    (trace,) = figure.data
    assert trace["mode"] == "markers"
    assert (trace["error_y"]["array"], trace["error_y"]["arrayminus"]) == ([0, 19], [0, 1])
    assert trace["customdata"] == ["/r20", "/many"]
    assert figure.table.rows == (
        ("Qwen3-8B", "IQ2_XS", "50.0", "50.0", "50.0", "1"), ("Qwen3-8B", "Q8_0", "11.0", "10.0", "30.0", "3"),
    )  # fmt: skip


def test_numbers_make_a_line_and_measured_numbers_do_not() -> None:
    rows = {context(1): runs(10, 12), context(2): runs(50, config=2)}
    (line,) = drawn(result(View("setting.context", DECODE, mix="quantization,settings"), rows)).data
    assert (line["mode"], line["x"], line["y"]) == ("lines+markers", [4096, 8192], [11, 50])
    (dots,) = drawn(result(View("tpot_ms", DECODE), {context(1): [("r", None, 10.0, None, 100.0, None)]})).data
    assert dots["mode"] == "markers"


def test_each_run_by_itself() -> None:
    explored = result(View("quantization", DECODE, raw=True), {context(1): runs(10, 30, 11)})
    assert [(point.y, point.public_id) for point in explored.data_points] == [(10, "r10"), (11, "r12"), (30, "r11")]
    assert "error_y" not in drawn(explored).data[0]


def test_days() -> None:
    at = [datetime(2026, 9, day, hour, tzinfo=UTC) for day, hour in ((1, 2), (1, 20), (3, 4))]
    rows = {context(1): [(f"r{n}", moment, float(n), None) for n, moment in enumerate(at)]}
    assert [(point.x, point.y) for point in result(View("started_at", DECODE), rows).data_points] == [
        (datetime(2026, 9, 1, tzinfo=UTC), 0.5), (datetime(2026, 9, 3, tzinfo=UTC), 2.0),
    ]  # fmt: skip
    assert drawn(result(View("started_at", DECODE), rows)).layout["xaxis"]["type"] == "date"
    assert len(result(View("started_at", DECODE, raw=True), rows).data_points) == 3


def test_what_is_left_out_is_said() -> None:
    explored = result(USUAL, {context(1): runs(10, None, None, reason="buffered")}, runs=5)
    assert [exclusion_count.text for exclusion_count in explored.exclusions] == [
        "Left out: 2 runs without decode: the tokens arrived in bursts, most likely through a buffering proxy: their "
        "times say nothing.",
        "Left out: 2 runs without decode: it was not measured there.",
    ]
    empty = result(View("quantization", "tokens_per_s_per_watt"), {}, runs=3)
    assert charts.figure(empty, str) is None
    assert empty_text(empty)[1].startswith("Left out: 3 runs without decode per watt: no power was recorded")


def test_several_streams_do_not_count_beside_one_unless_they_are_in_sight() -> None:
    rows = {context(1): runs(10), context(1, Workload(512, 128, 8)): runs(2, config=3)}
    apart = result(USUAL, rows)
    assert [point.y for point in apart.data_points] == [10]
    assert notes(apart)[-1] == (
        "Left out: 1 run with concurrency above 1: choose concurrency for an axis or the series to see them."
    )
    assert len(result(View("concurrency", DECODE), rows).data_points) == 2
    assert [point.y for point in result(USUAL, {context(1, Workload(512, 128, 8)): runs(2)}).data_points] == [2]


def test_what_a_data_point_mixes_is_said() -> None:
    rows = {context(1): runs(10), context(1, machine="other"): runs(20)}
    mixed = result(replace(USUAL, mix="machine"), rows)
    assert [point.y for point in mixed.data_points] == [15]
    assert "Some marks combine runs that differ in machine: " in notes(mixed)[1]
    assert [(point.parts, point.y) for point in result(USUAL, rows).data_points] == [(("box",), 10), (("other",), 20)]
    assert not result(USUAL, rows).heterogeneous
    assert not result(
        View("machine", DECODE), {context(1): runs(10), context(1, machine="other"): runs(20)}
    ).heterogeneous


def test_a_single_value_of_x_says_the_next_step() -> None:
    alone = result(View("prompt_tokens", DECODE), {context(1): runs(10)})
    assert notes(alone) == ["All these runs have prompt tokens 512: run the `lengths` suite to see others."]


def test_a_share_of_the_ceiling_is_of_all_streams() -> None:
    """By the throughput of their rounds, whatever the speed of each; a lone stream by its decode."""
    streams: list[Observation] = [("r1", None, 20.0, None, 46.7, None)]
    alone: list[Observation] = [("r2", None, 20.0, None, 18.0, None)]
    unknown: list[Observation] = [("r3", None, 20.0, None, None, "no_token")]
    rows = {context(1, Workload(512, 128, 4)): streams, context(1): alone, context(2, Workload(512, 128, 4)): unknown}
    explored = result(View("concurrency", "ceiling_share"), rows)
    assert [(point.x, point.y) for point in explored.data_points] == [(1, 20.0), (4, pytest.approx(46.7))]
    assert [exclusion_count.exclusion.reason for exclusion_count in explored.exclusions] == ["No token arrived."]


def test_long_names_lie_on_the_upright_axis() -> None:
    names = {context(n % 2 + 1, machine=f"a machine with a long name {n}"): runs(n) for n in range(1, 4)}
    figure = drawn(result(View("machine", DECODE, mix="quantization"), names))
    assert len(figure.layout["yaxis"]["ticktext"]) == 3
    assert figure.layout["yaxis"]["range"] == [2.5, -0.5]
    assert figure.data[0]["x"] == [1, 2, 3]
    assert charts.label_lines(figure) == 3


def test_no_more_series_than_can_be_told_apart() -> None:
    rows = {context(1, machine=f"m{n}"): runs(*range(1, n + 2)) for n in range(9)}
    figure = drawn(result(View("quantization", DECODE, "machine"), rows))
    assert [key.title for key in figure.legend] == [
        "m3", "m4", "m5", "m6", "m7", "m8", "3 others",
        "Each mark is the median of its runs; its bar reaches from the lowest to the highest",
    ]  # fmt: skip
    assert figure.legend[-2].series is None
    assert len(figure.table.rows) == 9


@pytest.mark.parametrize("view", [View("quantization", DECODE, raw=True), View("tpot_ms", DECODE, "model")])
def test_many_points_are_reduced_and_that_is_said(view: View) -> None:
    rows = [(f"r{n:05d}", None, 50.0 + n % 7, None, 20.0 + n % 11, None) for n in range(12_000)]
    rows[6000] = ("spike", None, 900.0, None, 10.0, None)
    figure = drawn(result(view, {context(1): rows}))
    assert sum(len(trace["x"]) for trace in figure.data) <= MAX_POINTS + 2
    assert max(figure.data[0]["y"]) == 900
    assert "About 2,000 of them are drawn" in figure.summary
    assert figure.table.caption == "The first 200 of 12,000 rows; CSV and JSON hold all of them."


def test_a_figure_knows_no_colours_and_somebodys_words_are_no_markup() -> None:
    explored = result(View("machine", DECODE, "machine"), {context(1, machine="<b>x</b></script>"): runs(1, 2)})
    text = drawn(explored).json
    assert "<b>" not in text
    assert "&lt;b>" in text.replace("&gt;", ">").replace("\\u003c", "<")
    assert not any(word in text for word in ("color", "font", 'dash"', "symbol"))


def test_an_address_holds_a_whole_view() -> None:
    query = {
        "x": "started_at", "y": "ttft_ms", "series": "labels", "source": "server", "machine": "m", "model": "ä b",
        "suite": "s", "engine": "e", "label": "l", "since": "2026-09-01", "until": "2026-09-02", "raw": "on",
        "at": "1", "among": "2",
    }  # fmt: skip
    view, problems = parse_view(query, FIELDS, USUAL)
    assert (problems, view.query) == ([], query)
    assert view.whole.query == {key: value for key, value in query.items() if key not in ("raw", "at", "among")}


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"x": "nonesuch"}, "There is no field called 'nonesuch' for x."),
        ({"series": "ttft_ms"}, "TTFT differs from run to run, so it makes no series."),
        ({"source": "guess"}, "A source is one of client, server, slope, import; 'guess' is not."),
        ({"since": "yesterday"}, "A day is written like 2026-11-20; 'yesterday' is not."),
        ({"since": "2026-09-02", "until": "2026-09-01"}, "The first day is after the last one."),
        ({"model": "x" * 700}, "The value of model cannot be searched for."),
        ({"machine": "a\0b"}, "The value of machine cannot be searched for."),
    ],
)
def test_what_makes_no_sense_is_one_sentence(query: dict[str, str], sentence: str) -> None:
    assert parse_view(query, FIELDS, USUAL) == (USUAL, [sentence])


def test_the_verdict_says_what_the_view_shows() -> None:
    quantizations = {context(1): runs(40), context(2): runs(50, config=2)}
    by_quantization = View("quantization", DECODE, "model", mix="settings")
    assert verdict(result(by_quantization, quantizations)) == (
        "Decode is 25 % faster with IQ2_XS than with Q8_0, 50.0 against 40.0 tok/s."
    )
    by_context = View("setting.context", DECODE, mix="quantization,settings")
    assert verdict(result(by_context, {context(1): runs(50), context(2): runs(40)})) == (
        "Decode falls from 50.0 tok/s at 4,096 to 40.0 at 8,192 (context; −20 %)."
    )
    assert verdict(result(by_context, {context(1): runs(50), context(2): runs(50.5)})) == (
        "Decode is the same at 4,096 and at 8,192 (context), 50.0 tok/s."
    )
    by_machine = View("machine", "ttft_ms", "variant")
    machines = {context(1): runs(100), context(1, machine="other"): runs(60)}
    assert verdict(result(by_machine, machines)) == "TTFT is 40 % shorter on other than on box, 60.0 against 100 ms."
    apart = {**quantizations, context(2, machine="other"): runs(60, config=2)}
    assert verdict(result(by_quantization, apart)).endswith(
        "Best of 2 lines: Qwen3-8B · other with 60.0 tok/s (IQ2_XS)."
    )
    assert verdict(result(by_quantization, {context(1): runs(40)})) == ""
