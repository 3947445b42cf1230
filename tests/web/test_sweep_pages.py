"""A run with several streams, one with a cached prompt, and one during which the sensors were watched."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from sqlmodel import select

from app.cli.text import run_text
from app.core.i18n import as_sentence
from app.core.samples import Sample, Workload
from app.core.settings import Settings
from app.db.database import Database
from app.db.tables import Model
from app.metrics import flags_of
from app.results.compare import compare
from app.schemas.run_document import run_document
from app.share.run import snapshot
from tests.seed import made_sample, seed
from tests.web.notebook import add_run, pages, text_of

SENSORS = {
    "at_ms": [0, 500, 1000, 1500, 2000],
    "values": {"gpu0.power_w": [200.0] * 5, "cpu_load_percent": [10.0] * 5},
    "throttles": ["gpu0: temperature"],
}


@pytest.fixture
def client(settings: Settings, database: Database) -> Iterator[TestClient]:
    with database.write() as session:
        seed(session, runs=2, detailed=0)
    with pages(settings) as client:
        yield client


def streams(count: int, ttft_ms: float) -> list[Sample]:
    made = [made_sample(n, Workload(512, 128, count), ttft_ms + n, 50.0) for n in range(3 * count)]
    return [replace(sample, round=n // count, stream=n % count) for n, sample in enumerate(made)]


def numbered(*groups: list[Sample]) -> list[Sample]:
    return [
        replace(one_sample, ordinal=n) for n, one_sample in enumerate(sample for group in groups for sample in group)
    ]


def test_streams_at_once_have_a_figure_under_the_readers_limits(client: TestClient, database: Database) -> None:
    run = add_run(database, numbered(streams(1, 300), streams(4, 450)), suite_key="concurrency")
    page = text_of(client.get(f"/runs/{run}").text)
    assert "Up to 4 streams every request kept within the limits: TTFT of 500 ms and TPOT of 50.0 ms." in page
    assert "Goodput" in page
    strict = text_of(client.get(f"/runs/{run}?slo_ttft_ms=400&slo_tpot_ms=").text)
    assert "Up to 1 stream every request kept within the limits: TTFT of 400 ms and TPOT of 50.0 ms." in strict
    none = text_of(client.get(f"/runs/{run}?slo_tpot_ms=1").text)
    assert "With 1 stream already, not every request kept within the limits" in none


@pytest.mark.parametrize("limit", ["fast", "-1", "0", "inf", "nan", "1e99", "<script>"])
def test_limits_that_are_none_are_a_sentence(client: TestClient, database: Database, limit: str) -> None:
    run = add_run(database, numbered(streams(2, 300)), suite_key="concurrency")
    answer = client.get(f"/runs/{run}", params={"slo_ttft_ms": limit})
    assert answer.status_code == 422
    assert "The limit of TTFT must be" in text_of(answer.text)


def test_lone_streams_have_no_such_section(client: TestClient, database: Database) -> None:
    page = client.get(f"/runs/{add_run(database, numbered(streams(1, 300)))}").text
    assert "Several streams at once" not in page
    assert "System metrics during the run" not in page


def test_decode_against_context_has_a_chart_where_no_ceiling_is_known(client: TestClient, database: Database) -> None:
    points = (Workload(128, 32), Workload(2000, 32), Workload(8000, 32))
    samples = [made_sample(n, point, 300.0, 50.0 - 10 * n) for n, point in enumerate(points)]
    with database.write() as session:
        for model in session.exec(select(Model)):
            model.geometry = {"parameters": 30}
    deep = text_of(client.get(f"/runs/{add_run(database, samples, suite_key='depth')}").text)
    assert " tok/s with 144 tokens in the cache on average, 30.0 with 8,016: −" in deep
    alone = text_of(client.get(f"/runs/{add_run(database, samples[:1])}").text)
    assert "in the cache on average" not in alone


def test_sensors_stand_below_the_tokens_and_give_energy(client: TestClient, database: Database) -> None:
    samples = [replace(sample, sensors=SENSORS) for sample in streams(1, 300)]
    page = text_of(client.get(f"/runs/{add_run(database, numbered(samples))}").text)
    assert "System metrics during the run" in page
    assert "5 readings of the machine's sensors during sample" in page
    assert "Energy per token" in page


def test_energy_stands_beside_a_comparison_and_counts_in_no_verdict(client: TestClient, database: Database) -> None:
    def watched(watts: float) -> list[Sample]:
        sensors = {"at_ms": SENSORS["at_ms"], "values": {"gpu0.power_w": [watts] * 5}, "throttles": []}
        return [replace(sample, sensors=sensors) for sample in streams(1, 300)]

    calm, hungry, bare = (add_run(database, samples) for samples in (watched(100), watched(400), streams(1, 300)))
    both = text_of(client.get(f"/compare?run={calm}&run={hungry}").text)
    assert "Energy per token J" in both
    compare_text = text_of(client.get(f"/compare?run={calm}&run={bare}").text)
    assert "Energy per token" not in compare_text
    with database.read() as session:
        comparison = compare(session, [calm, hungry], {})
    assert {ratio.verdict for ratio in comparison.main_ratios(1)} == {comparison.pairs[0].verdict}, "energy is apart"
    (row,) = [row for row in comparison.points[0].extra_rows if row.metric == "joules_per_output_token"]
    assert row.cells[1].ratio is not None
    assert row.cells[1].ratio.value == pytest.approx(4, rel=0.2)


def test_limits_are_the_same_on_every_surface(client: TestClient, database: Database) -> None:
    """Page, JSON, terminal and share tell the same evidence, what to change first in front."""
    run = add_run(database, streams(1, 300), evidence={"cpu_load_share_before": 0.9})
    with database.read() as session:
        document, shared = run_document(session, run), snapshot(session, run)
    limits = document["points"][0]["limits"]["found"]
    assert limits[0]["key"] == "busy_cpu"
    page, terminal = text_of(client.get(f"/runs/{run}").text), run_text(document)
    assert "Change this first: Stop what else runs on this machine" in page
    (table,) = [figure for figure in shared.figures if figure.title.startswith("What limits it")]
    assert [row[1] for row in table.rows] == [limit["sentence"] for limit in limits]
    for limit in limits:
        assert limit["sentence"] in page
        for text in (page, terminal, str(table.rows)):
            assert as_sentence(limit["evidence"]) in text


def test_what_is_not_known_is_said(client: TestClient, database: Database) -> None:
    bare = [replace(sample, trace=replace(sample.trace, server=None)) for sample in streams(1, 300)]
    run = add_run(database, bare, evidence={"no_sensors": "elsewhere"})
    page = text_of(client.get(f"/runs/{run}").text)
    assert "TTFT: the server does not state how long it worked on the prompt" in page
    assert "the server is not on the machine that Roofmark runs on" in page
    with database.read() as session:
        assert "TTFT: the server does not state" in run_text(run_document(session, run))


def test_a_cached_prompt_has_a_ttft_of_its_own(client: TestClient, database: Database) -> None:
    point = Workload(2000, 32)
    fresh = [made_sample(n, point, 800.0, 50.0) for n in range(3)]
    reused = [replace(made_sample(n, point, 90.0, 50.0), reuses_cache=True) for n in range(3)]
    reused = [replace(sample, trace=replace(sample.trace, cached_tokens=1990)) for sample in reused]
    samples = [replace(sample, flags=flags_of(sample)) for sample in numbered(fresh, reused)]
    run = add_run(database, samples, suite_key="cache")
    assert "90.0 ± 0 ms · Prompt cached" in text_of(client.get(f"/runs/{run}").text)
    answer = client.get(f"/api/v1/runs/{run}").json()
    (point_found,) = answer["points"]
    metrics = {metric["key"]: metric for metric in point_found["metrics"] if metric["source"] == "client"}
    assert metrics["ttft_ms"]["value"] == pytest.approx(800)
    assert metrics["ttft_reused_ms"]["value"] == pytest.approx(90)
    assert metrics["ttft_reused_ms"]["samples"] == 3
