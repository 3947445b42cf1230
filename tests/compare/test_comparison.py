"""Comparisons of stored runs: what differs, what is refused and why, and what stands behind the figures."""

import json
from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import select

from app.core.errors import BadInput, NotFound, RoofmarkError
from app.core.samples import Sample, ServerFigures, Workload
from app.core.unknown_settings import MAX_NAMED_SETTINGS
from app.db import baselines
from app.db.database import Database
from app.db.machines import BandwidthValue, MachineDevice
from app.db.tables import Run, now
from app.metrics import HEADLINE_METRICS
from app.results.compare import compare, to_json
from app.results.compare import standing as compare_with_baseline
from app.results.compare.differences import verdict_subject_text
from app.results.compare.result import pair_scatter_words, scatter_words
from app.results.hardware import freeze_devices
from app.stats.verdict import Ratio, Verdict
from tests.compare.runs import (
    CALM,
    POINT,
    Q4,
    Q8,
    QUIET,
    calm_history,
    change,
    compared,
    place,
    run,
    statements,
    timed,
)
from tests.databases import on_both
from tests.seed import seed


@pytest.fixture
def pair(database: Database) -> tuple[str, str]:
    """A run with Q8_0, and one with Q4_K_M that is a fifth faster."""
    q8, q4 = place(database)
    return run(database, q8, timed(500, 50)), run(database, q4, timed(400, 60), hours=1)


@on_both
def test_what_differs_comes_with_ratios_and_verdicts(database: Database, pair: tuple[str, str]) -> None:
    comparison = compared(database, *pair)
    assert [(difference.title, difference.values) for difference in comparison.differences] == [
        ("Quantization", ("Q8_0", "Q4_K_M"))
    ]
    assert comparison.pairs[0].differing_settings == ("Quantization Q8_0 → Q4_K_M",)
    assert comparison.pairs[0].verdict == "better"
    ttft, _, decode = comparison.main_rows
    assert (ttft.metric, ttft.better, ttft.source) == ("ttft_ms", "lower", "client")
    first, second = ttft.cells
    assert first.value == pytest.approx(500)
    assert (first.count, first.ratio) == (5, None)
    assert second.ratio is not None
    assert second.ratio.value == pytest.approx(0.8)
    assert second.ratio.verdict is Verdict.BETTER
    assert decode.cells[1].ratio is not None
    assert decode.cells[1].ratio.value == pytest.approx(1.2, rel=0.05)


def test_the_other_way_round_it_is_worse(database: Database, pair: tuple[str, str]) -> None:
    assert compared(database, *pair[::-1]).pairs[0].verdict == "worse"


def test_its_document_is_plain_json(database: Database, pair: tuple[str, str]) -> None:
    document = to_json(compared(database, *pair))
    assert document["schema"] == "roofmark.compare/2"
    assert json.loads(json.dumps(document, allow_nan=False))["pairs"][0]["verdict"] == "better"


def test_several_differences_are_about_all_of_them(database: Database) -> None:
    first, second = place(database, Q8, replace(Q4, settings={"context": 8192}, labels=["night"]))
    comparison = compared(database, run(database, first, timed(500, 50)), run(database, second, timed(400, 60)))
    titles = [difference.title for difference in comparison.differences]
    assert titles == ["Quantization", "Context", "Labels"]
    assert len(comparison.pairs[0].differing_settings) == 3
    assert comparison.pairs[0].verdict == "better"


def cards(
    count: int, name: str = "RTX 3090", memory_bytes: int = 24 * 10**9, bandwidth: float | None = None
) -> list[dict[str, Any]]:
    stated = [BandwidthValue(bandwidth, "measured")] if bandwidth else []
    return freeze_devices([MachineDevice(name, "accelerator", count, memory_bytes, stated)])


def test_machine_and_hardware_differ_only_where_they_are_known(database: Database) -> None:
    (local,), (tower,) = place(database, Q8), place(database, Q8, name="tower")
    first, second = (
        run(database, local, timed(500, 50)),
        run(database, tower, timed(500, 50), hardware=cards(2)),
    )
    assert [difference.title for difference in compared(database, first, second).differences] == ["Machine", "Server"]
    change(database, first, hardware=cards(1))
    hardware = compared(database, first, second).differences[1]
    assert hardware.values == ("RTX 3090 24.0 GB", "2 × RTX 3090 24.0 GB")
    assert hardware.is_setting
    # what a newer driver keeps for itself, and a measured bandwidth, are no other card
    change(database, first, hardware=cards(2, memory_bytes=int(23.8e9), bandwidth=936e9))
    assert [difference.title for difference in compared(database, first, second).differences] == ["Machine", "Server"]


def test_the_same_configuration_again(database: Database) -> None:
    (q8,) = place(database, Q8)
    calm_history(database, q8)
    comparison = compared(database, run(database, q8, timed(500, 50)), run(database, q8, timed(501, 50)))
    assert (comparison.differences, comparison.pairs[0].differing_settings) == ((), ())
    assert comparison.main_rows[0].cells[1].ratio is not None
    assert comparison.main_rows[0].cells[1].ratio.verdict is Verdict.SAME


# --- no verdict, but a reason ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"suite_key": "lengths", "suite_sha256": "b" * 64}, "different suites: triple and lengths"),
        ({"suite_sha256": "b" * 64}, "changed between them"),
        ({"status": "failed"}, "failed before it was finished"),
        ({"status": "interrupted"}, "was interrupted before it was finished"),
        ({"status": "queued"}, "not finished yet"),
        ({"hidden_at": now(), "hidden_reason": "A browser was open."}, "hidden from statistics: A browser was open."),
    ],
)
@pytest.mark.parametrize("place_of_it", [0, 1])
def test_what_cannot_be_compared_says_why(
    database: Database, pair: tuple[str, str], fields: dict[str, Any], reason: str, place_of_it: int
) -> None:
    change(database, pair[place_of_it], **fields)
    comparison = compared(database, *pair)
    assert comparison.pairs[0].verdict is None
    expected = reason if place_of_it or "suites" not in reason else "different suites: lengths and triple"
    assert expected in comparison.pairs[0].reason_not_comparable
    assert ".." not in comparison.pairs[0].reason_not_comparable
    if refused := comparison.subjects[place_of_it].reason_not_comparable:
        assert {row.cells[place_of_it].reason for point_rows in comparison.points for row in point_rows.rows} == {
            refused
        }
    assert not any(cell.ratio for point_rows in comparison.points for row in point_rows.rows for cell in row.cells)


def test_a_run_without_samples(database: Database, pair: tuple[str, str]) -> None:
    (empty_config,) = place(database, Q8, name="empty")
    empty = run(database, empty_config, [])
    assert "has no samples" in compared(database, pair[0], empty).pairs[0].reason_not_comparable


def test_a_run_whose_samples_are_all_left_out(database: Database, pair: tuple[str, str]) -> None:
    (busy,) = place(database, Q8, name="busy")
    spoiled = [replace(sample, flags=("concurrent",)) for sample in timed(500, 50)]
    comparison = compared(database, pair[0], run(database, busy, spoiled))
    assert comparison.pairs[0].verdict is None
    assert "No sample was free of disqualifying flags." in comparison.pairs[0].reason_not_comparable


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        (Workload(512, 64), "output length is 64 here, not 32"),
        (Workload(512, 32, concurrency=4), "concurrency is 4 here, not 1"),
        (Workload(512, 32, depth=2000), "depth is 2,000 here, not 0"),
        (Workload(2000, 32), "did not measure this point"),
    ],
)
def test_points_must_agree(database: Database, point: Workload, reason: str) -> None:
    q8, q4 = place(database)
    comparison = compared(database, run(database, q8, timed(500, 50)), run(database, q4, timed(400, 60, point)))
    assert reason in comparison.pairs[0].reason_not_comparable
    assert not any(cell.ratio for point_rows in comparison.points for row in point_rows.rows for cell in row.cells)


def test_common_points_are_compared_though_one_lacks_others(database: Database) -> None:
    q8, q4 = place(database)
    longer = Workload(2000, 32)
    first = run(
        database,
        q8,
        [*timed(500, 50), *(replace(s, ordinal=s.ordinal + 6) for s in timed(2000, 45, longer))],
    )
    comparison = compared(database, first, run(database, q4, timed(400, 60)))
    assert comparison.pairs[0].verdict == "better"
    assert [point_rows.point for point_rows in comparison.points] == [POINT, longer]
    assert [point_rows.point for point_rows in comparison.shared_points] == [POINT]
    assert "did not measure" in comparison.points[1].rows[0].cells[1].reason


def test_answers_of_another_length_are_not_compared(database: Database) -> None:
    q8, q4 = place(database)
    short = [
        replace(sample, trace=replace(sample.trace, output_tokens=20, finish_reason="stop"))
        for sample in timed(400, 60)
    ]
    comparison = compared(database, run(database, q8, timed(500, 50)), run(database, q4, short))
    assert "differ in length: 32 and 20 tokens" in comparison.pairs[0].reason_not_comparable


def test_figures_are_compared_from_one_source_only(database: Database) -> None:
    q8, q4 = place(database)
    client_only = [replace(sample, trace=replace(sample.trace, server=None)) for sample in timed(400, 60)]
    comparison = compared(database, run(database, q8, timed(500, 50)), run(database, q4, client_only))
    prefill = comparison.main_rows[1]
    assert prefill.source == "client"
    assert all(cell.value for cell in prefill.cells)


def ttft_beside_baseline(database: Database, base: str, compared_id: str) -> Ratio | None:
    with database.write() as session:
        baselines.pin(session, base)
        standing = compare_with_baseline(session, compared_id)
    assert standing is not None
    return standing.ratios["ttft_ms"]


def test_streams_of_one_round_are_one_repetition(database: Database) -> None:
    q8, q4 = place(database)
    busy = Workload(512, 32, concurrency=2)

    def rounds(ttft_ms: float) -> list[Sample]:
        taken_twice = [sample for sample in timed(ttft_ms, 40, busy) for _ in range(2)]
        return [
            replace(sample, ordinal=place, round=place // 2, stream=place % 2)
            for place, sample in enumerate(taken_twice)
        ]

    names = run(database, q8, rounds(500)), run(database, q4, rounds(400), hours=1)
    comparison = compared(database, *names)
    assert [cell.count for cell in comparison.main_rows[0].cells] == [5, 5]
    assert comparison.pairs[0].verdict == "better"
    assert ttft_beside_baseline(database, *names) == comparison.main_rows[0].cells[1].ratio


def test_what_was_meant_to_come_from_the_cache_is_no_repetition(database: Database) -> None:
    q8, q4 = place(database)
    again = [replace(sample, ordinal=sample.ordinal + 6, reuses_cache=True) for sample in timed(20, 50)]
    names = (
        run(database, q8, [*timed(500, 50), *again]),
        run(database, q4, [*timed(400, 60), *again], hours=1),
    )
    comparison = compared(database, *names)
    assert [cell.count for cell in comparison.main_rows[0].cells] == [5, 5]
    assert ttft_beside_baseline(database, *names) == comparison.main_rows[0].cells[1].ratio


def test_more_repetitions_prove_nothing_about_the_next_run(database: Database) -> None:
    """The worst fault: two runs of one configuration, each very precise, 4 % apart."""
    (q8,) = place(database, Q8)
    names = [run(database, q8, timed(500 * k, 50 / k, noise=QUIET * 4)) for k in (1, 1.04)]
    comparison = compared(database, *names)
    decode = comparison.main_rows[2].cells[1]
    assert (comparison.pairs[0].verdict, decode.count) == ("inconclusive", 20)
    assert decode.ratio is not None
    assert decode.ratio.low < 1 < decode.ratio.high
    assert decode.ratio.additional_runs_needed is not None


def test_the_scatter_is_that_of_the_notebook(database: Database) -> None:
    q8, q4 = place(database)
    names = run(database, q8, timed(500, 50), hours=1), run(database, q4, timed(490, 51), hours=2)
    assumed = compared(database, *names)
    without = assumed.main_rows[2].cells[1].scatter
    assert without is not None
    assert (without.between_variance, without.degrees_of_freedom, without.assumed_deviation) == (0.02**2, 4, 0.02)
    assert "No history yet: runs of one configuration are assumed to differ by" in scatter_words(
        assumed.main_scatters(1)
    )
    calm_history(database, q8)
    measured = compared(database, *names)
    scatter = measured.main_rows[2].cells[1].scatter
    assert scatter is not None
    assert (scatter.configurations, scatter.runs, scatter.degrees_of_freedom) == (1, 10, 9)
    assert scatter.assumed_deviation is None
    assert scatter.history_deviation == pytest.approx(0.0026, rel=0.2)
    assert "differ by 0.2" in scatter_words(measured.main_scatters(1))
    assert "here (1 configuration, 10 runs)." in scatter_words(measured.main_scatters(1))


@pytest.mark.parametrize(("unrest", "is_borrowed"), [(1, False), (20, True)])
def test_a_machine_without_history_borrows_that_of_less_steady_ones(
    database: Database, unrest: float, is_borrowed: bool
) -> None:
    """That another machine is steadier than is assumed says nothing about this one."""
    (q8,), (elsewhere,) = place(database, Q8), place(database, Q8, name="tower")
    for hour, factor in enumerate(CALM):
        factor = 1 + unrest * (factor - 1)
        run(database, q8, timed(500 * factor, 50 / factor), hours=hour - 24)
    names = [run(database, elsewhere, timed(ttft, 25000 / ttft), hours=ttft) for ttft in (500, 485)]
    comparison = compared(database, *names)
    assert comparison.pairs[0].verdict == "inconclusive"
    scatters = comparison.main_scatters(1)
    assert [scatter.is_elsewhere for scatter in scatters.values()] == [is_borrowed] * 3
    assert ("on other machines (1 configuration, 10 runs)" in scatter_words(scatters)) is is_borrowed
    assert ("No history yet" in scatter_words(scatters)) is not is_borrowed


def test_the_scatter_of_two_machines_is_said_of_each(database: Database) -> None:
    (q8,), (elsewhere,) = place(database, Q8), place(database, Q4, name="tower")
    calm_history(database, q8)
    comparison = compared(database, run(database, q8, timed(500, 50)), run(database, elsewhere, timed(300, 80)))
    base_words, tower_words = pair_scatter_words(comparison, 1).split(" On tower: ")
    assert base_words.startswith("On strix-halo: Runs of one configuration differ by 0.2")
    assert tower_words.startswith("No history yet: ")


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ({"cpu_load_share_before": 0.53}, "this machine was busy before the run (53 %)"),
        ({"unsound": [{"kind": "server_shared"}]}, "the server worked for somebody else"),
    ],
)
@pytest.mark.parametrize("disturbed", [0, 1])
def test_a_disturbed_run_caps_the_verdict(
    database: Database, evidence: dict[str, Any], reason: str, disturbed: int
) -> None:
    q8, q4 = place(database)
    names = [run(database, q8, timed(500, 50)), run(database, q4, timed(100, 300), hours=1)]
    assert compared(database, *names).pairs[0].verdict == "better"
    change(database, names[disturbed], evidence=evidence)
    comparison = compared(database, *names)
    assert comparison.pairs[0].verdict == "inconclusive"
    assert reason in comparison.pairs[0].unsound[0]
    assert {ratio.verdict for ratio in comparison.main_ratios(1)} == {Verdict.INCONCLUSIVE}
    with database.write() as session:
        baselines.pin(session, names[0])
    with database.read() as session:
        against = compare_with_baseline(session, names[1])
    assert against is not None
    assert (against.verdict, against.unsound) == ("inconclusive", comparison.pairs[0].unsound)


def test_a_run_whose_repetitions_differ_widely_caps_it_too(database: Database) -> None:
    q8, q4 = place(database)
    noisy = timed(500, 50, noise=(1, 1.3, 0.7, 1.2, 0.8))
    comparison = compared(database, run(database, q8, noisy), run(database, q4, timed(50, 500)))
    assert comparison.pairs[0].verdict == "inconclusive"
    assert any("within the run" in reason for reason in comparison.pairs[0].unsound)


def test_disturbed_runs_are_no_history_and_leave_a_configuration_to_its_others(database: Database) -> None:
    q8, q4 = place(database)
    calm = calm_history(database, q8)
    wild = run(database, q8, timed(5000, 5), hours=-1, evidence={"cpu_load_share_before": 0.9})
    steady = run(database, q4, timed(500, 50))
    comparison = compared(database, f"config:{wild}", steady)
    assert set(comparison.subjects[0].runs) == set(calm)
    assert (comparison.pairs[0].verdict, comparison.pairs[0].unsound) == ("same", ())


def test_what_counts_as_the_same_can_be_chosen(database: Database) -> None:
    q8, q4 = place(database)
    calm_history(database, q8)
    names = run(database, q8, timed(500, 50)), run(database, q4, timed(490, 51), hours=1)
    assert compared(database, *names).pairs[0].verdict == "same"
    with database.read() as session:
        strict = compare(session, names, {}, limit=0.005)
        assert (strict.pairs[0].verdict, strict.same_within) == ("better", 0.005)
    with Database(str(database.url), {"same_within": 0.005}).read() as session:
        assert compare(session, names, {}).pairs[0].verdict == "better"


def test_only_the_main_point_decides(database: Database) -> None:
    q8, q4 = place(database)
    calm_history(database, q8)
    longer = Workload(2000, 32)

    def samples(decode: float) -> list[Sample]:
        others = timed(2000, decode, longer)
        return [*timed(500, 50), *(replace(sample, ordinal=sample.ordinal + 6) for sample in others)]

    comparison = compared(database, run(database, q8, samples(45)), run(database, q4, samples(20)))
    assert comparison.pairs[0].verdict == "same"
    (decode,) = [
        row
        for point_rows in comparison.points
        if point_rows.point == longer
        for row in point_rows.rows
        if row.metric == HEADLINE_METRICS[2]
    ]
    assert decode.cells[1].ratio is not None
    assert decode.cells[1].ratio.verdict is Verdict.WORSE


def test_unknown_settings_are_named_and_then_nothing_is_the_same_thing_again(database: Database) -> None:
    q8, q4 = place(database, Q8, replace(Q8, settings={"context": 8192}))
    names = run(database, q8, timed(500, 50)), run(database, q4, timed(490, 51), hours=1)
    pair = compared(database, *names).pairs[0]
    assert pair.differing_settings == ("Context 4,096 → 8,192",)
    assert "KV cache type K" in pair.unknown_settings
    assert "Context" not in pair.unknown_settings
    text = verdict_subject_text(pair.differing_settings, pair.unknown_settings)
    assert "one setting only" not in text
    assert "Unknown on at least one side" in text
    assert text.count(",") < 2 * MAX_NAMED_SETTINGS
    assert f"and {len(pair.unknown_settings) - MAX_NAMED_SETTINGS + 1} more settings." in text
    few = verdict_subject_text((), ("Threads", "Batch"))
    assert few.endswith("Unknown on at least one side, so possibly different too: threads and batch.")
    assert "measured again" not in verdict_subject_text((), ("Threads",))


# --- configurations and names ----------------------------------------------------------------------------------------


@pytest.fixture
def many(database: Database) -> dict[str, list[str]]:
    """Three runs of each configuration, and a hidden, a failed one and one of another suite that do not count."""
    q8, q4 = place(database)
    made = {
        "Q8_0": [run(database, q8, timed(500 + n, 50), hours=n) for n in range(3)],
        "Q4_K_M": [run(database, q4, timed(400 + n, 60), hours=n + 10) for n in range(3)],
    }
    run(database, q8, timed(900, 5), hours=20, hidden_at=now())
    run(database, q8, timed(900, 5), hours=21, status="failed")
    run(database, q8, timed(900, 5), hours=22, suite_sha256="c" * 64)
    return made


@on_both
def test_configurations_are_compared_by_the_medians_of_their_runs(
    database: Database, many: dict[str, list[str]]
) -> None:
    comparison = compared(database, f"config:{many['Q8_0'][0]}", f"config:{many['Q4_K_M'][1]}")
    assert [subject.unit for subject in comparison.subjects] == ["run", "run"]
    assert [set(subject.runs) for subject in comparison.subjects] == [set(many["Q8_0"]), set(many["Q4_K_M"])]
    assert comparison.subjects[0].data_source == "The newest 3 runs of this configuration; each counts once."
    first, second = comparison.main_rows[0].cells
    assert first.value == pytest.approx(501)
    assert first.count == 3
    assert second.ratio is not None
    assert second.ratio.verdict is Verdict.BETTER
    assert all(ceiling.reason for ceiling in comparison.ceilings)
    assert all(distribution.gaps for distribution in comparison.distributions)


def test_a_configuration_can_be_compared_with_a_run(database: Database, many: dict[str, list[str]]) -> None:
    comparison = compared(database, f"config:{many['Q8_0'][0]}", many["Q4_K_M"][0])
    assert [subject.unit for subject in comparison.subjects] == ["run", "repetition"]
    assert [len(subject.runs) for subject in comparison.subjects] == [3, 1]
    assert comparison.pairs[0].verdict == "better"


def test_runs_on_other_hardware_are_not_taken_together(database: Database, many: dict[str, list[str]]) -> None:
    before, now_ = cards(1), cards(1, "RTX 4090")
    change(database, many["Q8_0"][0], hardware=before)
    names = f"config:{many['Q8_0'][0]}", f"config:{many['Q4_K_M'][0]}"
    assert len(compared(database, *names).subjects[0].runs) == 3
    change(database, many["Q8_0"][2], hardware=now_)
    assert compared(database, *names).subjects[0].runs == (many["Q8_0"][2], many["Q8_0"][1])


@on_both
def test_words_name_runs(database: Database, many: dict[str, list[str]]) -> None:
    with database.write() as session:
        baselines.pin(session, many["Q8_0"][1])
    newest = many["Q4_K_M"][2]
    with database.read() as session:
        newest_of_all = session.exec(select(Run).where(Run.suite_sha256 == "c" * 64)).one().public_id
    change(database, newest_of_all, hidden_at=now())
    names = ("previous", "baseline", "latest")
    assert [subject.public_id for subject in compared(database, *names).subjects] == [
        many["Q8_0"][2],
        many["Q8_0"][1],
        newest,
    ]
    assert compared(database, "baseline", many["Q4_K_M"][0]).subjects[0].public_id == many["Q8_0"][1]


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ((), BadInput, "takes 2 to 8 runs"),
        (("{0}",), BadInput, "takes 2 to 8 runs"),
        (("{0}",) * 9, BadInput, "takes 2 to 8 runs, not 9"),
        (("{0}", "{0}"), BadInput, "named twice"),
        (("{0}", "config:{0}"), BadInput, "are the same"),
        (("{0}", "nonesuch"), NotFound, "no run 'nonesuch'"),
        (("{0}", "config:nonesuch"), NotFound, "no run 'nonesuch'"),
        (("baseline", "{0}"), NotFound, "has no baseline"),
        (("previous", "{0}"), NotFound, "no other configuration"),
    ],
)
def test_names_that_make_no_comparison(
    database: Database, pair: tuple[str, str], names: tuple[str, ...], error: type[RoofmarkError], message: str
) -> None:
    with pytest.raises(error, match=message):
        compared(database, *(name.format(*pair) for name in names))


def test_latest_without_any_run(database: Database) -> None:
    with pytest.raises(NotFound, match="no finished run yet"):
        compared(database, "previous", "latest")


def test_any_metric_can_be_compared(database: Database, pair: tuple[str, str]) -> None:
    comparison = compared(database, *pair, keys=("tpot_ms", "itl_ms_p99"))
    assert [row.metric for row in comparison.main_rows] == ["tpot_ms", "itl_ms_p99"]
    assert comparison.pairs[0].verdict in ("better", "inconclusive", "mixed")
    with pytest.raises(BadInput, match="no metric 'speed'"):
        compared(database, *pair, keys=("speed",))


def test_what_has_no_ratio_says_why(database: Database) -> None:
    q8, q4 = place(database)
    none_accepted = ServerFigures(draft_tokens=9, draft_accepted_tokens=0)
    drafted = [replace(sample, trace=replace(sample.trace, server=none_accepted)) for sample in timed(500, 50)]
    names = run(database, q8, drafted), run(database, q4, drafted)
    comparison = compared(database, *names, keys=("draft_acceptance",))
    assert comparison.pairs[0].verdict is None
    assert "positive values" in comparison.pairs[0].reason_not_comparable


@pytest.mark.parametrize("prefix", ["", "config:"])
def test_eight_of_them_take_few_queries(database: Database, prefix: str) -> None:
    with database.write() as session:
        ids = seed(session, runs=24, detailed=24)
        by_config: dict[int | None, str] = {
            comparison.config_id: comparison.public_id
            for comparison in session.exec(select(Run).where(Run.suite_key == "triple"))
        }
    names = ids[-8:] if not prefix else [f"config:{public_id}" for public_id in by_config.values()]
    assert statements(database, lambda session: compare(session, names, {})) <= 13


@pytest.mark.parametrize(
    ("ids", "titles"),
    [
        (["gpu0/Qwen3-8B", "cpu/Qwen3-8B"], ["gpu0/Qwen3-8B Q8_0", "cpu/Qwen3-8B Q8_0"]),
        (["Qwen3-8B", "Qwen3-8B"], ["Qwen3-8B Q8_0", "Qwen3-8B Q8_0"]),
    ],
)
def test_namesakes_have_their_whole_ids_as_titles(database: Database, ids: list[str], titles: list[str]) -> None:
    snapshots = [
        replace(Q8, settings={"context": 4096 * place, "model_id": model_id}) for place, model_id in enumerate(ids)
    ]
    runs = [run(database, config, timed(500, 50)) for config in place(database, *snapshots)]
    assert [subject.title for subject in compared(database, *runs).subjects] == titles
