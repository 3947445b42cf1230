"""The differences between results, and the settings that a verdict is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.config_settings import NOT_STATED
from app.core.configuration import Snapshot, distinguishing_weights, model_names
from app.core.i18n import _, joined, separator
from app.core.unknown_settings import unknown_text
from app.db.configs import snapshot_of
from app.db.tables import Run
from app.results.fields.field import Field, RunContext
from app.results.fields.registry import context_fields
from app.results.hardware import describe_devices, device_changes, thaw_devices
from app.results.unknown import Side, unknown_between

_NO_SNAPSHOT = Snapshot("", None, "", None, {})
MOST_NAMED = 4
"""The most differing settings that a verdict names."""
_FIRST = ("machine", "hardware")
"""The fields whose differences matter most."""
_LAST = ("labels",)


@dataclass(frozen=True)
class Difference:
    title: str
    values: tuple[str, ...]
    """The values of the results, in their order."""
    is_setting: bool
    """Whether a verdict can be about it: hardware and configuration, but not the number of repetitions."""
    is_always_set: bool = False
    """Whether every result has some value of it: then one that is not stated is unknown, and no difference."""

    def is_between(self, base: int, compared: int) -> bool:
        """Whether two results differ in it, as far as it is known."""
        values = {self.values[base], self.values[compared]}
        return len(values) > 1 and not (self.is_always_set and _(NOT_STATED) in values)

    def phrase(self, base: int, compared: int) -> str:
        """Returns the difference between two results as a phrase."""
        return f"{self.title} {self.values[base]} → {self.values[compared]}"


def differences(sides: Sequence[Run], engine_titles: Mapping[str, str]) -> tuple[Difference, ...]:
    """Returns the fields that differ between the results, the most important first."""
    contexts = _contexts(sides, engine_titles)
    configs = [side.config for side in sides if side.config is not None]
    fields = [field for field in context_fields(configs) if field.difference]
    fields.sort(key=_importance)
    compared = {
        field: tuple(field.text("difference", context) or _(NOT_STATED) for context in contexts) for field in fields
    }
    return tuple(
        Difference(
            field.localized_title,
            values,
            is_setting=field.difference == "setting",
            is_always_set=field.is_always_set,
        )
        for field, values in compared.items()
        if len(set(values) - ({_(NOT_STATED)} if field.is_always_set else set())) > 1
    )


def _importance(field: Field) -> tuple[bool, int, bool]:
    first = _FIRST.index(field.key) if field.key in _FIRST else len(_FIRST)
    return field.difference != "setting", first, field.key in _LAST


def _contexts(sides: Sequence[Run], engine_titles: Mapping[str, str]) -> list[RunContext]:
    """Returns the context of each result that fields are read from; hardware and model are described by what
    distinguishes them."""
    models = iter(_models([side for side in sides if side.config and side.model]))
    contexts = []
    for hardware, side in zip(_hardware(sides), sides, strict=True):
        has_config = side.config is not None and side.model is not None
        snapshot, model_name, weights = next(models) if has_config else (_NO_SNAPSHOT, "", {})
        contexts.append(
            RunContext(
                snapshot,
                engine=engine_titles.get(snapshot.engine, snapshot.engine),
                machine=side.machine.name,
                server=side.server.name,
                suite=side.suite_key,
                labels=tuple(snapshot.labels),
                model_name=model_name,
                weights=weights,
                hardware=hardware,
                plan=side.plan,
            )
        )
    return contexts


def _models(sides: Sequence[Run]) -> list[tuple[Snapshot, str, dict[str, str]]]:
    """Returns for each result with a configuration its snapshot, its model's name and what distinguishes its
    weights."""
    snapshots = [snapshot_of(side.config, side.model) for side in sides if side.config and side.model]
    is_one_server = len({side.server.id for side in sides}) == 1
    weights = distinguishing_weights(snapshots, is_one_server=is_one_server)
    return [
        (snapshot, name, {title: values[position] for title, values in weights.items()})
        for position, (snapshot, name) in enumerate(zip(snapshots, model_names(snapshots), strict=True))
    ]


def is_same_hardware(base: Run, compared: Run) -> bool:
    """Whether two results are from the same hardware, as far as both recorded it."""
    return not (base.hardware and compared.hardware) or not device_changes(
        thaw_devices(base.hardware), thaw_devices(compared.hardware)
    )


def _hardware(sides: Sequence[Run]) -> list[str]:
    """Returns a description of the hardware. It is the same for the same devices: a driver that reserves more memory
    makes no other card."""
    texts: list[tuple[Run, str]] = []
    for side in sides:
        same = (text for run, text in texts if run.hardware and side.hardware and is_same_hardware(run, side))
        texts.append((side, next(same, describe_devices(thaw_devices(side.hardware)))))
    return [text for _, text in texts]


# --- what a verdict is about -----------------------------------------------------------------------------------------


def differing_settings(differences: Sequence[Difference], base: int, compared: int) -> tuple[str, ...]:
    """The settings in which two results differ, one phrase each."""
    return tuple(
        difference.phrase(base, compared)
        for difference in differences
        if difference.is_setting and difference.is_between(base, compared)
    )


def unknown_settings(base: Run, compared: Run, *, has_values: bool = True) -> tuple[str, ...]:
    """Returns what at least one of two results does not state, and what may differ unseen: each in words, with both
    values where one is known, such as "KV cache type K (q8_0 / not stated)"; on request titles alone."""
    sides = [
        Side(
            snapshot_of(side.config, side.model) if side.config and side.model else _NO_SNAPSHOT,
            bool(side.hardware),
            side.evidence.get("process"),
        )
        for side in (base, compared)
    ]
    return tuple(field.words if has_values else field.title for field in unknown_between(*sides))


def verdict_subject_text(settings: Sequence[str], unknown: Sequence[str] = ()) -> str:
    """Returns one or more sentences that say what a verdict is about: `settings` differ, `unknown` (as
    `unknown_settings` returns them) may differ."""
    if unknown:
        differing = _("Differs: {settings}.", settings=separator("; ").join(settings))
        return joined(differing if settings else _("No difference is known."), unknown_text(unknown))
    if not settings:
        return _("The configurations are equal: the same thing was measured again.")
    if len(settings) == 1:
        return _("They differ in one setting only, which the verdict is about: {setting}.", setting=settings[0])
    if len(settings) <= MOST_NAMED:
        return _(
            "They differ in {n} settings, and the verdict is about all of them together: {settings}.",
            n=len(settings),
            settings=separator("; ").join(settings),
        )
    return _(
        "They differ in {n} settings, so the verdict is about all of them together, not about a single one.",
        n=len(settings),
    )
