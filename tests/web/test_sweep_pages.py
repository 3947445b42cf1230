"""A run with several streams, one with a cached prompt, and one during which the sensors were watched."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from app.db import Database
from app.metrics import flags_of
from app.samples import Point, Sample
from app.settings import Settings
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
    made = [made_sample(n, Point(512, 128, count), ttft_ms + n, 50.0) for n in range(3 * count)]
    return [replace(each, round=n // count, stream=n % count) for n, each in enumerate(made)]


def numbered(*groups: list[Sample]) -> list[Sample]:
    return [replace(each, ordinal=n) for n, each in enumerate(sample for group in groups for sample in group)]


def test_streams_at_once_have_a_figure_under_the_readers_limits(client: TestClient, database: Database) -> None:
    run = add_run(database, numbered(streams(1, 300), streams(4, 450)), suite_key="concurrency")
    page = text_of(client.get(f"/runs/{run}").text)
    assert "Up to 4 streams every request kept within the limits: TTFT of 500 ms and TPOT of 50.0 ms." in page
    assert "Goodput" in page
    strict = text_of(client.get(f"/runs/{run}?slo_ttft_ms=400&slo_tpot_ms=").text)
    assert "Up to 1 stream every request kept within the limits: TTFT of 400 ms and TPOT of 50.0 ms." in strict
    none = text_of(client.get(f"/runs/{run}?slo_tpot_ms=1").text)
    assert "With no number of streams" in none


@pytest.mark.parametrize("limit", ["fast", "-1", "0", "inf", "nan", "1e99", "<script>"])
def test_limits_that_are_none_are_a_sentence(client: TestClient, database: Database, limit: str) -> None:
    run = add_run(database, numbered(streams(2, 300)), suite_key="concurrency")
    answer = client.get(f"/runs/{run}", params={"slo_ttft_ms": limit})
    assert answer.status_code == 422
    assert "The limit of TTFT must be" in text_of(answer.text)


def test_lone_streams_have_no_such_section(client: TestClient, database: Database) -> None:
    page = client.get(f"/runs/{add_run(database, numbered(streams(1, 300)))}").text
    assert "Several streams at once" not in page
    assert "The machine meanwhile" not in page


def test_sensors_stand_below_the_tokens_and_give_energy(client: TestClient, database: Database) -> None:
    taken = [replace(each, sensors=SENSORS) for each in streams(1, 300)]
    page = text_of(client.get(f"/runs/{add_run(database, numbered(taken))}").text)
    assert "The machine meanwhile" in page
    assert "5 readings of the machine's sensors during sample" in page
    assert "Energy per token" in page


def test_a_cached_prompt_has_a_ttft_of_its_own(client: TestClient, database: Database) -> None:
    point = Point(2000, 32)
    fresh = [made_sample(n, point, 800.0, 50.0) for n in range(3)]
    reused = [replace(made_sample(n, point, 90.0, 50.0), reuses_cache=True) for n in range(3)]
    reused = [replace(each, trace=replace(each.trace, cached_tokens=1990)) for each in reused]
    taken = [replace(each, flags=flags_of(each)) for each in numbered(fresh, reused)]
    answer = client.get(f"/api/v1/runs/{add_run(database, taken, suite_key='cache')}").json()
    (point_found,) = answer["points"]
    found = {metric["key"]: metric for metric in point_found["metrics"] if metric["source"] == "client"}
    assert found["ttft_ms"]["value"] == pytest.approx(800)
    assert found["ttft_reused_ms"]["value"] == pytest.approx(90)
    assert found["ttft_reused_ms"]["samples"] == 3
