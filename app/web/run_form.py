"""The form that queues runs: what it offers for a server, and what the chosen runs would take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from app.core.config_settings import (
    DEFAULT,
    IDENTITY_SETTINGS,
    SETTINGS,
    Setting,
    SettingValue,
    ordered_setting_keys,
    parse_setting_value,
)
from app.core.errors import BadInput
from app.core.i18n import _, joined
from app.core.units import plural
from app.db import runs, servers, suites
from app.db.tables import Run, Server
from app.measure.config_snapshot import OVERRIDES
from app.measure.job import left_out
from app.results.run_time import Basis, EarlierRuns
from app.suites import Case, Suite, brief_title
from app.web.forms import Fields, WrongField

SETTING = "setting_"
"""What the name of a setting's field begins with."""
_NEVER_ASKED = (*IDENTITY_SETTINGS, "runs_on", "gateway", "recipe", "devices", "gpu_share", "gpu_weight_mib")


@dataclass(frozen=True)
class SettingsView:
    """The settings of a server and its model: what nobody knows first, then what a person stated."""

    unknown: Sequence[Setting]
    """Every server runs with some value of each."""
    stated: Sequence[Setting]
    optional: Sequence[Setting]
    """Most servers run without."""
    reported: Mapping[str, Any]
    """By key; they cannot be changed here."""


@dataclass(frozen=True)
class Chosen:
    """The server and the model that the form is about."""

    server: Server
    models: Sequence[Mapping[str, Any]]
    model_id: str | None
    """None where the server lists no model."""
    settings: SettingsView
    form: Fields
    """With the stated settings, and those of the run that is measured again."""
    like: Run | None
    """The run that is measured again with a change."""


@dataclass(frozen=True)
class LeftOut:
    """A point that the server's context leaves out."""

    suite: Suite
    point: str
    reason: str


@dataclass(frozen=True)
class RunPlan:
    """What the chosen runs are and how long they take."""

    run_count: int
    order: Sequence[Suite]
    """The first runs, in their order."""
    seconds: float | None
    """Of all runs; None where that is unknown."""
    basis: str
    """One sentence: what the time was estimated from, or why it is unknown."""
    left_out: Sequence[LeftOut]
    refusals: Sequence[str]
    """One sentence for each suite of which no point fits."""


def last_used(session: Session, all_servers: Sequence[Server]) -> Server | None:
    """The server of these that was measured last, else the first one; None where there is none."""
    by_id = {server.id: server for server in all_servers}
    newest_id = runs.newest_server(session, [server_id for server_id in by_id if server_id is not None])
    return by_id.get(newest_id) or next(iter(all_servers), None)


def chosen_of(session: Session, server: Server, form: Fields) -> Chosen:
    """What the form shows of a server. An unknown model or run in the form counts as none."""
    models = server.facts.get("models") or []
    ids = [model.get("id") for model in models]
    requested_id = form.get("model") or server.model
    model_id = requested_id if requested_id in ids else next(iter(ids), None)
    stated = servers.stated_settings(server, model_id)
    reported = _reported(server, model_id)
    like = runs.find(session, form.get("like"))
    frozen = like.config.settings if like and like.config else {}
    of_run = {key: value for key, value in frozen.items() if key not in reported and value != DEFAULT}
    values = {**stated, **of_run}
    typed = form.starting_with(SETTING)
    filled = [*form.items(), *((SETTING + key, str(value)) for key, value in values.items() if key not in typed)]
    return Chosen(server, models, model_id, _settings_view(reported, values), Fields(filled), like)


def _reported(server: Server, model_id: str | None) -> dict[str, Any]:
    """The settings that the last probe reported of the server and this model, or read of its process."""
    models: Sequence[Mapping[str, Any]] = server.facts.get("models") or []
    model: Mapping[str, Any] = next((model for model in models if model.get("id") == model_id), {})
    context = server.facts.get("context_tokens") or model.get("context_tokens")
    reported = {**servers.reported_settings(server), **(model.get("settings") or {}), "context": context}
    return {key: reported[key] for key in ordered_setting_keys(reported) if reported[key] is not None}


def _settings_view(reported: Mapping[str, Any], values: Mapping[str, Any]) -> SettingsView:
    asked = [setting for key, setting in SETTINGS.items() if key not in reported and key not in _NEVER_ASKED]
    others = [key for key in sorted(values) if key not in SETTINGS and key not in reported and key not in OVERRIDES]
    return SettingsView(
        unknown=[setting for setting in asked if setting.is_always_set and setting.key not in values],
        stated=[
            *(setting for setting in asked if setting.key in values),
            *(Setting(key, key) for key in others),
        ],
        optional=[
            setting
            for setting in asked
            if not setting.is_always_set and setting.is_in_form and setting.key not in values
        ],
        reported={key: value for key, value in reported.items() if key not in IDENTITY_SETTINGS},
    )


def changed_settings(session: Session, form: Fields) -> dict[str, SettingValue | None]:
    """The settings of the form that differ from those stated before; None for one to forget. Raises BadInput."""
    server = servers.server(session, form.get("server"))
    ids = [model.get("id") for model in server.facts.get("models") or []]
    model_id = form.get("model") or server.model or next(iter(ids), None)
    stated = servers.stated_settings(server, model_id)
    changes: dict[str, SettingValue | None] = {}
    for key, text in form.starting_with(SETTING).items():
        try:
            value = parse_setting_value(key, text)
        except BadInput as error:
            raise WrongField(str(error), SETTING + key) from None
        if value != stated.get(key):
            changes[key] = value
    return changes


# --- what the runs take ----------------------------------------------------------------------------------------------


def plan_of(session: Session, chosen: Chosen, form: Fields) -> RunPlan:
    """What the runs that the form asks for are. What is wrongly typed counts as not typed: sending it says so."""
    count = min(_count(form, "runs") or 1, runs.MAX_QUEUED_AT_ONCE)
    context = _reported(chosen.server, chosen.model_id).get("context")
    assert chosen.server.id is not None
    earlier = EarlierRuns(session, chosen.server.id, chosen.model_id)
    lacking, refusals, order, times = [], [], [], []
    for suite in chosen_suites(session, form):
        missing = left_out(suite, context)
        if len(missing) == len(suite.cases):
            refusals.append(missing[0][1])
            continue
        lacking += [LeftOut(suite, brief_title(case.point), reason) for case, reason in missing]
        order.append(suite)
        times.append(earlier.time_of(suite, _fitting(suite, missing)))
    seconds = sum(time.seconds for time in times if time) * count if times and all(times) else None
    bases = {time.basis if time else None for time in times}
    return RunPlan(count * len(order), order * min(count, 2), seconds, _basis_words(bases), lacking, refusals)


def chosen_suites(session: Session, form: Fields) -> list[Suite]:
    """The chosen suites, as often repeated as the form says, in the order of the form; unknown ones are left out."""
    keys = form.all("suite")
    chosen = [suite for suite in suites.list_suites(session) if suite.key in keys]
    try:
        return [suite.with_counts(_count(form, "repetitions"), _count(form, "warmups")) for suite in chosen]
    except BadInput:  # sending the form says what is wrong
        return chosen


def _count(form: Fields, name: str) -> int | None:
    try:
        return form.integer(name, name)
    except BadInput:  # sending the form says so
        return None


def _fitting(suite: Suite, missing: Sequence[tuple[Case, str]]) -> list[Case]:
    absent = [case for case, _reason in missing]
    return [case for case in suite.cases if case not in absent]


def _basis_words(bases: set[Basis | None]) -> str:
    if not bases:
        return ""
    if None in bases:
        return _("How long it takes is unknown: this server was not measured with this model yet.")
    if bases == {Basis.RUNS}:
        return _("As long as earlier runs of the same took on this server.")
    return _("Estimated from the speeds that this server had in earlier runs.")


def order_words(plan: RunPlan) -> str:
    """The order of the runs in words; empty for a single one."""
    if plan.run_count < 2:
        return ""
    names = joined(*(suite.key for suite in plan.order), by=", ")
    if plan.run_count > len(plan.order):
        names = joined(names, "…", by=", ")
    return _("{runs}, one after another: {order}", runs=plural(plan.run_count, "run"), order=names)
