"""A run's page shows its ceiling, what was reached of it, and the next step where there is none."""

import re
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from app.db import Database
from app.models import Config, Model
from app.settings import Settings
from app.store import machines
from tests.seed import seed
from tests.web.notebook import pages
from tests.web.test_run_page import read


@pytest.fixture
def client(settings: Settings, database: Database) -> Iterator[TestClient]:
    with pages(settings) as client:
        yield client


@pytest.fixture
def run(database: Database) -> str:
    """A run of Qwen3-30B-A3B in Q8_0 on one card of 256 GB/s and 59 TFLOP/s."""
    with database.write() as session:
        return seed(session, runs=1, configs_used=1, detailed=1)[0]


def test_ceilings_with_their_arithmetic_and_sources(client: TestClient, run: str) -> None:
    said = read(client, run)
    assert re.search(r"Decode ceiling ([\d.]+) tok/s [\d.]+ % reached, MBU \1 tok/s = 256 GB/s / [\d.]+ GB", said)
    assert re.search(r"[\d.]+ GB = [\d.]+ GB weights \+ [\d.]+ MB KV cache", said)
    assert re.search(r"Prefill ceiling [\d,]+ tok/s .*TTFT no sooner than [\d.]+ ms; it was [\d.]+ ms", said)
    assert "256 GB/s from the catalogue" in said
    assert "30.5 B parameters, 8.50 bits each from its config.json" in said
    assert "the type of the KV cache is not stated, so f16 is counted" in said


def test_without_a_bandwidth_the_machine_is_the_next_step(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        config = session.get_one(Config, 1)
        config.settings = {"cards": 0}
        session.add(config)
    page = client.get(f"/runs/{run}").text
    assert "No ceiling.</strong> The bandwidth of the machine&#39;s memory is unknown. Measure it, or type it." in page
    assert 'href="/machines/strix-halo">Open strix-halo</a>' in page


def test_without_a_geometry_the_calculator_is_the_next_step(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        model = session.get_one(Model, 1)
        model.geometry = {"parameters": 30}
        session.add(model)
    assert "No ceiling. How many bytes the model reads for a token is unknown" in read(client, run)


def test_a_missing_peak_costs_only_the_prefill_side(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        machine = machines.machine(session, "strix-halo")
        cards = [{**card, "compute_flops_per_s": None} for card in machine.accelerators]
        machines.edit_machine(session, "strix-halo", accelerators=cards)
    said = read(client, run)
    assert "Decode ceiling" in said
    assert "The peak compute of Radeon 8060S is unknown, so there is no prefill ceiling and no TTFT floor." in said


def test_more_than_all_is_shown_and_explained(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        machine = machines.machine(session, "strix-halo")
        cards = [{**card, "bandwidth_bytes_per_s": 50e9} for card in machine.accelerators]
        machines.edit_machine(session, "strix-halo", accelerators=cards)
    said = read(client, run)
    share = re.search(r"([\d.]+) % reached, MBU", said)
    assert share is not None
    assert float(share[1]) > 100
    assert "Faster than its ceiling: one of these must be wrong" in said
    assert "the bandwidth taken for this machine is too low" in said


def test_where_the_time_goes_and_what_would_it_take(client: TestClient, run: str) -> None:
    said = read(client, run)
    assert re.search(r"One token's [\d.]+ ms .* Weights [\d.]+ ms .* KV cache [\d.]+ ms .* Remaining loss", said)
    assert re.search(r"Q6_K weights [\d.]+ [\d.]+ to [\d.]+", said)
    assert "Decode against context The ceiling is" in said


def test_lists_show_the_share_of_the_ceiling(client: TestClient, run: str) -> None:
    for path in ("/", "/machines/strix-halo"):
        page = client.get(path).text
        assert "of ceiling" in page
        assert re.search(rf'href="/runs/{run}#roof-title" title="[\d.]+ tok/s = 256 GB/s / [\d.]+ GB"', page)
    assert '"role":"roof"' in client.get("/history").text


def test_without_any_ceiling_lists_have_no_column_for_it(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        model = session.get_one(Model, 1)
        model.geometry = {}
        session.add(model)
    assert "of ceiling" not in client.get("/").text
