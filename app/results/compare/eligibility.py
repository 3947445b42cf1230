"""What differs between results, whether they may be compared at all, and what a verdict then is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.configuration import IDENTITY, SETTINGS, distinguishing_weights, model_names, setting_title, show
from app.core.i18n import N_, _, enumerated, joined, lower_first
from app.core.samples import Workload
from app.db.continuation import snapshot_of
from app.db.runs import Circumstances
from app.db.tables import Run
from app.results.hardware import changes, thawed, words

NOT_STATED = N_("not stated")
OUTPUT_TOLERANCE = 0.1
"""Answers whose measured lengths differ by more than this share are of another output length."""
MOST_NAMED = 6
"""So many settings that are unknown are named in a sentence."""


@dataclass(frozen=True)
class Difference:
    title: str
    values: tuple[str, ...]
    """Of each result, in their order."""
    is_setting: bool
    """Whether it can be what a verdict is about: hardware and configuration, not how often something was repeated."""

    def between(self, one: int, other: int) -> bool:
        return self.values[one] != self.values[other]

    def words(self, one: int, other: int) -> str:
        return f"{self.title} {self.values[one]} → {self.values[other]}"


def differences(sides: Sequence[Circumstances], engine_titles: Mapping[str, str]) -> tuple[Difference, ...]:
    """What is not the same everywhere, the weightiest first."""
    told = [
        {_("Hardware"): hardware, **_details(side, engine_titles), **model}
        for hardware, side, model in zip(_hardware(sides), sides, _models(sides), strict=True)
    ]
    circumstances = [_circumstances(side) for side in sides]
    found = [
        Difference(title, tuple(each.get(title, _(NOT_STATED)) for each in details), is_setting)
        for details, is_setting in ((told, True), (circumstances, False))
        for title in dict.fromkeys(title for each in details for title in each)
    ]
    order = {title: place for place, title in enumerate(_ORDER)}
    found.sort(key=lambda each: order.get(getattr(each.title, "id", each.title), len(order)))
    return tuple(each for each in found if len(set(each.values)) > 1 and not _is_unknown_hardware(each))


_ORDER = (
    "Machine",
    "Hardware",
    "Model",
    "Quantization",
    "Engine",
    "Engine version",
    *(setting.title for setting in SETTINGS.values()),
)


def _details(side: Circumstances, engine_titles: Mapping[str, str]) -> dict[str, str]:
    told = {_("Machine"): side.machine.name}
    if side.config is None or side.model is None:
        return told
    snapshot = snapshot_of(side.config, side.model)
    told[_("Quantization")] = snapshot.quantization or _(NOT_STATED)
    told[_("Engine")] = engine_titles.get(snapshot.engine, snapshot.engine)
    told[_("Engine version")] = snapshot.engine_version or _(NOT_STATED)
    told |= {setting_title(key): show(value, key) for key, value in snapshot.settings.items() if key not in IDENTITY}
    if snapshot.labels:
        told[_("Labels")] = ", ".join(sorted(snapshot.labels))
    return told


def _models(sides: Sequence[Circumstances]) -> list[dict[str, str]]:
    """The model of each, by what tells it from those of the others."""
    snapshots = [snapshot_of(side.config, side.model) for side in sides if side.config and side.model]
    is_one_server = len({side.server.id for side in sides}) == 1
    weights = distinguishing_weights(snapshots, is_one_server=is_one_server)
    rows = iter(
        {_("Model"): name, **{title: column[place] for title, column in weights.items()}}
        for place, name in enumerate(model_names(snapshots))
    )
    return [next(rows) if side.config and side.model else {} for side in sides]


def _circumstances(side: Circumstances) -> dict[str, str]:
    plan = side.run.plan
    told = {_("Server"): side.server.name, _("Suite"): side.run.suite_key}
    counts = {"repetitions": _("Repetitions"), "warmups": _("Warm-ups")}
    return told | {title: show(plan[key]) for key, title in counts.items() if key in plan}


def is_same_hardware(one: Run, other: Run) -> bool:
    """As far as both say what it was."""
    return not (one.hardware and other.hardware) or not changes(thawed(one.hardware), thawed(other.hardware))


def _hardware(sides: Sequence[Circumstances]) -> list[str]:
    """The same words for the same devices: a driver that keeps more memory for itself makes no other card."""
    known: list[tuple[Run, str]] = []
    for side in sides:
        same = (said for run, said in known if run.hardware and side.run.hardware and is_same_hardware(run, side.run))
        known.append((side.run, next(same, words(thawed(side.run.hardware)) or NOT_STATED)))
    return [said for _, said in known]


def _is_unknown_hardware(difference: Difference) -> bool:
    """Runs of long ago did not say what their machine was made of: that is no difference."""
    return difference.title == "Hardware" and len(set(difference.values) - {NOT_STATED}) < 2


# --- may they be compared? -------------------------------------------------------------------------------------------

_NOT_DONE = {
    "queued": N_("Run {id} is not finished yet."),
    "running": N_("Run {id} is not finished yet."),
    "failed": N_("Run {id} failed before it was finished."),
    "cancelled": N_("Run {id} was cancelled before it was finished."),
    "interrupted": N_("Run {id} was interrupted before it was finished."),
}


def refusal_reason_run(run: Run) -> str:
    """Why nothing can be compared with this run at all; empty when something can."""
    if run.hidden_at is not None:
        reason = f": {run.hidden_reason.rstrip('.。')}" if run.hidden_reason else ""
        return _("Run {id} is hidden from statistics{reason}.", id=run.public_id, reason=reason)
    return _(_NOT_DONE[run.status], id=run.public_id) if run.status in _NOT_DONE else ""


def why_not_at_all(base: Run, other: Run) -> str:
    """Why two runs have no verdict whatever they measured; empty when they may have one."""
    return refusal_reason_run(base) or refusal_reason_run(other) or refusal_reason_pair(base, other)


def refusal_reason_pair(one: Run, two: Run) -> str:
    """Why two finished runs have no verdict; empty when they have."""
    if one.suite_sha256 == two.suite_sha256:
        return ""
    if one.suite_key != two.suite_key:
        return _("They played different suites: {one} and {other}.", one=one.suite_key, other=two.suite_key)
    return _(
        "The suite {suite} was changed between them: its prompt or its lengths are others now.", suite=one.suite_key
    )


def refusal_reason_point(point: Workload, others: Sequence[Workload]) -> str:
    """Why a result has nothing at a point; empty when it has."""
    if point in others:
        return ""
    near = next((each for each in others if each.prompt_tokens == point.prompt_tokens), None)
    if near is not None:
        for title in ("output_tokens", "concurrency", "depth"):
            wanted, there = getattr(point, title), getattr(near, title)
            if wanted != there:
                said = _({"output_tokens": N_("output length")}.get(title, title))
                return _("Its {said} is {there:,} here, not {wanted:,}.", said=said, there=there, wanted=wanted)
    return _("It did not measure this point.")


def refusal_reason_lengths(base_tokens: float | None, other_tokens: float | None) -> str:
    """Whether the answers really had one length, for engines that end them when they like."""
    if not base_tokens or not other_tokens:
        return ""
    if (
        abs(other_tokens / base_tokens - 1) <= OUTPUT_TOLERANCE
        and abs(base_tokens / other_tokens - 1) <= OUTPUT_TOLERANCE
    ):
        return ""
    return _("The answers differ in length: {base:,.0f} and {other:,.0f} tokens.", base=base_tokens, other=other_tokens)


def about(found: Sequence[Difference], base: int, other: int) -> tuple[str, ...]:
    """What a verdict is about: the settings in which two results differ, in words."""
    return tuple(each.words(base, other) for each in found if each.is_setting and each.between(base, other))


def unknown_settings(base: Circumstances, other: Circumstances) -> tuple[str, ...]:
    """Titles of the usual settings that at least one of two results does not state, and that may differ unseen."""
    stated = [side.config.settings if side.config else {} for side in (base, other)]
    return tuple(
        setting.title
        for setting in SETTINGS.values()
        if setting.is_always_set and any(setting.key not in settings for settings in stated)
    )


def about_words(settings: Sequence[str], unknown: Sequence[str] = ()) -> str:
    """What a verdict is about: `settings` differ, `unknown` may."""
    if unknown:
        differing = _("Differs: {settings}.", settings=joined(*settings, by="; "))
        return joined(differing if settings else _("No difference is known."), _unknown_words(unknown))
    if not settings:
        return _("Nothing of the configuration differs: the same thing was measured again.")
    if len(settings) == 1:
        return _("They differ in one respect only, so the verdict is about it: {setting}.", setting=settings[0])
    return _(
        "They differ in {n} respects, so the verdict is about all of them together and about none alone.",
        n=len(settings),
    )


def _unknown_words(unknown: Sequence[str]) -> str:
    """Of many the first ones; documents and pages have all."""
    if len(unknown) <= MOST_NAMED:
        names = enumerated(lower_first(_(title)) for title in unknown)
        return _("Unknown on at least one side, and so perhaps different too: {names}.", names=names)
    return _(
        "Unknown on at least one side, and so perhaps different too: {names} and {n} more settings.",
        names=joined(*(lower_first(_(title)) for title in unknown[: MOST_NAMED - 1]), by=", "),
        n=len(unknown) - MOST_NAMED + 1,
    )
