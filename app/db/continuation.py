"""Which frozen configuration goes on with a run, though not all that is known of the model today was recorded then."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlmodel import Session, col, select

from app.core.config_settings import IDENTITY_SETTINGS
from app.core.configuration import Snapshot
from app.db.tables import Config, Model, Run, SampleRow


def snapshot_of(config: Config, model: Model) -> Snapshot:
    return Snapshot(
        engine=config.engine,
        engine_version=config.engine_version,
        model=model.name,
        quantization=model.quantization or None,
        settings=config.settings,
        labels=config.labels,
    )


def continued_by(session: Session, server_id: int, snapshot: Snapshot, namesakes: Collection[str]) -> Config | None:
    """The newest configuration of the server that differs from `snapshot` in nothing but what it does not say.

    One that does not say which model of the server it was goes on only where that is clear: no other model is shown
    alike, and none of its runs was asked for, or answered as, another one.
    """
    names = {snapshot.model, _last_part(str(snapshot.settings.get("model_id", "")))}
    query = (
        select(Config, Model)
        .join(Model, col(Model.id) == Config.model_id)
        .where(
            Config.server_id == server_id,
            Config.engine == snapshot.engine,
            Config.engine_version == snapshot.engine_version,
            col(Model.name).in_(names),
            Model.quantization == (snapshot.quantization or ""),
        )
        .order_by(col(Config.id).desc())
    )
    for config, model in session.exec(query).all():
        if _bare(replace(snapshot_of(config, model), model=snapshot.model)) != _bare(snapshot):
            continue
        if any(_contradict(config.settings.get(key), snapshot.settings.get(key)) for key in IDENTITY_SETTINGS):
            continue
        if "model_id" in config.settings or (not namesakes and not _was_another(session, config, snapshot)):
            return config
    return None


def _bare(snapshot: Snapshot) -> Any:
    settings = {key: value for key, value in snapshot.settings.items() if key not in IDENTITY_SETTINGS}
    return replace(snapshot, settings=settings, labels=sorted(snapshot.labels))


def _contradict(recorded: Any, today: Any) -> bool:
    return recorded is not None and today is not None and recorded != today


def _was_another(session: Session, config: Config, snapshot: Snapshot) -> bool:
    """Whether one of the configuration's runs was about a model of the same name under another id."""
    identifier = str(snapshot.settings.get("model_id"))
    asked = session.exec(select(Run.plan).where(Run.config_id == config.id)).all()
    answered = select(col(SampleRow.record)["trace"]["model"].as_string()).join(Run, col(Run.id) == SampleRow.run_id)
    ids = {plan.get("model") for plan in asked}
    ids |= set(session.exec(answered.where(Run.config_id == config.id).distinct()).all())
    return any(
        isinstance(candidate, str)
        and "/" in candidate
        and candidate != identifier
        and _last_part(candidate) == _last_part(identifier)
        for candidate in ids
    )


def _last_part(identifier: str) -> str:
    return identifier.rpartition("/")[2]
