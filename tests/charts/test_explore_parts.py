"""No mark of the explorer mixes what was not asked for, whatever the runs and whatever the view."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.charts import explore as charts
from app.core.configuration import Snapshot
from app.core.samples import Workload
from app.results.explore import MARKS, PARTS, DataPoint, ExploreResult, View, left_out, verdict
from app.results.explore.aggregate import aggregate
from app.results.explore.observations import GroupKey, ObservationSet
from app.results.explore.parts import MAX_LINES, VARYING
from app.results.fields.field import RunContext
from app.results.fields.registry import explorer_fields

DECODE = "decode_tokens_per_s"
FIELDS = explorer_fields([])
START = datetime(2026, 1, 1, 8, tzinfo=UTC)


@st.composite
def contexts(draw: st.DrawFn) -> RunContext:
    """One of a few machines, builds, models and settings, so that many runs agree in some of them."""
    pick = draw(st.tuples(*[st.integers(0, 2)] * 8))
    threads = {"threads": (4, 8, 16)[pick[5]]} if pick[6] else {}
    snapshot = Snapshot(
        "e", f"b{pick[0]}", f"Model-{pick[1] % 2}", ("Q8_0", "Q4_K_M", None)[pick[2]], threads, ["hot"] * (pick[7] == 2)
    )
    return RunContext(
        snapshot,
        engine="Engine",
        machine=f"box {pick[3] % 2}",
        model_name=snapshot.model,
        hardware=f"{pick[4] + 1} cards",
        workload=Workload((128, 512, 4096)[pick[7]], 64),
        suite="own",
    )


def explored(view: View, of_runs: Mapping[int, RunContext]) -> ExploreResult:
    """Three runs of each context; a run of context n has a decode of 1000 (n + 1) and a bit more."""
    keys = {number: GroupKey(number, 1, "own", "", "") for number in of_runs}
    rows: dict[GroupKey, list[Any]] = {
        key: [
            (f"r{number:03d}{i}", START + timedelta(days=number % 4), 1000.0 * (number + 1) + (i * 7) % 3, None)
            for i in range(3)
        ]
        for number, key in keys.items()
    }
    return aggregate(
        view, FIELDS, ObservationSet(rows, 3 * len(rows)), {keys[n]: context for n, context in of_runs.items()}, False
    )


def facts(context: RunContext) -> dict[str, Any]:
    snapshot = context.snapshot
    return {
        "machine": context.machine,
        "model": snapshot.model,
        "quantization": snapshot.quantization,
        "engine": context.engine,
        "hardware": context.hardware,
        "engine_version": snapshot.engine_version,
        "prompt_tokens": context.workload.prompt_tokens,
        "settings": (snapshot.settings, snapshot.labels),
    }


def ends(point: DataPoint, of_runs: Mapping[int, RunContext]) -> list[dict[str, Any]]:
    assert point.low is not None
    assert point.high is not None
    return [facts(of_runs[int(value // 1000) - 1]) for value in (point.low, point.high)]


XS = ("machine", "quantization", "engine_version", "setting.threads", "prompt_tokens", "started_at", "model", "suite")


@settings(max_examples=300)
@given(
    runs=st.lists(contexts(), min_size=1, max_size=40).map(lambda drawn: dict(enumerate(drawn))),
    x=st.sampled_from(XS),
    series=st.sampled_from([None, "model", "variant", "machine", "quantization", "engine_version"]),
    mix=st.sets(st.sampled_from(PARTS)),
    every=st.sets(st.sampled_from(PARTS)),
    mark=st.sampled_from([None, *MARKS[1:]]),
)
def test_no_mark_and_no_line_mixes(
    runs: dict[int, RunContext], x: str, series: str | None, mix: set[str], every: set[str], mark: str | None
) -> None:
    view = View(x, DECODE, series, mark=mark).with_parts("mix", mix).with_parts("every", every)
    result = explored(view, runs)
    apart = set(PARTS) - mix - ({"hardware"} if "machine" in mix else set())
    of_line: dict[Any, list[dict[str, Any]]] = {}
    for point in result.data_points:
        low, high = ends(point, runs)
        for part in apart - ({"settings"} if x == "setting.threads" else set()):
            assert low[part] == high[part], part
        line = (point.line, point.interruption) if x == "started_at" else point.line
        of_line.setdefault(line, []).append(low)
    for points in of_line.values():
        for part in ({"machine", "hardware", "engine_version", "prompt_tokens"} & apart).difference(VARYING.get(x, ())):
            assert len({str(point[part]) for point in points}) == 1, part
    left_out_runs = sum(narrowing.observations for narrowing in result.narrowings)
    unknown = sum(count.observations for count in result.exclusions)
    assert result.observations + left_out_runs + unknown == 3 * len(runs)
    assert not {part for narrowing in result.narrowings for part in narrowing.parts} & every
    assert len(left_out(result)) == len(result.narrowings)
    verdict(result)
    charts.figure(result, str)


def test_earlier_builds_are_left_out_when_lines_would_be_too_many() -> None:
    runs = {
        number: RunContext(
            Snapshot("e", f"b{number // 2}", f"Model-{number % 2}", "Q8_0", {}), engine="Engine", machine="box",
            workload=Workload(512, 64),
        )
        for number in range(2 * (MAX_LINES // 2 + 1))
    }  # fmt: skip
    view = View("quantization", DECODE, "model")
    keys = {number: GroupKey(number, 1, "own", "", "") for number in runs}
    rows: dict[GroupKey, list[Any]] = {key: [(f"r{n}", None, 10.0 + n, None)] for n, key in keys.items()}
    ages = {(1, number): START + timedelta(days=number) for number in runs}
    result = aggregate(
        view, FIELDS, ObservationSet(rows, len(rows)), {keys[n]: context for n, context in runs.items()}, True, ages
    )
    assert {point.parts for point in result.data_points} == {(f"Engine b{MAX_LINES // 2}",)}
    assert [omission.text for omission in left_out(result)] == [
        f"Only the newest build of each line is shown, Engine b{MAX_LINES // 2}; {len(runs) - 2} runs of earlier "
        "builds are left out."
    ]
    assert verdict(result) == "Best of 2 lines: Model-1 with 17.0 tok/s (Q8_0)."
    figure = charts.figure(result, str)
    assert figure is not None
    assert [entry.title for entry in figure.legend][:2] == ["Model-0", "Model-1"]


def test_a_line_over_time_ends_where_the_build_changes() -> None:
    old, new = (
        RunContext(Snapshot("e", build, "M", "Q8_0", {}), engine="Engine", machine="box", workload=Workload(512, 64))
        for build in ("b1", "b2")
    )
    result = explored(View("started_at", DECODE, "model"), {0: old, 1: old, 2: new, 3: new})
    figure = charts.figure(result, str)
    assert figure is not None
    (trace,) = figure.data
    assert trace["y"] == [1001, 2001, None, 3001, 4001]
    assert trace["mode"] == "lines+markers"


def test_the_latest_and_the_best_run_stand_for_their_mark() -> None:
    context = RunContext(Snapshot("e", "b1", "M", "Q8_0", {}), engine="Engine", machine="box")
    key = GroupKey(1, 1, "own", "", "")

    def marked(y: str, mark: str | None) -> tuple[Any, str | None]:
        rows: list[Any] = [(f"r{n}", START + timedelta(days=n % 3), float(10 + n), None) for n in range(5)]
        view = View("quantization", y, mark=mark)
        (point,) = aggregate(view, FIELDS, ObservationSet({key: rows}, 5), {key: context}, True).data_points
        return point.y, point.public_id

    assert marked(DECODE, None) == (12.0, None)
    assert marked(DECODE, "latest") == (12.0, "r2")
    assert marked(DECODE, "best") == (14.0, "r4")
    assert marked("ttft_ms", "best") == (10.0, "r0")
