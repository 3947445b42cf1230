"""Frozen configurations: rows are found by fingerprint or inserted; only what is known of a model may grow."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlmodel import Session, col, select

from app.configuration import Snapshot
from app.models import FULL_GEOMETRY, Config, Model, Run, Server


def freeze(session: Session, server_id: int, snapshot: Snapshot, geometry: Mapping[str, Any], source: str) -> Config:
    """The configuration row for `snapshot`, made when it is new for this server."""
    fingerprint = snapshot.fingerprint
    found = session.exec(select(Config).where(Config.server_id == server_id, Config.fingerprint == fingerprint)).first()
    if found is not None:
        _learn(session, found, geometry, source)
    else:
        model = _model(session, snapshot, geometry, source)
        assert model.id is not None
        found = Config(
            server_id=server_id,
            model_id=model.id,
            engine=snapshot.engine,
            engine_version=snapshot.engine_version,
            settings=dict(snapshot.settings),
            labels=sorted(snapshot.labels),
            fingerprint=fingerprint,
        )
        session.add(found)
        session.flush()
    return found


def _learn(session: Session, config: Config, geometry: Mapping[str, Any], source: str) -> None:
    """A model's geometry that was unknown when the configuration was frozen: the configuration stays what it is."""
    model = session.get_one(Model, config.model_id)
    if FULL_GEOMETRY in geometry and FULL_GEOMETRY not in model.geometry:
        better = _model(session, snapshot_of(config, model), geometry, source)
        assert better.id is not None
        config.model_id = better.id
        session.add(config)


def _model(session: Session, snapshot: Snapshot, geometry: Mapping[str, Any], source: str) -> Model:
    digest = hashlib.sha256(json.dumps(dict(geometry), sort_keys=True).encode()).hexdigest()
    quantization = snapshot.quantization or ""
    found = session.exec(
        select(Model).where(
            Model.name == snapshot.model, Model.quantization == quantization, Model.geometry_sha256 == digest
        )
    ).first()
    if found is None:
        found = Model(
            name=snapshot.model,
            quantization=quantization,
            geometry=dict(geometry),
            geometry_sha256=digest,
            source=source,
        )
        session.add(found)
        session.flush()
    return found


def snapshot_of(config: Config, model: Model) -> Snapshot:
    return Snapshot(
        engine=config.engine,
        engine_version=config.engine_version,
        model=model.name,
        quantization=model.quantization or None,
        settings=config.settings,
        labels=config.labels,
    )


def previous_snapshot(session: Session, run: Run) -> Snapshot | None:
    """The configuration of this server's last run before `run` whose configuration differs; None for the first."""
    if run.config_id is None or run.started_at is None:
        return None
    row = session.exec(
        select(Config, Model)
        .join(Run, col(Run.config_id) == Config.id)
        .join(Model, col(Model.id) == Config.model_id)
        .where(Run.server_id == run.server_id, col(Run.started_at) < run.started_at, Run.config_id != run.config_id)
        .order_by(col(Run.started_at).desc())
        .limit(1)
    ).first()
    return snapshot_of(*row) if row else None


class Described(NamedTuple):
    """A configuration and the name of its server."""

    server: str
    snapshot: Snapshot


def describe(session: Session) -> dict[int, Described]:
    """Every configuration by its id."""
    rows = session.exec(
        select(Config, Model, Server.name)
        .join(Model, col(Model.id) == Config.model_id)
        .join(Server, col(Server.id) == Config.server_id)
    ).all()
    return {config.id: Described(name, snapshot_of(config, model)) for config, model, name in rows if config.id}
