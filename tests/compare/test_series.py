"""Series: configurations that differ in their versions alone are one."""

from dataclasses import replace

import numpy as np
import pytest

from app.core.configuration import Snapshot
from app.db.configs import ConfigDescription
from app.db.database import Database
from app.results.series import SeriesIndex, series_index
from tests.year import BUILDS, seed_year

SNAPSHOT = Snapshot("llama.cpp", "b1", "Qwen3-8B", "Q4_K_M", {"context": 4096})


def index(*snapshots: Snapshot, machines: tuple[int, ...] = ()) -> SeriesIndex:
    return SeriesIndex(
        {
            place: ConfigDescription(f"server {place}", snapshot, f"box {machine_id}", "", machine_id)
            for place, (snapshot, machine_id) in enumerate(
                zip(snapshots, machines or [1] * len(snapshots), strict=True), start=1
            )
        }
    )


def groups(series: SeriesIndex) -> list[tuple[int, ...]]:
    return [group.config_ids for group in series.by_id.values()]


def test_versions_are_of_one_series_on_whatever_server_of_the_machine() -> None:
    series = index(SNAPSHOT, replace(SNAPSHOT, engine_version="b2"), replace(SNAPSHOT, engine_version=None))
    assert groups(series) == [(1, 2, 3)]
    assert series.by_id[1].snapshot.engine_version is None
    assert [series.version(config_id) for config_id in (1, 2, 3)] == ["b1", "b2", None]
    assert series.ids(np.array([3, 1, 2, 2])).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"engine": "vllm"},
        {"model": "Qwen3-14B"},
        {"quantization": "Q8_0"},
        {"settings": {"context": 8192}},
        {"settings": {"context": 4096, "threads": 8}},
        {"labels": ("night",)},
    ],
)
def test_whatever_else_differs_makes_another_series(change: dict[str, object]) -> None:
    assert groups(index(SNAPSHOT, replace(SNAPSHOT, **change))) == [(1,), (2,)]  # type: ignore[arg-type]  # fields of any type


def test_another_machine_is_another_series_and_named() -> None:
    series = index(SNAPSHOT, SNAPSHOT, machines=(1, 2))
    assert groups(series) == [(1,), (2,)]
    assert series.titles([1, 2], {}) == {1: "Qwen3-8B Q4_K_M · box 1", 2: "Qwen3-8B Q4_K_M · box 2"}
    assert series.titles([1], {}) == {1: "Qwen3-8B Q4_K_M"}


def test_titles_name_the_settings_that_differ() -> None:
    series = index(SNAPSHOT, replace(SNAPSHOT, settings={"context": 8192}, engine_version="b2"))
    first, second = series.titles([1, 2], {}).values()
    assert first != second
    assert "8,192" in second
    assert "b2" not in second


def test_weights_that_were_not_recorded_are_the_same_and_others_are_not() -> None:
    known = replace(SNAPSHOT, settings={"context": 4096, "model_digest": "a"})
    other = replace(SNAPSHOT, settings={"context": 4096, "model_digest": "b"})
    assert groups(index(SNAPSHOT, known)) == [(1, 2)]
    assert groups(index(known, other)) == [(1,), (2,)]


def test_a_gateway_is_named_without_its_version() -> None:
    older, newer = (replace(SNAPSHOT, settings={"gateway": f"llama-swap {version}"}) for version in ("v1.2", "v1.3"))
    assert groups(index(older, newer)) == [(1, 2)]
    assert len(groups(index(older, replace(SNAPSHOT, settings={"gateway": "LiteLLM 1.2"})))) == 2


def test_a_year_has_as_many_series_as_was_measured(database: Database) -> None:
    with database.write() as session:
        seed_year(session)
    with database.read() as session:
        series = series_index(session)
    # 12, 6 and 12 variants; 2 more since the second card, 4 more since the quantized cache
    assert len(series.by_id) == 12 + 6 + 12 + 2 + 4
    assert len(series.configs) > 4 * len(series.by_id)
    assert max(len(group.config_ids) for group in series.by_id.values()) == len(BUILDS)
