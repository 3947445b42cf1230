"""Memory used: the peak of a request, on GPUs and by the server's processes."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.samples import Sample, Workload
from app.metrics import metrics
from tests.seed import made_sample

GB = 1e9


def sample_with(**values: list[float | None]) -> Sample:
    sensors: dict[str, Any] = {"at_ms": [0, 500, 1000], "values": {n.replace("__", "."): v for n, v in values.items()}}
    return replace(made_sample(0, Workload(512, 128), 500, 50), sensors=sensors)


def read(key: str, sample: Sample) -> list[float | None]:
    return [reading.value for reading in metrics()[key].read([sample])]


def test_the_peak_of_all_cards_together_counts() -> None:
    sample = sample_with(
        gpu0__memory_used_bytes=[10 * GB, 12 * GB, 11 * GB], gpu1__memory_used_bytes=[3 * GB, 1 * GB, 3 * GB]
    )
    assert read("gpu_memory_gb", sample) == [pytest.approx(14)]


def test_a_card_that_only_drives_a_screen_does_not_count() -> None:
    sample = sample_with(
        gpu0__memory_used_bytes=[10 * GB] * 3, gpu0__load_percent=[98, 99, 97],
        gpu1__memory_used_bytes=[2 * GB] * 3, gpu1__load_percent=[1, 0, None],
    )  # fmt: skip
    assert read("gpu_memory_gb", sample) == [pytest.approx(10)]


def test_a_moment_at_which_a_card_said_nothing_does_not_count() -> None:
    sample = sample_with(
        gpu0__memory_used_bytes=[10 * GB, 20 * GB, 11 * GB], gpu1__memory_used_bytes=[3 * GB, None, 3 * GB]
    )
    assert read("gpu_memory_gb", sample) == [pytest.approx(14)]


def test_the_memory_of_the_server_is_a_metric_of_its_own() -> None:
    sample = sample_with(server_memory_bytes=[1 * GB, 5 * GB, None])
    assert read("server_memory_gb", sample) == [pytest.approx(5)]
    assert read("gpu_memory_gb", sample) == []


def test_without_sensors_there_is_no_such_metric() -> None:
    assert read("server_memory_gb", sample_with()) == []
