"""Fields that become public only when a person ticks them in the preview."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from app.core.errors import BadInput
from app.core.i18n import N_, _, joined


class Option(StrEnum):
    NOTE = "note"
    LABELS = "labels"
    PROMPT = "prompt"
    MACHINE = "machine"
    FLAGS = "flags"


OPTIONS = {
    Option.NOTE: N_("Note"),
    Option.LABELS: N_("Labels"),
    Option.PROMPT: N_("Prompt text"),
    Option.MACHINE: N_("Machine name"),
    Option.FLAGS: N_("Engine flags and settings of your own"),
}
"""Titles by option."""


class OptionalField(NamedTuple):
    """An option and the text that it makes public."""

    option: Option
    text: str

    @property
    def title(self) -> str:
        return _(OPTIONS[self.option])


class Withheld(BadInput):
    """Nothing is left to share unless one of `offers` is included."""

    def __init__(self, offers: Sequence[OptionalField]) -> None:
        self.offers = offers
        super().__init__(
            _(
                "This shows nothing but words of your own. To share them, add: {options}.",
                options=joined(*(offer.title for offer in offers), by=", "),
            )
        )


def parse_options(names: Collection[str]) -> frozenset[Option]:
    """The options with these names. Raises BadInput for an unknown name."""
    for name in names:
        if name not in list(Option):
            raise BadInput(
                _(
                    "A share can include {options}; {name!r} is not one of them.",
                    options=", ".join(Option),
                    name=name[:40],
                )
            )
    return frozenset(Option(name) for name in names)
