"""Frozen configurations: rows are found by fingerprint or inserted; only what is known of a model may be added to.

Configurations from versions that did not record model ids may hold runs of several models of a server
(`gpu0/llama-3-8b` and `cpu/llama-3-8b` were one); `split_models` gives each model its own, since they would look like a
level shift in a history.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlmodel import Session, col, select, update

from app.core.config_settings import IDENTITY_SETTINGS
from app.core.configuration import Snapshot, distinguishing_settings, is_file_path
from app.core.errors import NotFound
from app.core.i18n import ENGLISH, N_, _, localized, use
from app.db.database import cached_query
from app.db.tables import FULL_GEOMETRY, Config, Machine, Model, Run, SampleRow, Server


def freeze(
    session: Session,
    server_id: int,
    snapshot: Snapshot,
    geometry: Mapping[str, Any],
    source: str,
    namesakes: Collection[str] = (),
) -> Config:
    """Returns the configuration row for `snapshot`; a new row is made when this server has none.

    `namesakes` are ids of other models of the server that are shown with the same name. When they include other models,
    a configuration without a model id is not continued.
    """
    fingerprint = snapshot.fingerprint
    same_fingerprint = select(Config).where(Config.server_id == server_id, Config.fingerprint == fingerprint)
    frozen = session.exec(same_fingerprint).first() or _continued_config(session, server_id, snapshot, namesakes)
    if frozen is not None:
        _learn(session, frozen, snapshot, geometry, source)
    else:
        model = _model(session, snapshot, geometry, source)
        assert model.id is not None
        frozen = Config(
            server_id=server_id,
            model_id=model.id,
            engine=snapshot.engine,
            engine_version=snapshot.engine_version,
            settings=dict(snapshot.settings),
            labels=sorted(snapshot.labels),
            fingerprint=fingerprint,
        )
        session.add(frozen)
        session.flush()
    return frozen


def snapshot_of(config: Config, model: Model) -> Snapshot:
    """A stored configuration as the value that is compared and shown."""
    return Snapshot(
        engine=config.engine,
        engine_version=config.engine_version,
        model=model.name,
        quantization=model.quantization or None,
        settings=config.settings,
        labels=config.labels,
    )


def with_model_id(snapshot: Snapshot, identifier: str) -> Snapshot:
    """The snapshot with the id by which the server knows the model."""
    return replace(snapshot, settings=dict(sorted({**snapshot.settings, "model_id": identifier}.items())))


def _learn(session: Session, config: Config, snapshot: Snapshot, geometry: Mapping[str, Any], source: str) -> None:
    """Adds to a configuration's model what was unknown when it was frozen, or read by a version that ignored some of
    its keys, and its name today. The configuration and its fingerprint stay what they are."""
    learned = {key: snapshot.settings[key] for key in IDENTITY_SETTINGS if key in snapshot.settings}
    if not learned.keys() <= config.settings.keys():
        config.settings = {**learned, **config.settings}
        session.add(config)
    model = config.model
    stored = model.geometry.get(FULL_GEOMETRY)
    is_better = FULL_GEOMETRY in geometry and (stored is None or "certainty" not in stored)
    if is_better or model.name != snapshot.model:
        better = _model(session, snapshot, geometry if is_better else model.geometry, source)
        config.model = better
        session.flush()  # which sets model_id


def _model(session: Session, snapshot: Snapshot, geometry: Mapping[str, Any], source: str) -> Model:
    with use(ENGLISH):  # the same geometry, whichever source it came from
        digest = hashlib.sha256(json.dumps(localized(geometry), sort_keys=True).encode()).hexdigest()
    quantization = snapshot.quantization or ""
    model = session.exec(
        select(Model).where(
            Model.name == snapshot.model, Model.quantization == quantization, Model.geometry_sha256 == digest
        )
    ).first()
    if model is None:
        model = Model(
            name=snapshot.model,
            quantization=quantization,
            geometry=dict(geometry),
            geometry_sha256=digest,
            source=source,
        )
        session.add(model)
        session.flush()
    return model


# --- which configuration continues, though less was recorded of its model then ---------------------------------------


def _continued_config(
    session: Session, server_id: int, snapshot: Snapshot, namesakes: Collection[str]
) -> Config | None:
    """Returns the newest configuration of the server that differs from `snapshot` only in what it does not state.

    One without a model id is continued only when it is unambiguous: no other model is shown with the same name, and
    none of its runs requested, or was answered by, another model.
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
    """Returns whether one of the configuration's runs was about a model of the same name under another id."""
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


# --- descriptions ----------------------------------------------------------------------------------------------------


class ConfigDescription(NamedTuple):
    """A configuration and the names of its server and machine."""

    server: str
    snapshot: Snapshot
    machine: str = ""
    frozen_fingerprint: str = ""
    machine_id: int = 0
    machine_slug: str = ""

    @property
    def fingerprint(self) -> str:
        """The fingerprint it was frozen with; what was learned of its model later is no part of it."""
        return self.frozen_fingerprint or self.snapshot.fingerprint


def describe(session: Session, server_slugs: Collection[str] | None = None) -> Mapping[int, ConfigDescription]:
    """Returns every configuration by its id, or only those of some servers."""
    return _described(session, None if server_slugs is None else frozenset(server_slugs))


@cached_query(maxsize=4)
def _described(session: Session, server_slugs: frozenset[str] | None) -> Mapping[int, ConfigDescription]:
    query = (
        select(Config, Model, Server.name, Machine)
        .join(Model, col(Model.id) == Config.model_id)
        .join(Server, col(Server.id) == Config.server_id)
        .join(Machine, col(Machine.id) == Server.machine_id)
        .order_by(col(Config.id))
    )
    if server_slugs is not None:
        query = query.where(col(Server.slug).in_(server_slugs))
    rows = session.exec(query).all()
    return {
        config.id: ConfigDescription(
            name, snapshot_of(config, model), machine.name, config.fingerprint, machine.id or 0, machine.slug
        )
        for config, model, name, machine in rows
        if config.id
    }


def short_config_labels(session: Session, server_slugs: Collection[str]) -> dict[int, str]:
    """Returns for each configuration of these servers the settings and labels in which its model's configurations
    differ there.

    Empty when there is nothing to distinguish, or only the engine, which lists name anyway.
    """
    groups: dict[tuple[str, str, str | None], dict[int, Snapshot]] = {}
    for key, described in describe(session, server_slugs).items():
        snapshot = described.snapshot
        bare = replace(snapshot, engine="", engine_version=None)
        groups.setdefault((described.server, snapshot.model, snapshot.quantization), {})[key] = bare
    return {
        key: " · ".join(texts) for group in groups.values() for key, texts in distinguishing_settings(group).items()
    }


def config(session: Session, fingerprint: str, server_slug: str | None = None) -> Config:
    """Finds a configuration by its fingerprint or the beginning of one; without a server, the newest. Raises
    NotFound."""
    query = select(Config).join(Server, col(Server.id) == Config.server_id).order_by(col(Config.id).desc())
    query = query.where(col(Config.fingerprint).startswith(fingerprint, autoescape=True))
    if server_slug:
        query = query.where(Server.slug == server_slug)
    matches = session.exec(query.limit(2)).all()
    if not matches or len({match.fingerprint for match in matches}) > 1:
        on_server = N_("There is no configuration {fingerprint!r} here.")
        message = on_server if server_slug else N_("There is no configuration {fingerprint!r}.")
        raise NotFound(_(message, fingerprint=fingerprint[:12]))
    return matches[0]


def other_servers(session: Session, config: Config) -> list[Server]:
    """Returns the other servers on which the same configuration was measured, by name."""
    query = select(Server).join(Config, col(Config.server_id) == Server.id).order_by(Server.name)
    same = query.where(Config.fingerprint == config.fingerprint, Config.server_id != config.server_id)
    return list(session.exec(same).all())


_AT_ONCE = 500
"""The most runs in one statement: databases limit its parameters."""


def split_models(session: Session, server_id: int | None = None) -> int:
    """Splits the configurations of one server, or of all, by model id. Returns how many runs have another configuration
    now.

    A run belongs to the id that it requested, or that answered it; a run for which neither is known well enough stays
    where it is.
    """
    unnamed = select(Config.id).where(col(Config.settings)["model_id"].as_string().is_(None))
    if server_id is not None:
        unnamed = unnamed.where(Config.server_id == server_id)
    asked = col(Run.plan)["model"].as_string()
    query = select(col(Run.config_id), asked).where(col(Run.config_id).in_(unnamed)).distinct()
    # no run requested an id: the server is taken to have had one model
    config_ids = {config_id for config_id, identifier in session.exec(query) if config_id and _is_full(identifier)}
    moved = 0
    for config_id in sorted(config_ids):
        rows = session.exec(select(col(Run.id), asked).where(Run.config_id == config_id))
        moved += _split(session, config_id, {run_id: _full(identifier) for run_id, identifier in rows if run_id})
    return moved


def _split(session: Session, config_id: int, ids: dict[int, str | None]) -> int:
    if None in ids.values():
        answered = _answered(session, config_id)
        ids = {run_id: identifier or answered.get(run_id) for run_id, identifier in ids.items()}
    counts = Counter(identifier for identifier in ids.values() if identifier is not None)
    if len(counts) < 2:
        return 0
    config = session.get_one(Config, config_id)
    model = config.model
    frozen = snapshot_of(config, model)
    # the model with the most runs keeps the configuration, unless some of its runs may be of another model
    *_leaving, most = ordered = sorted(counts, key=lambda identifier: (counts[identifier], identifier))
    moved = 0
    for identifier in ordered:
        may_stay = identifier == most and None not in ids.values()
        namesakes = [] if may_stay else [candidate for candidate in counts if candidate != identifier]
        named = with_model_id(frozen, identifier)
        target = freeze(session, config.server_id, named, model.geometry, model.source, namesakes)
        if target.id != config_id:
            run_ids = [run_id for run_id, of_run in ids.items() if of_run == identifier]
            _move(session, run_ids, target)
            moved += len(run_ids)
    return moved


def _move(session: Session, run_ids: Sequence[int], config: Config) -> None:
    for start in range(0, len(run_ids), _AT_ONCE):
        chunk = run_ids[start : start + _AT_ONCE]
        session.exec(update(Run).where(col(Run.id).in_(chunk)).values(config_id=config.id))


def _answered(session: Session, config_id: int) -> dict[int, str]:
    """Returns the one id that answered each run of a configuration, for runs where it is known well enough."""
    model = col(SampleRow.record)["trace"]["model"].as_string()
    rows = session.exec(
        select(col(SampleRow.run_id), model)
        .join(Run, col(Run.id) == col(SampleRow.run_id))
        .where(Run.config_id == config_id)
        .distinct()
    )
    answers: dict[int, set[str | None]] = defaultdict(set)
    for run_id, identifier in rows:
        answers[run_id].add(identifier)
    single = {run_id: next(iter(of_run)) for run_id, of_run in answers.items() if len(of_run) == 1}
    return {run_id: identifier for run_id, identifier in single.items() if identifier and _is_full(identifier)}


def _full(identifier: str | None) -> str | None:
    return identifier if _is_full(identifier) else None


def _is_full(identifier: object) -> bool:
    """Whether an id includes what distinguishes it from another one of that name: a backend, a publisher, a tag. A path
    may also be an alias."""
    return isinstance(identifier, str) and not is_file_path(identifier) and bool({"/", ":"} & set(identifier))
