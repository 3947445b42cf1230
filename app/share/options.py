"""What becomes public only when a person ticks it in the preview."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from app.errors import BadInput
from app.i18n import _, marked


class Option(StrEnum):
    NOTE = "note"
    LABELS = "labels"
    PROMPT = "prompt"
    MACHINE = "machine"
    FLAGS = "flags"


OPTIONS = {
    Option.NOTE: marked("Note"),
    Option.LABELS: marked("Labels"),
    Option.PROMPT: marked("Prompt text"),
    Option.MACHINE: marked("Machine name"),
    Option.FLAGS: marked("Engine flags and settings of your own"),
}
"""With their titles."""


class Offer(NamedTuple):
    """An option with the text that it would make public."""

    option: Option
    text: str

    @property
    def title(self) -> str:
        return OPTIONS[self.option]


class Withheld(BadInput):
    """Nothing is left to share unless something is added; `offers` say what."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.offers = offers
        super().__init__(
            marked(
                "This shows nothing but words of your own. To share them, add: {options}.",
                options=", ".join(offer.title for offer in offers),
            )
        )


def parse(names: Collection[str]) -> frozenset[Option]:
    """Raises BadInput for a name that is no option."""
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
