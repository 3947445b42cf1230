"""Restarts of measured servers: noticed when a run freezes its configuration, and asked about once.

A server that was started again may have other settings. Where some of the usual ones are unknown, a person is asked
what they changed; the run's evidence holds the question and its answer:

    process   {"pid", "started_at"} of the server's process, where it was seen
    counters  {"since", "prompt_tokens", ...}: what the server had counted after the run
    restart   {"unknown": [keys of settings], "answered": None | "settings" | "nothing"}
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlmodel import Session, col, select, update

from app.core.config_settings import SETTINGS
from app.core.errors import BadInput, Conflict
from app.core.i18n import _
from app.db import configs, runs, servers
from app.db.tables import ENDED_STATES, Config, Model, Run

CLOCK_TOLERANCE_S = 5.0
"""How far the start time of one process may differ between two readings: it is reckoned from the machine's clock."""
COUNTED = ("prompt_tokens", "cached_prompt_tokens", "output_tokens", "requests")
NOTHING, SETTINGS_STATED = "nothing", "settings"
_LOOK_BACK = 20


def unknown_settings(settings: Mapping[str, Any]) -> list[str]:
    """The usual settings that a configuration does not state, by their keys."""
    return [key for key, setting in SETTINGS.items() if setting.is_always_set and key not in settings]


def was_restarted(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a server was started again between two runs, by their evidence; False where that does not show it.

    >>> was_restarted({"process": {"pid": 7, "started_at": 1e9}}, {"process": {"pid": 9, "started_at": 2e9}})
    True
    >>> was_restarted({"counters": {"requests": 12.0}}, {"counters": {"requests": 12.0}})
    False
    """
    return _is_other_process(before.get("process"), after.get("process")) or _began_anew(
        before.get("counters"), after.get("counters_before", after.get("counters"))
    )


def _is_other_process(before: Any, after: Any) -> bool:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    started = (before.get("started_at"), after.get("started_at"))
    if not all(isinstance(moment, int | float) for moment in started):
        return False
    return before.get("pid") != after.get("pid") or abs(started[0] - started[1]) > CLOCK_TOLERANCE_S  # type: ignore[operator]  # numbers, as was just seen


def _began_anew(before: Any, after: Any) -> bool:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    since = [counters.get("since") for counters in (before, after)]
    if None not in since and abs(since[0] - since[1]) > CLOCK_TOLERANCE_S:  # type: ignore[operator]  # numbers
        return True
    return any(
        before.get(name) is not None and after.get(name) is not None and after[name] < before[name] for name in COUNTED
    )


def noticed(session: Session, run: Run, config: Config, evidence: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the question about the restart between the server's last run of this model and `run`, which is about to
    freeze `config`; None where none was seen, or nothing is unknown."""
    unknown = unknown_settings(config.settings)
    if not unknown:
        return None
    model = session.get_one(Model, config.model_id)
    last = session.exec(
        select(Run.evidence)
        .join(Config, col(Config.id) == col(Run.config_id))
        .join(Model, col(Model.id) == col(Config.model_id))
        .where(Run.server_id == run.server_id, col(Run.id) != run.id, Model.name == model.name)
        .where(col(Run.started_at).is_not(None))
        .order_by(col(Run.id).desc())
        .limit(1)
    ).first()
    if last is None or not was_restarted(last, evidence):
        return None
    return {"unknown": unknown, "answered": None}


def question(run: Run) -> Sequence[str]:
    """The keys of the settings that a run's open question is about; empty where there is none, and until it has
    ended."""
    restart = run.evidence.get("restart")
    if not isinstance(restart, dict) or restart.get("answered") is not None or run.status not in ENDED_STATES:
        return ()
    return [key for key in restart.get("unknown", ()) if key in SETTINGS]


def open_run(session: Session, server_id: int) -> Run | None:
    """Returns the newest of a server's last runs with an open question; a later restart takes the place of it."""
    newest = select(Run).where(Run.server_id == server_id).order_by(col(Run.id).desc()).limit(_LOOK_BACK)
    last = next((run for run in session.exec(newest) if "restart" in run.evidence), None)
    return last if last is not None and question(last) else None


def answer(session: Session, public_id: str, settings: Mapping[str, Any]) -> Run:
    """Stores what a person changed before a run: it is stated from that run on, and the runs since have a configuration
    with it. Without settings nothing was changed. Raises NotFound, BadInput, and Conflict for a question that is not
    open."""
    run = runs.run(session, public_id)
    unknown = question(run)
    if not unknown or run.config is None:
        raise Conflict(_("This question was answered already."))
    if not settings.keys() <= set(unknown):
        raise BadInput(_("This setting was not asked for."))
    if settings:
        of_model = run.config.settings.get("model_id") if len(run.server.facts.get("models", ())) > 1 else None
        servers.remember(session, run.server_id, settings=settings, model_id=of_model)
        _refreeze(session, run, settings)
    answered = SETTINGS_STATED if settings else NOTHING
    run.evidence = {**run.evidence, "restart": {**run.evidence["restart"], "answered": answered}}
    session.add(run)
    return run


def _refreeze(session: Session, run: Run, settings: Mapping[str, Any]) -> None:
    """Gives this run, and those after it with its configuration, one with these settings. No configuration changes."""
    config = run.config
    assert config is not None
    assert config.id is not None
    model = config.model
    snapshot = configs.snapshot_of(config, model)
    complete = replace(snapshot, settings=dict(sorted({**settings, **snapshot.settings}.items())))
    target = configs.freeze(session, config.server_id, complete, model.geometry, model.source)
    since = update(Run).where(col(Run.config_id) == config.id, col(Run.id) >= run.id)
    session.exec(since.values(config_id=target.id))
    session.expire(run, ["config"])
