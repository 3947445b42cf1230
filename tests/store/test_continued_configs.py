"""Which frozen configuration goes on: those of before ids were recorded, and what a server tells only later."""

from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import Session

from app.core.configuration import Snapshot
from app.db import configs, samples
from app.db.database import Database
from app.db.tables import Config, Machine, Run, Server
from tests.traces import sample

BASE = Snapshot("openai", None, "llama-3-8b", None, {"context": 4096})


def identified(**identity: Any) -> Snapshot:
    return replace(BASE, settings={**BASE.settings, **identity})


def freeze(session: Session, snapshot: Snapshot, **how: Any) -> Config:
    return configs.freeze(session, 1, snapshot, {}, "openai", **how)


@pytest.fixture
def session(database: Database) -> Any:
    with database.write() as session:
        session.add(Machine(slug="box", name="box"))
        session.flush()
        session.add(Server(machine_id=1, slug="gw", name="gw", engine="openai", base_url="http://gw"))
        session.flush()
        yield session


def test_a_configuration_of_before_goes_on_with_its_model(session: Session) -> None:
    old = freeze(session, BASE)
    fingerprint = old.fingerprint
    again = freeze(session, identified(model_id="gpu0/llama-3-8b"))
    assert (again.id, again.fingerprint) == (old.id, fingerprint)
    # and from then on with no other one
    second_config = freeze(session, identified(model_id="cpu/llama-3-8b"))
    assert second_config.id != old.id
    assert freeze(session, identified(model_id="gpu0/llama-3-8b")).id == old.id
    assert freeze(session, identified(model_id="cpu/llama-3-8b")).id == second_config.id


def test_where_several_models_are_called_alike_none_goes_on(session: Session) -> None:
    old = freeze(session, BASE)
    new = freeze(session, identified(model_id="gpu0/llama-3-8b"), namesakes=["cpu/llama-3-8b"])
    assert new.id != old.id
    assert "model_id" not in old.settings


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_configuration_whose_runs_were_of_another_model_does_not_go_on(session: Session, is_asked: bool) -> None:
    old = freeze(session, BASE)
    plan = {"model": "gpu0/llama-3-8b" if is_asked else None}
    run = Run(machine_id=1, server_id=1, config_id=old.id, suite_key="quick", suite_sha256="0", plan=plan)
    session.add(run)
    session.flush()
    assert run.id is not None
    if not is_asked:
        answered = sample()
        answered = replace(answered, trace=replace(answered.trace, model="gpu0/llama-3-8b"))
        samples.add_sample(session, run.id, answered, run.queued_at)
    assert freeze(session, identified(model_id="cpu/llama-3-8b")).id != old.id
    assert freeze(session, identified(model_id="gpu0/llama-3-8b")).id == old.id


@pytest.mark.parametrize(
    "identity",
    [{"model_digest": "a"}, {"model_file": "/m/a.gguf"}, {"model_bytes": 5}],
    ids=lambda identity: next(iter(identity)),
)
def test_other_weights_under_the_same_id_are_another_configuration(session: Session, identity: dict[str, Any]) -> None:
    unknown = freeze(session, identified(model_id="m"))
    first = freeze(session, identified(model_id="m", **identity))
    assert first.id == unknown.id  # what was not told before is learned
    (key,) = identity
    changed = {key: identity[key] * 2}
    assert freeze(session, identified(model_id="m", **changed)).id != first.id
    assert freeze(session, identified(model_id="m", **identity)).id == first.id
    assert freeze(session, identified(model_id="m")).id is not None


def test_a_model_that_was_named_by_its_quantization_goes_on_under_its_name(session: Session) -> None:
    old = freeze(session, Snapshot("lmstudio", None, "gemma-3-12b@q4_k_m", "Q4_K_M", {"context": 4096}))
    identity = {"context": 4096, "model_id": "google/gemma-3-12b@q4_k_m"}
    new = freeze(session, Snapshot("lmstudio", None, "gemma-3-12b", "Q4_K_M", identity))
    assert new.id == old.id
    assert new.model.name == "gemma-3-12b"


def test_other_settings_are_another_configuration_as_ever(session: Session) -> None:
    old = freeze(session, BASE)
    assert freeze(session, replace(identified(model_id="m"), settings={"context": 8192, "model_id": "m"})).id != old.id
    assert freeze(session, replace(identified(model_id="m"), engine_version="2")).id != old.id
    assert freeze(session, replace(identified(model_id="m"), labels=["night"])).id != old.id
