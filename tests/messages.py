"""The catalogues beside the sources. `make messages` brings them up to date and reports what has no translation yet;
`python -m tests.messages --complete` changes nothing and fails while anything is missing: a release has all of them.

Texts are found where they are marked: `_()`, `ngettext()` and `N_()` in Python, `_()` and `{% trans %}` in
templates, and every noun that is counted (`plural`, `noun`) in both. Tables of texts, as the metrics, need no mark.
"""

import ast
import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages import pofile
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from jinja2 import nodes

from app.core import files, i18n
from app.core.config_settings import SETTINGS
from app.core.samples import Status
from app.db.tables import RUN_STATES
from app.hardware.catalogue import built_in
from app.metrics import FLAGS, NULL_REASONS, metrics
from app.metrics.base import SOURCES as METRIC_SOURCES
from app.results.fields.registry import all_fields
from app.stats.verdict import Verdict
from app.suites import BUILT_IN
from app.web.templates import environment
from app.web.terms import SECTIONS

SOURCES = Path(i18n.__file__).parent.parent
COUNTING = ("plural", "noun")
KEYWORDS = ("_", "ngettext", "N_", *COUNTING)
LANGUAGES = [tag for tag in i18n.LANGUAGES if tag != i18n.ENGLISH]
MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
"""The same in every catalogue, which changes with its messages alone."""

SYSTEM = (
    errno.EACCES, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EIO, errno.EISDIR,
    errno.ENAMETOOLONG, errno.ENETUNREACH, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.ENXIO, errno.EROFS,
    errno.ETIMEDOUT,
)  # fmt: skip
"""What a system says of files and networks, in the words of Linux."""

Source = str | tuple[str, str]
"""A message, or one for a single thing with one for several."""


def texts() -> list[Source]:
    """Everything that is marked, each once, in the order of files."""
    return list(dict.fromkeys((*_of_python(), *_of_templates(), *filter(None, _of_tables()))))


def _of_python() -> Iterator[Source]:
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KEYWORDS:
                yield from _of_call(node.func.id, [arg.value for arg in node.args if isinstance(arg, ast.Constant)])


def _of_call(function: str, constants: Sequence[Any]) -> Iterator[Source]:
    """Nothing where a name is handed over instead of a text."""
    if function in COUNTING:
        for word in (word for word in constants if isinstance(word, str)):
            yield _counted(word)
            if function == "noun":  # stands alone too
                yield word
    elif function == "ngettext" and len(constants) > 1:
        yield constants[0], constants[1]
    elif function != "ngettext" and constants and isinstance(constants[0], str):
        yield constants[0]


def _of_templates() -> Iterator[Source]:
    templates = environment()
    for path in sorted(files.TEMPLATES.glob("*.html")):
        source = path.read_text(encoding="utf-8")
        for _line, function, message in templates.extract_translations(source):  # type: ignore[attr-defined]  # as there
            arguments = message if isinstance(message, tuple) else (message,)  # a text and what else the call names
            if arguments[0] and function in ("gettext", "ngettext", "_"):
                yield (arguments[0], arguments[1]) if function == "ngettext" else arguments[0]
        for node in templates.parse(source).find_all(nodes.Filter):
            if node.name == "plural" and isinstance(node.args[0], nodes.Const):
                yield _counted(node.args[0].value)


def _of_tables() -> Iterator[str]:
    for metric in metrics().values():
        yield from (metric.title, metric.explanation)
        if term := metric.term:
            yield from (term.title, term.text, term.formula)
    for flag in FLAGS.values():
        yield from (flag.title, flag.sentence, flag.advice)
    for entries in SECTIONS.values():
        for entry in entries:
            yield from (entry.term, entry.text, entry.formula)
    for setting in SETTINGS.values():
        yield from (setting.title, setting.hint)
    for suite in BUILT_IN.values():
        yield from (suite.title, suite.about)
    for device in built_in().devices:
        yield from (device.source, device.compute_source)
    for field in all_fields():
        yield from map(str, (field.title, field.group, field.explanation, field.missing))
    for number in SYSTEM:
        yield os.strerror(number)
    for table in (NULL_REASONS.values(), METRIC_SOURCES.values(), RUN_STATES, Status, Verdict):
        yield from map(str, table)


def _counted(noun: str) -> tuple[str, str]:
    """As app.core.units.plural asks for it."""
    return f"{{n}} {noun}", f"{{n}} {noun}s"


def po_path(language: str) -> Path:
    return i18n.CATALOGUES / language.replace("-", "_") / "LC_MESSAGES" / f"{i18n.DOMAIN}.po"


def catalogue(language: str) -> Catalog:
    with po_path(language).open("rb") as file:
        return pofile.read_po(file, locale=language.replace("-", "_"))


def updated(language: str) -> Catalog:
    """The catalogue with exactly the texts of today; a new one has no translation."""
    before = catalogue(language) if po_path(language).exists() else Catalog()
    after = Catalog(locale=language.replace("-", "_"), project="Roofmark", fuzzy=False)
    after.creation_date = after.revision_date = MADE_AT
    for text in texts():
        old = before.get(text if isinstance(text, str) else text[0])
        after.add(text, old.string if old else None, flags=old.flags - {"python-format"} if old else ())
    return after


def missing(translations: Catalog) -> list[Source]:
    """The messages without a whole translation: readers of that language see them in English."""
    empty = [message for message in translations if message.id and (message.fuzzy or not all(strings(message)))]
    return [message.id if isinstance(message.id, str) else (message.id[0], message.id[1]) for message in empty]


def strings(message: Message) -> tuple[str, ...]:
    """A translation, in each of its forms."""
    string = message.string or ""
    return (string,) if isinstance(string, str) else tuple(string)


def po(translations: Catalog) -> bytes:
    file = io.BytesIO()
    pofile.write_po(file, translations, width=120, omit_header=True, sort_output=True)
    return file.getvalue()


def mo(translations: Catalog) -> bytes:
    file = io.BytesIO()
    write_mo(file, translations)
    return file.getvalue()


def main(arguments: Sequence[str]) -> int:
    """Writes the catalogues and reports; with `--complete` only reports, and gives 1 where something is missing."""
    is_check, is_complete = "--complete" in arguments, True
    for language in LANGUAGES:
        translations, path = updated(language), po_path(language)
        if not is_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(po(translations))
            path.with_suffix(".mo").write_bytes(mo(translations))
        without = missing(translations)
        is_complete = is_complete and not without
        print(f"{language}: {len(translations)} messages, {len(without)} without a translation")
        for source in without:
            print(f"  {source if isinstance(source, str) else source[0]}")
    return 1 if is_check and not is_complete else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
