"""The one part of the explorer that reads the database."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlmodel import Session

from app.core.samples import Workload
from app.db.configs import Described
from app.db.continuation import snapshot_of
from app.results.ceiling import CeilingRequest, decode_ceilings
from app.results.explore import observations as store
from app.results.explore.aggregate import ExploreResult, aggregate, metrics_of
from app.results.explore.field import Field, GroupContext
from app.results.explore.observations import FrozenConfig, GroupKey, Inventory
from app.results.explore.query import Preset, View, parse_view, rank_presets
from app.results.explore.registry import registry
from app.results.naming import distinct_titles

Relabel = Callable[[Inventory, GroupKey, GroupContext], GroupContext]
"""How a place is to be seen: with other names, say, by people who are not to know them."""


def no_relabel(_known: Inventory, _place: GroupKey, spot: GroupContext) -> GroupContext:
    return spot


class Exploration(NamedTuple):
    sheet: ExploreResult
    problems: list[str]
    """One sentence for each value of the address that makes no sense."""
    fields: dict[str, Field]
    presets: list[tuple[Preset, bool]]
    """Those with data first, and whether each has any."""
    known: Inventory


def explore(
    session: Session, given: Mapping[str, str], engine_titles: Mapping[str, str], dress: Relabel = no_relabel
) -> Exploration:
    """What an address asks for; without x, y and series the first preset that has data."""
    known = store.load_inventory(session)
    fields = registry(frozen.config for frozen in known.configs.values())
    presets = rank_presets(store.measured_points(session), fields)
    view, problems = parse_view(given, fields, presets[0][0].view)
    return Exploration(_sheet(session, view, known, fields, engine_titles, dress), problems, fields, presets, known)


def _sheet(
    session: Session,
    view: View,
    known: Inventory,
    fields: Mapping[str, Field],
    engine_titles: Mapping[str, str],
    dress: Relabel,
) -> ExploreResult:
    used = [fields[name] for name in (view.y, view.x, view.series) if name]
    is_main_only = not any(field.is_of_point for field in used)
    found = store.load_observations(
        session,
        view.where,
        metrics_of(used),
        view.source,
        is_main_only,
        with_time=any(field.kind == "time" for field in used),
    )
    spots = _spots(session, list(found.observations), known, used, engine_titles)
    spots = {place: dress(known, place, spot) for place, spot in spots.items()}
    return aggregate(view, fields, found, spots, is_main_only)


def _spots(
    session: Session,
    places: Sequence[GroupKey],
    known: Inventory,
    used: Sequence[Field],
    engine_titles: Mapping[str, str],
) -> dict[GroupKey, GroupContext]:
    frozen = {place.config_id: known.configs[place.config_id] for place in places}
    needs = {field.needs for field in used}
    titles = _titles(frozen, known, engine_titles) if "title" in needs else {}
    points = {place.point_key: Workload.from_key(place.point_key) for place in places}
    ceilings: list[float | None] = [None] * len(places)
    if "ceiling" in needs:
        stands = [
            CeilingRequest(
                known.machines[p.machine_id], frozen[p.config_id].config, frozen[p.config_id].told, points[p.point_key]
            )
            for p in places
        ]
        ceilings = decode_ceilings(session, stands)
    return {
        place: GroupContext(
            config=frozen[place.config_id].config,
            model=frozen[place.config_id].model,
            told=frozen[place.config_id].told,
            title=titles.get(place.config_id, ""),
            machine=known.machine_title(place.machine_id),
            server=known.server_title(frozen[place.config_id].server),
            engine=engine_titles.get(frozen[place.config_id].config.engine, frozen[place.config_id].config.engine),
            suite=place.suite_key,
            point=points[place.point_key],
            labels=known.labels_of(place),
            decode_ceiling=ceiling,
        )
        for place, ceiling in zip(places, ceilings, strict=True)
    }


def _titles(frozen: Mapping[int, FrozenConfig], known: Inventory, engine_titles: Mapping[str, str]) -> dict[int, str]:
    described = {
        config_id: Described(
            known.server_title(each.server),
            snapshot_of(each.config, each.model),
            frozen_fingerprint=each.config.fingerprint,
        )
        for config_id, each in frozen.items()
    }
    return distinct_titles(described, engine_titles)
