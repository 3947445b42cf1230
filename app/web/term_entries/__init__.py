"""The entries of the glossary: the words of the field in plain language, one short paragraph each.

One file per section of the page.
"""

from dataclasses import dataclass

from app.core.i18n import first_sentence


@dataclass(frozen=True)
class Entry:
    key: str
    """Its anchor."""
    term: str
    text: str
    formula: str = ""
    covers: tuple[str, ...] = ()
    """Keys of the metrics that it explains."""

    @property
    def gist(self) -> str:
        """The first sentence."""
        return first_sentence(self.text)[0]
