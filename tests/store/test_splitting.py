"""Configurations of before ids were recorded are split where their runs were of several models."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import Session, col, select

from app.core.configuration import Snapshot
from app.db import configs, samples
from app.db.configs import split_models
from app.db.database import Database
from app.db.tables import Config, Machine, Run, Server
from tests.databases import on_both
from tests.traces import sample

OLD = Snapshot("openai", None, "llama-3-8b", None, {"context": 4096})


def old_config(session: Session, runs: Sequence[tuple[str | None, str | None]]) -> Config:
    """With runs that asked for one id, and were answered by another."""
    session.add(Machine(slug="box", name="box"))
    session.flush()
    session.add(Server(machine_id=1, slug="gw", name="gw", engine="openai", base_url="http://gw"))
    session.flush()
    config = configs.freeze(session, 1, OLD, {}, "openai")
    for asked, answered in runs:
        run = Run(
            machine_id=1, server_id=1, config_id=config.id, suite_key="q", suite_sha256="0", plan={"model": asked}
        )
        session.add(run)
        session.flush()
        assert run.id is not None
        base_sample = sample()
        samples.add_sample(
            session, run.id, replace(base_sample, trace=replace(base_sample.trace, model=answered)), run.queued_at
        )
    return config


def ids_of_runs(session: Session) -> list[str | None]:
    query = select(Config.settings).join(Run, col(Run.config_id) == col(Config.id)).order_by(col(Run.id))
    return [settings.get("model_id") for settings in session.exec(query).all()]


GPU, CPU = "gpu0/llama-3-8b", "cpu/llama-3-8b"


@on_both
@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([(GPU, GPU), (CPU, CPU), (GPU, GPU)], [GPU, CPU, GPU]),
        ([(GPU, "llama-3-8b"), (CPU, "llama-3-8b")], [GPU, CPU]),  # the backend's own name
        ([(GPU, GPU), (None, CPU)], [GPU, CPU]),
        ([("org/m:Q8_0", None), ("org/m:Q4_K_M", None)], ["org/m:Q8_0", "org/m:Q4_K_M"]),
        ([(GPU, None), (CPU, None), (None, None)], [GPU, CPU, None]),
        # one model only, as far as anybody knows
        ([(GPU, GPU), (None, None)], [None, None]),
        ([("qwen3", None), ("qwen3:latest", None)], [None, None]),
        ([("/models/m.gguf", None), ("m", None), ("org/m", None)], [None, None, None]),
        ([(None, GPU), (None, GPU)], [None, None]),
    ],
)
def test_each_model_has_its_own_runs(
    database: Database, runs: list[tuple[str | None, str | None]], expected: list[str | None]
) -> None:
    with database.write() as session:
        old_config(session, runs)
        split_models(session)
        assert ids_of_runs(session) == expected
        assert split_models(session, 1) == 0


@on_both
def test_the_model_with_most_runs_keeps_the_configuration(database: Database) -> None:
    with database.write() as session:
        config = old_config(session, [(GPU, GPU), (CPU, CPU), (GPU, GPU)])
        fingerprint = config.fingerprint
        assert split_models(session) == 1

        def frozen(identifier: str) -> Any:
            return configs.freeze(session, 1, configs.with_model_id(OLD, identifier), {}, "openai", [GPU, CPU])

        # and a new run goes on with that of its model
        assert (frozen(GPU).id, frozen(GPU).fingerprint) == (config.id, fingerprint)
        assert frozen(CPU).id != config.id
        runs = session.exec(select(Run.config_id).order_by(col(Run.id))).all()
        assert runs == [config.id, frozen(CPU).id, config.id]


@on_both
def test_runs_join_the_configuration_that_their_model_has_by_now(database: Database) -> None:
    with database.write() as session:
        old_config(session, [(GPU, GPU), (CPU, CPU), (GPU, GPU)])
        newer = configs.freeze(session, 1, configs.with_model_id(OLD, GPU), {}, "openai", [CPU])
        assert split_models(session) == 3
        runs = session.exec(select(Run.config_id).order_by(col(Run.id))).all()
        assert runs[0] == runs[2] == newer.id != runs[1]
