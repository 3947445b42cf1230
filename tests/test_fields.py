"""One registry of fields: what is added to it is found in the explorer, histories, comparisons, shares and searches."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from sqlmodel import Session, col, select

from app.core import i18n
from app.core.config_settings import DEFAULT, SETTINGS, Setting, format_setting
from app.core.configuration import Snapshot, describe_changes
from app.db.configs import ConfigDescription, describe
from app.db.database import Database
from app.db.tables import Config, Model, Run
from app.metrics import metrics
from app.results.ceiling import context_of
from app.results.explore import explore
from app.results.fields import registry
from app.results.fields.configuration import CONFIGURATION_FIELDS, setting_field
from app.results.fields.field import Disclosure, Field, RunContext, SearchColumn, SearchScope
from app.results.fields.registry import GROUPS, all_fields, explorer_fields, grouped
from app.results.fields.run import (
    filtered_series_keys,
    series_context,
    series_name,
    series_text,
    series_titles,
)
from app.results.naming import distinct_titles
from app.results.run_filter import PARAMETERS, RunFilter
from app.results.run_list import list_runs
from app.share import circumstances
from app.suites import BUILT_IN
from tests.compare.runs import Q8, compared, place, run, timed

CHINESE = "zh-Hant"


def _runs(database: Database, *values: int) -> list[str]:
    """A run for each value of the setting `rope_scale`."""
    snapshots = [replace(Q8, settings={**Q8.settings, "rope_scale": value}) for value in values]
    return [run(database, config, timed(500, 50)) for config in place(database, *snapshots)]


def _search(session: Session, text: str) -> list[str]:
    return [row.public_id for row in list_runs(session, RunFilter(text=text))[0]]


def _facts(session: Session, public_id: str) -> dict[str, object]:
    query = select(Config, Model).join(Run, col(Run.config_id) == Config.id).join(Model)
    config, model = session.exec(query.where(Run.public_id == public_id)).one()
    return {fact.title: fact.value for fact in circumstances.facts(config, model, [])}


def _series(configs: Mapping[int, ConfigDescription], key: str) -> list[str]:
    return [series_text(key, series_context(config, {})) for config in configs.values()]


def test_a_setting_that_is_added_is_found_everywhere(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "rope_scale", Setting("rope_scale", "RoPE scale", int))
    first, second = _runs(database, 64_000, 128_000)
    with database.read() as session:
        view = {"x": "setting.rope_scale", "y": "decode_tokens_per_s"}
        assert [point.x for point in explore(session, view, {}).result.data_points] == [64_000, 128_000]
        configs = describe(session)
        assert series_titles(configs.values())["rope_scale"] == "RoPE scale"
        assert [series_text("rope_scale", series_context(config, {})) for config in configs.values()] == [
            "64,000",
            "128,000",
        ]
        assert series_name("rope_scale", "64,000") == "RoPE scale 64,000"
        assert [title.split(" · ")[1] for title in distinct_titles(configs, {}).values()] == [
            "RoPE scale 64,000", "RoPE scale 128,000",
        ]  # fmt: skip
        assert _facts(session, second)["RoPE scale"] == "128,000"
        assert _search(session, "128000") == [second]
    (difference,) = compared(database, first, second).differences
    assert (difference.title, difference.values) == ("RoPE scale", ("64,000", "128,000"))


@pytest.fixture
def build_field() -> Iterator[Field]:
    field = Field(
        "build", "Build number", "Configuration",
        read=lambda context: (context.snapshot.engine_version or "").removeprefix("b") or None,
        series_key="build", difference="setting", disclosure=Disclosure.ALWAYS, is_share_fact=True, filter="config",
        search=(SearchColumn(SearchScope.RUN, Run.source),),
    )  # fmt: skip
    CONFIGURATION_FIELDS.append(field)
    yield field
    CONFIGURATION_FIELDS.remove(field)


def test_a_field_that_is_added_is_found_everywhere(database: Database, build_field: Field) -> None:
    configs = place(database, Q8, replace(Q8, engine_version="b6400"))
    first, second = (run(database, config, timed(500, 50)) for config in configs)
    with database.read() as session:
        view = {"x": "build", "y": "decode_tokens_per_s"}
        assert [point.x for point in explore(session, view, {}).result.data_points] == ["6301", "6400"]
        configs_by_id = describe(session)
        assert series_titles(configs_by_id.values())["build"] == "Build number"
        assert [series_text("build", series_context(config, {})) for config in configs_by_id.values()] == [
            "6301",
            "6400",
        ]
        assert "build" in filtered_series_keys()
        assert _facts(session, second)["Build number"] == "6400"
        assert set(_search(session, "live")) == {first, second}
    differences = compared(database, first, second).differences
    assert [(difference.title, difference.values) for difference in differences] == [
        ("Engine version", ("b6301", "b6400")), ("Build number", ("6301", "6400")),
    ]  # fmt: skip


def test_a_metric_that_is_added_is_a_field_of_the_explorer(monkeypatch: pytest.MonkeyPatch) -> None:
    added = replace(metrics()["ttft_ms"], key="first_word_ms", title="First word")
    monkeypatch.setattr(registry, "metrics", lambda: {added.key: added})
    field = explorer_fields([])["first_word_ms"]
    assert (field.label, field.explanation, field.metric) == ("First word ms", added.explanation, added.key)


def test_every_field_has_its_place() -> None:
    fields = all_fields()
    assert len({field.key for field in fields}) == len(fields)
    series_keys = [field.series_key for field in fields if field.series_key]
    assert len(set(series_keys)) == len(series_keys)
    assert {field.group for field in fields} == set(GROUPS)
    assert {field.filter for field in fields} - {""} <= set(PARAMETERS)
    assert sum(len(members) for _, members in grouped(fields)) == len(fields)
    for field in fields:
        if field.in_explorer:  # a share of the explorer may show it
            assert field.disclosure is not Disclosure.NEVER, field.key


def test_the_context_of_a_workload_is_the_one_that_ceilings_are_computed_for() -> None:
    workloads = [case.point for suite in BUILT_IN.values() for case in suite.cases]
    assert [workload.mean_context() for workload in workloads] == [context_of(workload, None) for workload in workloads]


def test_what_a_person_named_is_never_translated() -> None:
    """Labels and settings of their own; words of Roofmark's are."""
    old = replace(Q8, settings={"kv_offload": "on", "series": "on"}, labels=())
    new = replace(Q8, settings={"kv_offload": "off", "series": "off"}, labels=("on",))
    assert describe_changes(old, new) == ["KV cache on GPUs on → off", "series on → off", "label on added"]
    with i18n.use(CHINESE):
        assert describe_changes(old, new) == ["KV 快取在顯示卡上 開 → 關", "series on → off", "新增標籤 on"]
        assert series_name("label", "on") == "on"
        assert series_name("series", "on") == "series on"
        assert series_name("kv_offload", format_setting("on", "kv_offload")) == "KV 快取在顯示卡上 開"
        assert format_setting("on", "series") == "on"
        assert format_setting(None, "series") == "未說明"


def test_a_setting_that_was_left_to_the_engine_makes_no_number_a_word() -> None:
    field = setting_field("threads", {4, 8, DEFAULT})
    left = RunContext(Snapshot("llama.cpp", None, "m", None, {"threads": DEFAULT}))
    assert (field.kind, field.read(left), field.text("difference", left)) == ("number", None, "default")


def test_namesakes_of_different_servers_do_not_join(database: Database) -> None:
    """Two servers offer different models under one name: their ids name them apart."""
    first = replace(Q8, settings={**Q8.settings, "model_id": "gpu0/Qwen3-8B"})
    second = replace(Q8, settings={**Q8.settings, "model_id": "cpu/Qwen3-8B"})
    (one,), (other,) = place(database, first), place(database, second, name="2x3090")
    run(database, one, timed(500, 50))
    run(database, other, timed(500, 20))
    with database.read() as session:
        for x, suffix in (("model", ""), ("variant", f" {Q8.quantization}")):
            view = {"x": x, "y": "decode_tokens_per_s", "mix": "machine,settings"}
            assert [point.x for point in explore(session, view, {}).result.data_points] == [
                f"cpu/{Q8.model}{suffix}", f"gpu0/{Q8.model}{suffix}",
            ]  # fmt: skip
