"""The read probe: what it reads and what it says, with a tiny buffer; never how fast."""

import subprocess
import sys
from dataclasses import replace

import pytest

from app.core.errors import Conflict
from app.hardware import bandwidth
from app.hardware.bandwidth import MIB, buffer_size, remarks, run_benchmark, thread_counts
from tests.hardware.readings import CALM


def test_a_reading_has_a_sweep_a_best_and_a_median_of_all_samples() -> None:
    phases: list[str] = []
    result = run_benchmark(8 * MIB, [1, 2], phases.append, sample_s=0.001)
    assert [step.threads for step in result.sweep] == [1, 2]
    assert result.threads in (1, 2)
    assert result.samples == bandwidth.SWEEP_SAMPLES + bandwidth.FINAL_SAMPLES
    assert result.buffer_bytes == 8 * MIB
    assert 0 < result.median_bytes_per_s <= result.best_bytes_per_s
    assert result.best_bytes_per_s >= max(step.best_bytes_per_s for step in result.sweep)
    assert result.plateau_ratio > 0
    assert len(phases) == 3


def test_the_whole_buffer_is_read_before_any_of_it_is_read_again() -> None:
    matrix = bandwidth._filled_matrix(3 * bandwidth.CHUNK_ROWS * bandwidth.COLUMNS * 4, threads=1)
    (reader,) = bandwidth._readers(matrix, 1)
    places = []
    for _ in range(6):
        places.append(reader._next)
        reader.read(0)
    assert places == [0, 1, 2, 0, 1, 2]
    assert (matrix == 1).all()
    assert all((result == bandwidth.COLUMNS).all() for result in reader._results)


@pytest.mark.parametrize(
    ("llc_mib", "available_mib", "buffer_mib"),
    [
        (32, 24_000, 1024),
        (None, 24_000, 1024),
        (32, 1500, 512),
        (8, 300, 128),
        (1152, 96_000, 16_384),  # half of it is still four caches
        (128, 2500, 1024),
    ],
)
def test_the_buffer_is_beyond_the_cache_and_within_half_of_the_memory(
    llc_mib: int | None, available_mib: int, buffer_mib: int
) -> None:
    chosen = buffer_size(llc_mib * MIB if llc_mib else None, available_mib * MIB)
    assert chosen == buffer_mib * MIB
    assert chosen // 2 >= 4 * (llc_mib or 0) * MIB


@pytest.mark.parametrize(("llc_mib", "available_mib"), [(1152, 16_000), (0, 100), (256, 3000)])
def test_too_little_memory_is_one_sentence(llc_mib: int, available_mib: int) -> None:
    with pytest.raises(Conflict, match=r"Measuring needs .* of free memory; this machine has .*\.$"):
        buffer_size(llc_mib * MIB, available_mib * MIB)


@pytest.mark.parametrize(
    ("physical", "logical", "counts"),
    [(2, 2, [1, 2]), (8, 16, [1, 4, 8, 16]), (1, 1, [1]), (1, 2, [1, 2]), (96, 4, [1, 2, 4])],
)
def test_the_sweep_is_one_half_all_cores_and_all_threads(physical: int, logical: int, counts: list[int]) -> None:
    assert thread_counts(physical, logical) == counts


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"median_bytes_per_s": 25e9}, "Unstable"),
        ({"busy_share": 0.9}, "90 % CPU load"),
        ({"plateau_ratio": 1.5}, "a cache larger than the system reports"),
        ({"plateau_ratio": 0.5}, "more slowly than all of it"),
        ({"buffer_bytes": 256 * MIB}, "only 268 MB was read"),
    ],
)
def test_what_makes_a_reading_doubtful_is_said(change: dict[str, float], expected: str | None) -> None:
    sentences = remarks(replace(CALM, **change))  # type: ignore[arg-type]  # one field of its own type
    assert len(sentences) == (expected is not None)
    assert expected is None or expected in sentences[0]


def test_measuring_looks_at_idleness_and_memory_first(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(bandwidth, "IDLE_S", 0.01)
    monkeypatch.setattr(bandwidth, "available_ram_bytes", lambda: 0)
    with pytest.raises(Conflict):
        bandwidth.measure_bandwidth(None, steps.append)
    assert steps == ["Checking that the machine is idle."]


def test_neither_the_pages_nor_the_command_line_load_numpy() -> None:
    """It would cost each start a tenth of a second, and its library reads once how many threads it may use."""
    code = "import sys, app.web, app.cli.machine, app.hardware.bandwidth; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
