"""The glossary: what each word of the pages means, for the page `/glossary` and wherever the word stands."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from app.core import i18n
from app.core.i18n import N_, _
from app.metrics import FLAGS, metrics
from app.metrics.base import Metric
from app.web import term_entries
from app.web.term_entries import Entry

SECTIONS: Mapping[str, tuple[Entry, ...]] = {
    N_("What a reader feels"): term_entries.READER,
    N_("What the engine does"): term_entries.ENGINE,
    N_("What hardware allows"): term_entries.HARDWARE,
    N_("What makes a number trustworthy"): term_entries.TRUST,
    N_("Verdicts of a comparison"): term_entries.VERDICTS,
}
"""The entries that belong to no metric."""
_SECTION_OF_METRICS = {"reader": "What a reader feels", "engine": "What the engine does"}


def sections() -> Mapping[str, tuple[Entry, ...]]:
    """In the reader's language: metrics after the other entries of their section, the flags of a sample last."""
    return _sections(i18n.language())


def entry(name: str) -> Entry | None:
    """By its own key or by that of a metric; None for what the glossary does not know."""
    return _by_name(i18n.language()).get(name)


@cache
def _sections(_language: str) -> Mapping[str, tuple[Entry, ...]]:
    of_metrics: dict[str, dict[str, Entry]] = {}
    for metric in metrics().values():
        section = _SECTION_OF_METRICS[metric.term.section if metric.term else "reader"]
        added = _metric_entry(metric)
        by_key = of_metrics.setdefault(section, {})
        earlier = by_key.get(added.key)
        by_key[added.key] = replace(earlier, names=(*earlier.names, metric.key)) if earlier else added
    entries = {
        _(title): (*map(_translated, own), *of_metrics.get(title, {}).values()) for title, own in SECTIONS.items()
    }
    return {**entries, _("Flags of a sample"): tuple(map(_flag_entry, FLAGS))}


@cache
def _by_name(language: str) -> Mapping[str, Entry]:
    entries: Iterable[Entry] = (entry for section in _sections(language).values() for entry in section)
    return {name: entry for entry in entries for name in (entry.key, *entry.names, *entry.former_keys)}


def _metric_entry(metric: Metric) -> Entry:
    term = metric.term
    if term is None:
        return Entry(metric.key, metric.title, metric.explanation)
    return _translated(Entry(term.key, term.title, term.text, term.formula, names=(metric.key,)))


def _flag_entry(key: str) -> Entry:
    flag = FLAGS[key]
    former = (f"flag-{flag.former_key}",) if flag.former_key else ()
    text = i18n.joined(_(flag.sentence), _(flag.advice))
    return Entry(f"flag-{key}", flag_name(key).capitalize(), text, former_keys=former)


def _translated(entry: Entry) -> Entry:
    return replace(entry, term=_(entry.term), text=_(entry.text), formula=_(entry.formula) if entry.formula else "")


def flag_name(key: str) -> str:
    """Samples keep the keys of flags that are no more: these stand for themselves."""
    return _(FLAGS[key].title) if key in FLAGS else key


def without_stop(sentence: str) -> str:
    """For a sentence within another one."""
    return sentence.rstrip(".。")
