"""What changed since the nearest earlier configuration: same machine and model, fewest differences."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from app.core.config_settings import SETTINGS
from app.core.configuration import Snapshot
from app.core.unknown_settings import has_unknown_settings, known_parts, unknown_fields, unknown_text
from app.db import annotations, configs, runs, servers
from app.db.configs import config as config_of
from app.db.database import Database
from app.db.tables import Config
from app.results.previous import Previous, previous, previous_of_config
from tests.compare.runs import change, compared, place, run, timed
from tests.compare.test_comparison import cards
from tests.databases import on_both
from tests.many import add_many

KNOWN: Mapping[str, Any] = {
    key: 8 if setting.type is int else (setting.choices or ("on",))[0]
    for key, setting in SETTINGS.items()
    if setting.is_always_set
}
BASE = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q8_0", KNOWN)


def with_settings(snapshot: Snapshot = BASE, **settings: Any) -> Snapshot:
    """The snapshot with other settings; None takes one away."""
    merged = {**snapshot.settings, **settings}
    return replace(snapshot, settings={key: value for key, value in merged.items() if value is not None})


def measured(database: Database, *snapshots: Snapshot) -> list[str]:
    """One run for each configuration of one server, an hour apart."""
    return [
        run(database, config, timed(500, 50), hours=hour) for hour, config in enumerate(place(database, *snapshots))
    ]


def before(database: Database, public_id: str) -> Previous | None:
    with database.read() as session:
        return previous(session, runs.run(session, public_id))


@on_both
def test_the_nearest_is_compared_and_not_the_latest(database: Database) -> None:
    near = with_settings(context=4096)
    other_model = replace(BASE, model="gpt-oss-20b", quantization="MXFP4")
    far = with_settings(replace(BASE, engine_version="b6200", quantization="Q4_K_M"), threads=4)
    first, _far, _other_model, newest = measured(database, near, far, other_model, BASE)
    nearest = before(database, newest)
    assert nearest is not None
    assert nearest.public_id == first
    assert list(nearest.changes) == ["Context 4,096 → 8"]
    assert list(nearest.unknown) == ["Hardware"]


def test_of_equally_near_ones_it_is_the_newest(database: Database) -> None:
    _older, newer, last = measured(database, with_settings(context=4096), with_settings(context=2048), BASE)
    nearest = before(database, last)
    assert nearest is not None
    assert nearest.public_id == newer


def test_of_one_quantization_some_differences_are_nearer_than_another_quantization(database: Database) -> None:
    """As after an update and a change of the cache, of which a whole sweep is measured."""
    before_all = with_settings(replace(BASE, engine_version="b6200"), kv_type_k="q4_0", kv_type_v="q4_0")
    old, _sweep, last = measured(database, before_all, replace(BASE, quantization="Q4_K_M"), BASE)
    nearest = before(database, last)
    assert nearest is not None
    assert nearest.public_id == old
    assert len(nearest.changes) == 3


def test_but_not_many_differences(database: Database) -> None:
    before_all = with_settings(replace(BASE, engine_version="b6200"), context=2048, threads=2, batch=4)
    _old, sweep, last = measured(database, before_all, replace(BASE, quantization="Q4_K_M"), BASE)
    nearest = before(database, last)
    assert nearest is not None
    assert nearest.public_id == sweep


def test_but_rather_one_with_a_run_to_compare_with(database: Database) -> None:
    older, newer, last = measured(database, with_settings(context=4096), with_settings(context=2048), BASE)
    change(database, newer, suite_sha256="b" * 64)
    nearest = before(database, last)
    assert nearest is not None
    assert nearest.public_id == older
    change(database, older, status="failed")
    nearest = before(database, last)
    assert nearest is not None
    assert (nearest.public_id, list(nearest.changes)) == (None, ["Context 2,048 → 8"])


@pytest.mark.parametrize(
    "farther",
    [
        replace(BASE, engine_version="b6200", quantization="Q4_K_M"),
        replace(BASE, engine="ollama", labels=("night",)),
        with_settings(threads=4, batch=16),
        with_settings(threads=4, fan="loud"),
        with_settings(threads=None, batch=None),
        with_settings(context=4096, batch=None),
    ],
)
def test_each_difference_counts_once(database: Database, farther: Snapshot) -> None:
    first, _farther, last = measured(database, with_settings(context=4096), farther, BASE)
    nearest = before(database, last)
    assert nearest is not None
    assert nearest.public_id == first


def test_a_known_difference_is_nearer_than_one_that_is_unknown_on_one_side(database: Database) -> None:
    first, _vague, last = measured(database, with_settings(context=4096), with_settings(context=None), BASE)
    nearest = before(database, last)
    assert nearest is not None
    assert nearest.public_id == first
    with database.write() as session:
        annotations.hide(session, first, "A try.")
    nearest = before(database, last)
    assert nearest is not None
    assert list(nearest.changes) == []
    assert list(nearest.unknown) == ["Context (not stated / 8)", "Hardware"]


def test_a_run_of_the_same_configuration_is_no_earlier_one(database: Database) -> None:
    (config,) = place(database, BASE)
    run(database, config, timed(500, 50))
    assert before(database, run(database, config, timed(500, 50), hours=1)) is None


def test_nothing_that_came_later_counts(database: Database) -> None:
    first, _second = measured(database, BASE, with_settings(context=4096))
    assert before(database, first) is None


def test_another_server_of_the_machine_counts_and_another_machine_does_not(database: Database) -> None:
    (config,) = place(database, with_settings(model_id="q8", model_file="/a/q.gguf"))
    (elsewhere,) = place(database, with_settings(context=4096), name="tower")
    run(database, elsewhere, timed(500, 50))
    with database.write() as session:
        machine_id = session.get_one(Config, config).server.machine_id
        server = servers.add_server(session, machine_id, "second", "llama.cpp", "http://127.0.0.1:10")
        snapshot = with_settings(context=2048, model_id="other-id", model_file="/b/q.gguf")
        second = configs.freeze(session, server.id or 0, snapshot, {}, "").id or 0
    first = run(database, second, timed(500, 50), hours=1)
    nearest = before(database, run(database, config, timed(500, 50), hours=2))
    assert nearest is not None
    assert (nearest.public_id, nearest.server_slug) == (first, "second")
    assert list(nearest.changes) == ["Context 2,048 → 8"]  # neither id nor folder of the other server


def test_hardware_is_a_difference(database: Database) -> None:
    config, other = place(database, BASE, with_settings(context=4096, threads=4))
    first = run(database, config, timed(500, 50), hardware=cards(1))
    run(database, other, timed(500, 50), hours=1, hardware=cards(2))
    nearest = before(database, run(database, config, timed(500, 50), hours=2, hardware=cards(2)))
    assert nearest is not None
    assert nearest.public_id == first
    assert list(nearest.changes) == ["RTX 3090 → 2 × RTX 3090"]
    assert list(nearest.unknown) == []


def test_a_configuration_has_what_was_before_its_first_run(database: Database) -> None:
    first, second = measured(database, BASE, with_settings(context=4096))
    with database.read() as session:
        fingerprints = [runs.run(session, public_id).config.fingerprint for public_id in (first, second)]  # type: ignore[union-attr]  # both ran
        assert previous_of_config(session, config_of(session, fingerprints[0])) is None
        nearest = previous_of_config(session, config_of(session, fingerprints[1]))
    assert nearest is not None
    assert nearest.fingerprint == fingerprints[0]


def test_few_queries_however_many_runs(database: Database) -> None:
    with database.write() as session:
        ids = add_many(session, 600)
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        asked.append(statement)

    with database.read() as session:
        newest = runs.run(session, ids[-1])
        assert newest.model is not None
        event.listen(database.engine, "before_cursor_execute", note)
        previous(session, newest)
        event.remove(database.engine, "before_cursor_execute", note)
    assert len([statement for statement in asked if statement != "BEGIN"]) <= 3


# --- what is unknown -------------------------------------------------------------------------------------------------


def test_a_setting_of_one_side_is_unknown_on_the_other_and_no_difference(database: Database) -> None:
    stated, vague = measured(database, BASE, with_settings(kv_type_k=None, context=4096))
    for public_id in (stated, vague):
        change(database, public_id, hardware=cards(1))
    comparison = compared(database, stated, vague)
    assert [difference.title for difference in comparison.differences] == ["Context"]
    (pair,) = comparison.pairs
    assert pair.differing_settings == ("Context 8 → 4,096",)
    assert pair.unknown_settings == ("KV cache type K (f16 / not stated)",)


def test_where_all_is_known_one_difference_is_the_only_one(database: Database) -> None:
    ids = measured(database, BASE, with_settings(context=4096))
    for public_id in ids:
        change(database, public_id, hardware=cards(1))
    (pair,) = compared(database, *ids).pairs
    assert (pair.differing_settings, pair.unknown_settings) == (("Context 8 → 4,096",), ())


def test_of_three_a_setting_that_two_state_differently_differs_between_these(database: Database) -> None:
    states = [with_settings(threads=8), with_settings(threads=16), with_settings(threads=None)]
    comparison = compared(database, *measured(database, *states))
    assert [(row.title, row.values) for row in comparison.differences] == [("Threads", ("8", "16", "not stated"))]
    assert [pair.differing_settings for pair in comparison.pairs] == [("Threads 8 → 16",), ()]
    assert "Threads (8 / not stated)" in comparison.pairs[1].unknown_settings


def test_one_process_had_the_same_settings_known_or_not(database: Database) -> None:
    (config,) = place(database, with_settings(threads=None))
    process = {"pid": 41, "started_at": 1.78e9}
    first, again, restarted = (
        run(database, config, timed(500, 50), hours=hour, evidence={"process": {"pid": pid, "started_at": started}})
        for hour, (pid, started) in enumerate([(41, 1.78e9), (41, 1.78e9 + 0.4), (57, 1.79e9)])
    )
    assert compared(database, first, again).pairs[0].unknown_settings == ()
    assert compared(database, first, restarted).pairs[0].unknown_settings == ("Threads", "Hardware")
    (ollama,) = place(database, replace(with_settings(threads=None), engine="ollama"), name="tower")
    ids = [run(database, ollama, timed(500, 50), hours=hour, evidence={"process": process}) for hour in (1, 2)]
    assert "Threads" in compared(database, *ids).pairs[0].unknown_settings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {}}, "Context (8 / not stated)"),
        ({"engine_version": None}, "Engine version (b6301 / not stated)"),
        ({"engine_version": "b0-unknown"}, "Engine version (b6301 / not stated)"),
        ({"quantization": None}, "Quantization (Q8_0 / not stated)"),
    ],
)
def test_what_one_side_does_not_state(changes: dict[str, Any], words: str) -> None:
    today = replace(BASE, **changes)
    assert words in [field.words for field in unknown_fields(BASE, today)]
    assert has_unknown_settings(today)
    first, second = known_parts(BASE, today)
    assert (first.settings, first.engine_version, first.quantization) == (
        second.settings,
        second.engine_version,
        second.quantization,
    )


def test_all_is_known() -> None:
    assert not has_unknown_settings(BASE)
    assert unknown_fields(BASE, with_settings(fan="loud")) == []  # which not every server has
    assert unknown_text([]) == ""
    assert unknown_text(["KV cache type K (f16 / not stated)", "Threads"]) == (
        "Unknown on at least one side, so possibly different too: KV cache type K (f16 / not stated) and threads."
    )
