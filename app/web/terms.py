"""The glossary: what each word of the pages means, for the page `/glossary` and wherever the word stands."""

from collections.abc import Mapping

from app.metrics import FLAGS
from app.web import term_entries
from app.web.term_entries import Entry


def _flag(key: str) -> Entry:
    flag = FLAGS[key]
    return Entry(f"flag-{key}", key.replace("_", " ").capitalize(), f"{flag.sentence} {flag.advice}")


SECTIONS: Mapping[str, tuple[Entry, ...]] = {
    "What a reader feels": term_entries.ANSWER,
    "What the engine does": term_entries.ENGINE,
    "What hardware allows": term_entries.CEILING,
    "What makes a number trustworthy": term_entries.TRUST,
    "Verdicts of a comparison": term_entries.VERDICTS,
    "Flags of a sample": tuple(_flag(key) for key in FLAGS),
}

_BY_NAME = {name: entry for entries in SECTIONS.values() for entry in entries for name in (entry.key, *entry.covers)}


def entry(name: str) -> Entry | None:
    """By its own key or by that of a metric; None for what the glossary does not know."""
    return _BY_NAME.get(name)
