"""Times of 10 s or more are read in seconds or minutes; what programs read stays in milliseconds."""

import math

import pytest
from starlette.testclient import TestClient

from app.core.samples import Workload
from app.core.units import format_quantity, format_under, pair_parts, unit_factor
from app.db.database import Database
from tests.seed import made_sample
from tests.web.notebook import add_run, read, text_of

TTFT_MS = 12_345.0
IN_MS = {"ms": 1.0, "s": 1000.0, "min": 60_000.0}


@pytest.fixture
def slow(database: Database, run: str) -> str:
    point = Workload(32_000, 16)
    return add_run(database, [made_sample(n, point, TTFT_MS + 20 * n, 5.0) for n in range(3)], suite_key="depth")


def test_pages_give_seconds_and_documents_milliseconds(client: TestClient, slow: str) -> None:
    text = read(client, slow)
    assert "12.4 ± 0.0 s" in text or "12.4 s" in text or "12.4 ± 0.02 s" in text
    assert "12,3" not in text.partition("Samples")[0]
    assert "12.4 s" in text_of(client.get("/runs").text)
    assert "TTFT 12.4 s" in text_of(client.get("/").text)
    (metric,) = [
        metric
        for point in client.get(f"/api/v1/runs/{slow}").json()["points"]
        for metric in point["metrics"]
        if metric["key"] == "ttft_ms"
    ]
    assert metric["value"] == pytest.approx(TTFT_MS + 20, rel=1e-3)


@pytest.mark.parametrize("value", [0.5, 9_999.0, 10_000.0, 10_049.0, 59_900.0, 599_000.0, 600_000.0, 7.3e6])
def test_a_time_reads_as_what_it_is(value: float) -> None:
    figure, unit = format_quantity(value, "ms").split(" ")
    assert float(figure.replace(",", "")) * IN_MS[unit] == pytest.approx(value, rel=0.006)
    assert (unit == "ms") is (value < 10_000)
    assert format_under(value, "ms") == (figure if unit == "ms" else f"{figure} {unit}")


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_no_number_keeps_its_unit(value: float | None) -> None:
    assert unit_factor(value, "ms") == (1.0, "ms")


def test_two_values_share_the_unit_of_the_larger() -> None:
    assert pair_parts(500.0, 400.0, "ms") == ("500", "400", "ms")
    assert pair_parts(5_000.0, 20_000.0, "ms") == ("5.00", "20.0", "s")
    assert pair_parts(50_000.0, 20_000.0, "tok/s") == ("50,000", "20,000", "tok/s")
