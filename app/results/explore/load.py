"""The explorer's only entry: from the parameters of an address to the result, in few queries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlmodel import Session

from app.core.configuration import model_names
from app.core.samples import Workload
from app.db.configs import ConfigDescription, snapshot_of
from app.results.ceiling import CeilingRequest, decode_ceilings
from app.results.explore import observations as store
from app.results.explore.aggregate import ExploreResult, aggregate, metrics_of
from app.results.explore.observations import GroupKey, Inventory
from app.results.explore.query import Preset, parse_view, rank_presets
from app.results.fields.field import Field, RunContext
from app.results.fields.registry import explorer_fields
from app.results.hardware import timelines
from app.results.naming import distinct_titles

Relabel = Callable[[Inventory, GroupKey, RunContext], RunContext]
"""Renames a context's parts, for readers who may not know the real names."""


def no_relabel(_inventory: Inventory, _group_key: GroupKey, context: RunContext) -> RunContext:
    return context


class Exploration(NamedTuple):
    result: ExploreResult
    problems: list[str]
    """One sentence for each value of the address that makes no sense."""
    fields: dict[str, Field]
    presets: list[tuple[Preset, bool]]
    """The presets, those with data first, and whether each has data."""
    inventory: Inventory


def explore(
    session: Session, parameters: Mapping[str, str], engine_titles: Mapping[str, str], relabel: Relabel = no_relabel
) -> Exploration:
    """Returns the result for the parameters of an address; without x, y and series the first preset that has data."""
    inventory = store.load_inventory(session)
    fields = explorer_fields(frozen.config for frozen in inventory.configs.values())
    ranked = _presets(session, inventory, fields)
    first = next(preset for preset, _has_data in ranked if preset.page == "explore")
    view, problems = parse_view(parameters, fields, first.view)
    used = [fields[key] for key in (view.y, view.x, view.series) if key]
    is_main_only = all(field.of_workload is None for field in used)
    observation_set = store.load_observations(
        session,
        view.where,
        metrics_of(used),
        view.source,
        is_main_only,
        with_time=view.mark == "latest"
        or any(field.kind == "time" for field in used)
        or bool(timelines(session).all_changes()),
    )
    observation_set = store.by_hardware(session, observation_set, inventory)
    group_keys = list(observation_set.observations)
    contexts = {
        group_key: relabel(inventory, group_key, context)
        for group_key, context in _contexts(session, group_keys, inventory, used, engine_titles).items()
    }
    ages = store.newest_starts(session)
    result = aggregate(view, fields, observation_set, contexts, is_main_only, ages)
    return Exploration(result, problems, fields, ranked, inventory)


def presets(session: Session) -> list[tuple[Preset, bool]]:
    """Returns the presets, those with data first, and whether each has data."""
    inventory = store.load_inventory(session)
    return _presets(session, inventory, explorer_fields(frozen.config for frozen in inventory.configs.values()))


def _presets(session: Session, inventory: Inventory, fields: Mapping[str, Field]) -> list[tuple[Preset, bool]]:
    configs = [frozen.config for frozen in inventory.configs.values()]
    return rank_presets(store.measured_points(session), fields, configs)


def _contexts(
    session: Session,
    group_keys: Sequence[GroupKey],
    inventory: Inventory,
    used: Iterable[Field],
    engine_titles: Mapping[str, str],
) -> dict[GroupKey, RunContext]:
    """Returns the context that the fields in use are read from, for each group of observations."""
    needs = {field.needs for field in used}
    frozen_configs = {group_key.config_id: inventory.configs[group_key.config_id] for group_key in group_keys}
    described = {
        config_id: ConfigDescription(
            inventory.server_title(frozen.server),
            snapshot_of(frozen.config, frozen.model),
            frozen_fingerprint=frozen.config.fingerprint,
        )
        for config_id, frozen in frozen_configs.items()
    }
    names = _model_names(inventory)
    titles = distinct_titles(described, engine_titles) if "config_title" in needs else {}
    workloads = {group_key.point_key: Workload.from_key(group_key.point_key) for group_key in group_keys}
    ceilings: Sequence[float | None] = [None] * len(group_keys)
    if "ceiling" in needs:
        ceilings = decode_ceilings(session, [_ceiling_request(key, inventory, workloads) for key in group_keys])
    return {
        group_key: RunContext(
            snapshot=described[config_id].snapshot,
            engine=engine_titles.get(frozen.config.engine, frozen.config.engine),
            machine=inventory.machine_title(group_key.machine_id),
            server=described[config_id].server,
            suite=group_key.suite_key,
            labels=inventory.labels_of(group_key),
            workload=workloads[group_key.point_key],
            config_title=titles.get(config_id, ""),
            model_name=names[config_id],
            hardware=group_key.hardware,
            geometry=frozen.geometry,
            reported_parameters=frozen.model.geometry.get("parameters"),
            decode_ceiling=ceiling,
        )
        for group_key, ceiling in zip(group_keys, ceilings, strict=True)
        for config_id, frozen in ((group_key.config_id, frozen_configs[group_key.config_id]),)
    }


def _model_names(inventory: Inventory) -> dict[int, str]:
    """Returns the name of each configuration's model, in full where several models of the notebook share it."""
    snapshots = [snapshot_of(frozen.config, frozen.model) for frozen in inventory.configs.values()]
    return dict(zip(inventory.configs, model_names(snapshots), strict=True))


def _ceiling_request(group_key: GroupKey, inventory: Inventory, workloads: Mapping[str, Workload]) -> CeilingRequest:
    frozen = inventory.configs[group_key.config_id]
    machine = inventory.machines[group_key.machine_id]
    return CeilingRequest(machine, frozen.config, frozen.geometry, workloads[group_key.point_key])
