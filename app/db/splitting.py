"""Configurations of before ids were recorded that hold runs of several models of a server: each model gets its own.

`gpu0/llama-3-8b` and `cpu/llama-3-8b` were one configuration then. Joined, they would be a level shift in a history,
and the scatter between their runs would be taken for that of every configuration of the machine.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from sqlmodel import Session, col, select, update

from app.core.configuration import is_file_path
from app.db import configs
from app.db.configs import snapshot_of
from app.db.tables import Config, Run, SampleRow

_AT_ONCE = 500
"""Runs in one statement: databases limit its parameters."""


def split_models(session: Session, server_id: int | None = None) -> int:
    """Of one server, or of all. Returns how many runs have another configuration now.

    A run belongs to the id that it asked for, or that answered it; one of which neither tells enough stays where it is.
    """
    unnamed = select(Config.id).where(col(Config.settings)["model_id"].as_string().is_(None))
    if server_id is not None:
        unnamed = unnamed.where(Config.server_id == server_id)
    asked = col(Run.plan)["model"].as_string()
    query = select(col(Run.config_id), asked).where(col(Run.config_id).in_(unnamed)).distinct()
    # where nobody asked for an id, the server had one model as far as anybody knows
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
    # the model with the most runs keeps the configuration, unless some of its runs may be of another one
    *_leaving, most = ordered = sorted(counts, key=lambda identifier: (counts[identifier], identifier))
    moved = 0
    for identifier in ordered:
        may_stay = identifier == most and None not in ids.values()
        namesakes = [] if may_stay else [candidate for candidate in counts if candidate != identifier]
        named = configs.with_model_id(frozen, identifier)
        target = configs.freeze(session, config.server_id, named, model.geometry, model.source, namesakes)
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
    """The one id that answered each run of a configuration, where it tells enough."""
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
    """With what tells it from another one of that name: a backend, a publisher, a tag. A path may also be an alias."""
    return isinstance(identifier, str) and not is_file_path(identifier) and bool({"/", ":"} & set(identifier))
