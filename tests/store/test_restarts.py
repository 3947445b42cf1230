"""A restart between two runs: how it is seen, that it is asked about once, and what the answer changes."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlmodel import Session, select

from app.core.config_settings import SETTINGS
from app.core.errors import BadInput, Conflict
from app.db import restarts, runs, servers
from app.db.database import Database
from app.db.tables import Config, Run
from tests.seed import seed

FIRST, SECOND = {"pid": 7, "started_at": 1_000_000.0}, {"pid": 9, "started_at": 1_000_900.0}


@pytest.mark.parametrize(
    ("before", "after", "is_restart"),
    [
        ({"process": FIRST}, {"process": SECOND}, True),
        ({"process": FIRST}, {"process": {**FIRST, "started_at": 1_000_000.4}}, False),
        ({"process": FIRST}, {"process": {**FIRST, "started_at": 1_009_000.0}}, True),
        ({"process": FIRST}, {}, False),
        ({}, {}, False),
        ({"counters": {"prompt_tokens": 900.0}}, {"counters_before": {"prompt_tokens": 10.0}}, True),
        ({"counters": {"prompt_tokens": 900.0}}, {"counters_before": {"prompt_tokens": 950.0}}, False),
        ({"counters": {"since": 100.0}}, {"counters_before": {"since": 4000.0}}, True),
        ({"counters": {"since": 100.0}}, {"counters_before": {"since": 100.2}}, False),
        ({"counters": {"requests": 3.0}}, {"counters_before": {"output_tokens": 1.0}}, False),
        ({"process": "x", "counters": 3}, {"process": None, "counters_before": []}, False),
    ],
)
def test_what_shows_a_restart(before: Mapping[str, Any], after: Mapping[str, Any], is_restart: bool) -> None:
    assert restarts.was_restarted(before, after) == is_restart


def two_runs(session: Session) -> tuple[Run, Run]:
    """Two runs of one configuration, the earlier one first."""
    public_ids = seed(session, runs=2, configs_used=1)
    first, second = sorted((runs.run(session, public_id) for public_id in public_ids), key=lambda run: run.id or 0)
    return first, second


def asked(session: Session, unknown: list[str]) -> Run:
    """The second of two runs, with an open question."""
    _first, second = two_runs(session)
    second.evidence = {**second.evidence, "restart": {"unknown": unknown, "answered": None}}
    session.add(second)
    session.flush()
    return second


def test_a_restart_with_unknown_settings_is_asked_about(database: Database) -> None:
    with database.write() as session:
        first, second = two_runs(session)
        first.evidence = {"process": FIRST}
        session.add(first)
        session.flush()
        assert second.config is not None
        question = restarts.noticed(session, second, second.config, {"process": SECOND})
        assert question == {"unknown": restarts.unknown_settings(second.config.settings), "answered": None}
        assert restarts.noticed(session, second, second.config, {"process": FIRST}) is None
        known = Config.model_validate({**second.config.model_dump(), "settings": dict.fromkeys(SETTINGS, 1)})
        assert restarts.noticed(session, second, known, {"process": SECOND}) is None


def test_the_answer_gives_the_run_and_those_after_it_another_configuration(database: Database) -> None:
    with database.write() as session:
        run = asked(session, ["batch", "threads"])
        before, public_id, server_id = run.config, run.public_id, run.server_id
        assert before is not None
        frozen, config_id = dict(before.settings), before.id
        assert restarts.open_run(session, server_id) is not None
        restarts.answer(session, public_id, {"threads": 4})
    with database.read() as session:
        first, second = (session.exec(select(Run).order_by(Run.id)).all())[:2]  # type: ignore[arg-type]  # a column
        assert first.config_id == config_id
        assert second.config is not None
        assert second.config_id != config_id
        assert second.config.settings == {**frozen, "threads": 4}
        assert session.get_one(Config, config_id).settings == frozen, "a configuration never changes"
        assert second.server.settings["threads"] == 4 or 4 in [
            stated.get("threads") for stated in second.server.model_settings.values()
        ]
        assert restarts.open_run(session, server_id) is None
        assert not restarts.question(second)
    with database.write() as session, pytest.raises(Conflict, match="answered already"):
        restarts.answer(session, public_id, {"threads": 8})


def test_nothing_was_changed(database: Database) -> None:
    with database.write() as session:
        run = asked(session, ["threads"])
        config_id, public_id, settings = run.config_id, run.public_id, dict(run.server.settings)
        restarts.answer(session, public_id, {})
    with database.read() as session:
        answered = runs.run(session, public_id)
        assert (answered.config_id, dict(answered.server.settings)) == (config_id, settings)
        assert not restarts.question(answered)


def test_only_what_was_asked_may_be_answered(database: Database) -> None:
    with database.write() as session:
        run = asked(session, ["threads"])
        with pytest.raises(BadInput):
            restarts.answer(session, run.public_id, {"kv_type_k": "q8_0"})


def test_a_run_that_goes_on_asks_nothing_yet(database: Database) -> None:
    with database.write() as session:
        run = asked(session, ["threads"])
        run.status = "running"
        assert not restarts.question(run)


def test_of_several_models_the_answer_is_about_the_one_measured(database: Database) -> None:
    with database.write() as session:
        run = asked(session, ["threads"])
        assert run.config is not None
        server, model_id = run.server, run.config.settings.get("model_id")
        if model_id is None:
            run.config.settings = {**run.config.settings, "model_id": "m"}
            model_id = "m"
        server.facts = {**server.facts, "models": [{"id": model_id}, {"id": "other"}]}
        session.add(server)
        session.flush()
        restarts.answer(session, run.public_id, {"threads": 4})
        assert servers.stated_settings(server, model_id)["threads"] == 4
        assert "threads" not in servers.stated_settings(server, "other")
