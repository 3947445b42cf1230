"""The glossary: what each word of the pages means, for the page `/glossary` and wherever the word stands."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from app.core import i18n
from app.core.i18n import N_, _
from app.metrics import FLAGS
from app.web.term_entries import Entry, answer, ceiling, engine, trust, verdicts


def _flag(key: str) -> Entry:
    flag = FLAGS[key]
    return Entry(f"flag-{key}", flag_name(key).capitalize(), i18n.joined(_(flag.sentence), _(flag.advice)))


SECTIONS: Mapping[str, tuple[Entry, ...]] = {
    N_("What a reader feels"): answer.ENTRIES,
    N_("What the engine does"): engine.ENTRIES,
    N_("What hardware allows"): ceiling.ENTRIES,
    N_("What makes a number trustworthy"): trust.ENTRIES,
    N_("Verdicts of a comparison"): verdicts.ENTRIES,
}


def sections() -> Mapping[str, tuple[Entry, ...]]:
    """In the reader's language, the flags of a sample last."""
    return _sections(i18n.language())


def entry(name: str) -> Entry | None:
    """By its own key or by that of a metric; None for what the glossary does not know."""
    return _by_name(i18n.language()).get(name)


@cache
def _sections(_language: str) -> Mapping[str, tuple[Entry, ...]]:
    said = {_(title): tuple(_translated(each) for each in entries) for title, entries in SECTIONS.items()}
    return {**said, _("Flags of a sample"): tuple(_flag(key) for key in FLAGS)}


@cache
def _by_name(language: str) -> Mapping[str, Entry]:
    found = (entry for entries in _sections(language).values() for entry in entries)
    return {name: entry for entry in found for name in (entry.key, *entry.covers)}


def _translated(entry: Entry) -> Entry:
    return replace(entry, term=_(entry.term), text=_(entry.text), formula=_(entry.formula) if entry.formula else "")


def flag_name(key: str) -> str:
    """Samples keep the keys of flags that are no more: these stand for themselves."""
    return _(FLAGS[key].title) if key in FLAGS else key


def without_stop(sentence: str) -> str:
    """For a sentence within another one."""
    return sentence.rstrip(".。")
