"""What no mark and no line of the explorer mixes unless it is asked to, and what is left out where that is too much.

A part is a circumstance in which runs differ: the machine, its hardware, the engine's version, the length of the
prompt. Runs that differ in one of them are in lines of their own. Where those would be too many, only the newest or
most measured are shown, and what was left out is counted.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.core.config_settings import IDENTITY_SETTINGS, format_setting, ordered_setting_keys, setting_title
from app.core.i18n import N_, _, enumerated, joined
from app.results.explore.query import PARTS, View
from app.results.fields.configuration import SETTING_PREFIX
from app.results.fields.field import Field, FieldValue, RunContext, natural_key

MAX_LINES = 6
"""More lines than this cannot be told apart, so that earlier builds and rarer prompts are left out."""

_OF_MODEL = ("model", "quantization", "settings")
_OF_MACHINE = ("machine", "hardware", "engine", "engine_version", "settings")
VARYING: Mapping[str, Collection[str]] = {
    "machine": _OF_MACHINE,
    "server": _OF_MACHINE,
    "engine": ("engine", "engine_version", "settings"),
    "engine_version": ("engine", "engine_version"),
    **dict.fromkeys(("model", "variant", "parameters", "active_parameters"), _OF_MODEL),
    **dict.fromkeys(("quantization", "bits_per_weight"), ("quantization", "settings")),
    "configuration": (*_OF_MODEL, *_OF_MACHINE),
    "suite": ("prompt_tokens",),
    "prompt_tokens": ("prompt_tokens",),
    "context_tokens": ("prompt_tokens",),
}
"""The parts that belong to a field on the x axis: they may differ along a line, though not within a mark."""
NAMES_MACHINE = ("machine", "server", "configuration")
"""Fields of series whose values name the machine."""
OF_TIME = ("hardware", "engine_version")
"""Over time these only interrupt a line."""
_AGE = ("hardware", "engine_version")
_TITLES = {
    "machine": N_("machine"),
    "model": N_("model"),
    "quantization": N_("quantization"),
    "engine": N_("engine"),
    "hardware": N_("hardware"),
    "engine_version": N_("engine version"),
    "prompt_tokens": N_("prompt length"),
    "settings": N_("settings"),
}


def part_title(key: str) -> str:
    """Returns the name of a part inside a sentence, in the reader's language."""
    return _(_TITLES[key])


def mixed_words(view: View) -> str:
    """Returns the parts that a view mixes, in words; empty when it mixes none."""
    keys = [key for key in PARTS if key in view.mixed]
    return enumerated(map(part_title, keys)) if keys else ""


@dataclass
class Group:
    """Observations that share a context."""

    context: RunContext
    series: FieldValue | None
    x: FieldValue | None
    """None where x differs from run to run."""
    observations: int
    """Those with a value of x and of y."""
    age: tuple[Any, ...] = ()
    """Sorts groups by when they were measured last."""
    values: dict[str, FieldValue | None] = field(default_factory=dict)
    """The value of each part by which lines are split."""
    interruption: tuple[FieldValue | None, ...] = ()
    """What interrupts a line over time."""

    @property
    def line(self) -> tuple[Any, ...]:
        return (self.series, *self.values.values())


class Narrowing(NamedTuple):
    """What was left out because there would have been too many lines."""

    parts: tuple[str, ...]
    observations: int
    only_value: FieldValue | None
    """The one value that is left in all lines; None where each line has its own."""

    @property
    def key(self) -> str:
        """The value of the parameter `every` that shows them all."""
        return ",".join(self.parts)


def split(groups: Sequence[Group], view: View, x: Field, series: Field | None) -> tuple[str, ...]:
    """Gives each group the values of the parts that its line must not mix; returns the keys of these parts.

    A part in which all runs of a line agree anyway is none of them, but for the machine.
    """
    mixed = view.mixed | ({"hardware"} if "machine" in view.mixed else set())
    separate_keys = [key for key in PARTS if key not in mixed]
    without_settings = {key.removeprefix(SETTING_PREFIX) for key in (view.x, view.series or "")}
    active = []
    for key in separate_keys:
        if x.kind == "time" and key in OF_TIME:
            continue
        varies_along = key in VARYING.get(view.x, ())
        places: dict[tuple[Any, ...], list[Group]] = defaultdict(list)
        for group in groups:
            places[(*group.line, group.x) if varies_along else group.line].append(group)
        if key == "settings":
            values = _settings_values(places.values(), without_settings)
        else:
            values = {id(group): _value(key, group.context) for group in groups}
        is_everywhere = key == "machine" and not varies_along and (series is None or series.key not in NAMES_MACHINE)
        within: Iterable[Sequence[Group]] = [groups] if is_everywhere else places.values()
        if any(len({values[id(group)] for group in members}) > 1 for members in within):
            active.append(key)
            for group in groups:
                group.values[key] = values[id(group)]
    if x.kind == "time":
        for group in groups:
            group.interruption = tuple(_value(key, group.context) for key in OF_TIME if key in separate_keys)
    return tuple(active)


def _value(key: str, context: RunContext) -> FieldValue | None:
    readers: dict[str, FieldValue | None] = {
        "machine": context.machine or None,
        "model": context.model_name or context.snapshot.model or None,
        "quantization": context.snapshot.quantization,
        "engine": context.engine or None,
        "hardware": context.hardware or None,
        "engine_version": _version(context),
        "prompt_tokens": context.workload.prompt_tokens,
    }
    return readers[key]


def _version(context: RunContext) -> str | None:
    version = context.snapshot.engine_version
    return version and _("{engine} {version}", engine=context.engine, version=version)


# --- settings --------------------------------------------------------------------------------------------------------


def _settings_values(places: Iterable[Sequence[Group]], without: Collection[str]) -> dict[int, FieldValue | None]:
    """Returns for each group, by its id, the settings in which it differs from others at its place, in words."""
    values: dict[int, FieldValue | None] = {}
    for groups in places:
        settings = [_settings(group.context, without) for group in groups]
        differing = {key for key in set().union(*settings) if len({repr(own.get(key)) for own in settings}) > 1}
        keys = ordered_setting_keys(differing)
        for group, own in zip(groups, settings, strict=True):
            phrases = (_("{title} {value}", title=_title(key), value=format_setting(own.get(key), key)) for key in keys)
            values[id(group)] = joined(*phrases, by=", ") or None
    return values


_LABELS = "labels"


def _title(key: str) -> str:
    return _("Labels") if key == _LABELS else setting_title(key)


def _settings(context: RunContext, without: Collection[str]) -> dict[str, Any]:
    """Returns what a person set: not what identifies the weights, nor a gateway's version."""
    snapshot = context.snapshot
    settings = {key: value for key, value in snapshot.settings.items() if key not in {*IDENTITY_SETTINGS, *without}}
    if "gateway" in settings:
        settings["gateway"] = re.sub(r" \S*\d\S*$", "", str(settings["gateway"]))
    return settings | ({_LABELS: ", ".join(sorted(snapshot.labels))} if snapshot.labels else {})


# --- too many lines --------------------------------------------------------------------------------------------------


def narrow(groups: Sequence[Group], view: View, active: Collection[str]) -> tuple[list[Group], list[Narrowing]]:
    """Leaves out earlier builds and hardware, then rarer prompts, then earlier settings, while lines are too many."""
    remaining, narrowings = list(groups), []
    for parts in (_AGE, ("prompt_tokens",), ("settings",)):
        keys = tuple(key for key in parts if key in active and key not in view.shown_apart)
        if not keys or _lines(remaining) <= MAX_LINES:
            continue
        chosen = _most_measured(remaining, keys[0]) if keys == ("prompt_tokens",) else _newest(remaining, keys, view.x)
        is_enough = keys != ("settings",) or _lines(chosen) <= MAX_LINES  # else it would only take away
        if _lines(chosen) < _lines(remaining) and is_enough:
            remaining_values = {tuple(group.values[key] for key in keys) for group in chosen}
            left_out = sum(group.observations for group in remaining) - sum(group.observations for group in chosen)
            only_value = next(iter(remaining_values))[-1] if len(remaining_values) == 1 else None
            narrowings.append(Narrowing(keys, left_out, only_value))
            remaining = chosen
    return remaining, narrowings


def _lines(groups: Iterable[Group]) -> int:
    return len({group.line for group in groups})


def _newest(groups: Sequence[Group], keys: Collection[str], x: str) -> list[Group]:
    """Returns of each line, or of each mark where the parts vary along lines, the runs that share the newest values."""
    varies_along = set(keys) <= set(VARYING.get(x, ()))

    def place(group: Group) -> Hashable:
        rest = tuple(value for key, value in group.values.items() if key not in keys)
        return (group.series, rest, group.x if varies_along else None)

    newest: dict[Hashable, Group] = {}
    for group in groups:
        if place(group) not in newest or group.age > newest[place(group)].age:
            newest[place(group)] = group
    return [group for group in groups if all(group.values[key] == newest[place(group)].values[key] for key in keys)]


def _most_measured(groups: Sequence[Group], key: str) -> list[Group]:
    """Returns the runs with the value that most runs have; of equally frequent ones the first."""
    counts: Counter[Any] = Counter()
    for group in groups:
        counts[group.values[key]] += group.observations
    most = min(counts, key=lambda value: (-counts[value], value))
    return [group for group in groups if group.values[key] == most]


def differing_parts(groups: Sequence[Group], active: Collection[str], view: View) -> tuple[str, ...]:
    """Returns the other parts in which lines differ, so that a reader knows what else may be behind a difference."""
    keys = ("hardware", "engine_version", "prompt_tokens")
    mixed = {*view.mixed, *active, *VARYING.get(view.x, ()), *(OF_TIME if view.x == "started_at" else ())}
    return tuple(key for key in keys if key not in mixed and len({_value(key, group.context) for group in groups}) > 1)


def part_ranking(
    parts: Collection[tuple[FieldValue | None, ...]],
) -> dict[tuple[FieldValue | None, ...], int]:
    """Returns the rank of each line's parts among all of them; unknown values come last."""

    def key(values: tuple[FieldValue | None, ...]) -> tuple[Any, ...]:
        return tuple((value is None, natural_key(value) if isinstance(value, str) else value or 0) for value in values)

    return {values: rank for rank, values in enumerate(sorted(parts, key=key))}
