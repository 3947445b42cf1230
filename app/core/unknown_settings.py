"""What is unknown of configurations: settings that every server has some value of, and that nobody stated.

Such a setting may have changed unseen, so where it is unknown on either side of two, nothing says that only one thing
differs, or that the same was measured again. One that is known on one side only is no difference: it is unknown on the
other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.core.config_settings import NOT_STATED, SETTINGS, format_setting
from app.core.configuration import Snapshot
from app.core.i18n import N_, _, enumerated, lower_first

MAX_NAMED_SETTINGS = 6
"""The most unknown fields that a sentence names."""
QUANTIZATION, ENGINE_VERSION = N_("Quantization"), N_("Engine version")


@dataclass(frozen=True)
class UnknownField:
    """A field that at least one of two configurations does not state."""

    title: str
    """The title in the reader's language."""
    values: tuple[str, str] | None = None
    """Both values as text where one of the two states it."""

    @property
    def words(self) -> str:
        """Returns the title, with both values where one is known, such as "KV cache type K (q8_0 / not stated)"."""
        if self.values is None:
            return self.title
        return _("{title} ({before} / {after})", title=self.title, before=self.values[0], after=self.values[1])


class _Required(NamedTuple):
    """A field that every configuration has some value of."""

    title: str
    values: tuple[str | None, str | None]


def is_version_known(version: str | None) -> bool:
    """Whether a version names a build: llama.cpp built without git calls its own b0-unknown."""
    return bool(version) and "unknown" not in (version or "")


def unknown_fields(before: Snapshot, after: Snapshot) -> list[UnknownField]:
    """Returns the fields that at least one of two configurations does not state; those that one states are first."""
    fields = []
    for field in _required(before, after):
        first, second = field.values
        if not (first and second):
            values = (first or _(NOT_STATED), second or _(NOT_STATED)) if first or second else None
            fields.append(UnknownField(_(field.title), values))
    return sorted(fields, key=lambda field: field.values is None)


def has_unknown_settings(snapshot: Snapshot) -> bool:
    """Whether a configuration leaves anything open that a restart of its server may change unseen."""
    return bool(unknown_fields(snapshot, snapshot))


def known_parts(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot]:
    """Returns both without the fields that one of them does not state and that every server has some value of: how the
    two differ is what is known of it."""
    sides = (before, after)
    one_sided = {
        key
        for key, setting in SETTINGS.items()
        if setting.is_always_set and any(key not in side.settings for side in sides)
    }
    has_versions = all(is_version_known(side.engine_version) for side in sides)
    has_quantizations = all(side.quantization for side in sides)
    first, second = (
        replace(
            side,
            engine_version=side.engine_version if has_versions or before.engine != after.engine else None,
            quantization=side.quantization if has_quantizations else None,
            settings={key: value for key, value in side.settings.items() if key not in one_sided},
        )
        for side in sides
    )
    return first, second


def unknown_text(words: Sequence[str]) -> str:
    """Returns a sentence that names the first of many unknown fields (`UnknownField.words`); empty without any."""
    if not words:
        return ""
    if len(words) <= MAX_NAMED_SETTINGS:
        names = enumerated(lower_first(text) for text in words)
        return _("Unknown on at least one side, so possibly different too: {names}.", names=names)
    return _(
        "Unknown on at least one side, so possibly different too: {names} and {n} more settings.",
        names=", ".join(lower_first(text) for text in words[: MAX_NAMED_SETTINGS - 1]),
        n=len(words) - MAX_NAMED_SETTINGS + 1,
    )


def _required(before: Snapshot, after: Snapshot) -> list[_Required]:
    sides = (before, after)
    versions = [side.engine_version if is_version_known(side.engine_version) else None for side in sides]
    return [
        _Required(QUANTIZATION, (before.quantization or None, after.quantization or None)),
        _Required(ENGINE_VERSION, (versions[0], versions[1])),
        *(
            _Required(setting.title, (_text(before, setting.key), _text(after, setting.key)))
            for setting in SETTINGS.values()
            if setting.is_always_set
        ),
    ]


def _text(snapshot: Snapshot, key: str) -> str | None:
    value = snapshot.settings.get(key)
    return None if value is None else format_setting(value, key)
