"""The catalogues beside the sources: `make messages` brings them up to date, test_messages.py says when they are not.

Texts are found where they are marked: `_()`, `ngettext()` and `N_()` in Python, `_()` and `{% trans %}` in
templates, and every noun that is counted (`plural`, `noun`) in both. Tables of texts, as the metrics, need no mark.
"""

import ast
import errno
import io
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages import pofile
from babel.messages.catalog import Catalog
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
SHARED = ("Fact", "Column", "Figures", "Chart", "Bar")
"""What shares are made of: their titles."""
KEYWORDS = ("_", "ngettext", "N_", *COUNTING, *SHARED)
LANGUAGES = [tag for tag in i18n.LANGUAGES if tag != i18n.ENGLISH]
MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
"""The same in every catalogue, which changes with its messages alone."""

SYSTEM = (
    errno.EACCES, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EIO, errno.EISDIR,
    errno.ENAMETOOLONG, errno.ENETUNREACH, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.ENXIO, errno.EROFS,
    errno.ETIMEDOUT,
)  # fmt: skip
"""What a system says of files and networks, in the words of Linux."""

Text = str | tuple[str, str]
"""A message, or one for a single thing with one for several."""


def texts() -> list[Text]:
    """Everything that is marked, each once, in the order of files."""
    return list(dict.fromkeys((*_of_python(), *_of_templates(), *filter(None, _of_tables()))))


def _of_python() -> Iterator[Text]:
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KEYWORDS:
                yield from _of_call(node.func.id, [each.value for each in node.args if isinstance(each, ast.Constant)])


def _of_call(function: str, said: Sequence[Any]) -> Iterator[Text]:
    """Nothing where a name is handed over instead of a text."""
    if function in COUNTING:
        for each in (each for each in said if isinstance(each, str)):
            yield _counted(each)
            if function == "noun":  # stands alone too
                yield each
    elif function == "ngettext" and len(said) > 1:
        yield said[0], said[1]
    elif function != "ngettext" and said and isinstance(said[0], str):
        yield said[0]


def _of_templates() -> Iterator[Text]:
    templates = environment()
    for path in sorted(files.TEMPLATES.glob("*.html")):
        source = path.read_text(encoding="utf-8")
        for _line, function, found in templates.extract_translations(source):  # type: ignore[attr-defined]  # as there
            said = found if isinstance(found, tuple) else (found,)  # a text and whatever else the call names
            if said[0] and function in ("gettext", "ngettext", "_"):
                yield (said[0], said[1]) if function == "ngettext" else said[0]
        for each in templates.parse(source).find_all(nodes.Filter):
            if each.name == "plural" and isinstance(each.args[0], nodes.Const):
                yield _counted(each.args[0].value)


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
        yield from (field.title, field.group, field.explanation, field.missing)
    for said in SYSTEM:
        yield os.strerror(said)
    for texts in (NULL_REASONS.values(), METRIC_SOURCES.values(), RUN_STATES, Status, Verdict):
        yield from map(str, texts)


def _counted(noun: str) -> tuple[str, str]:
    """As app.core.units.plural asks for it."""
    return f"{{n}} {noun}", f"{{n}} {noun}s"


def po_path(language: str) -> Path:
    return i18n.CATALOGUES / language.replace("-", "_") / "LC_MESSAGES" / f"{i18n.DOMAIN}.po"


def catalogue(language: str) -> Catalog:
    with po_path(language).open("rb") as file:
        return pofile.read_po(file, locale=language.replace("-", "_"))


def updated(language: str) -> Catalog:
    """The catalogue with exactly the texts of today; what is new stands in it without a translation."""
    known = catalogue(language) if po_path(language).exists() else Catalog()
    made = Catalog(locale=language.replace("-", "_"), project="Roofmark", fuzzy=False)
    made.creation_date = made.revision_date = MADE_AT
    for text in texts():
        old = known.get(text if isinstance(text, str) else text[0])
        made.add(text, old.string if old else None, flags=old.flags - {"python-format"} if old else ())
    return made


def po(made: Catalog) -> bytes:
    file = io.BytesIO()
    pofile.write_po(file, made, width=120, omit_header=True, sort_output=True)
    return file.getvalue()


def mo(made: Catalog) -> bytes:
    file = io.BytesIO()
    write_mo(file, made)
    return file.getvalue()


def main() -> None:
    for language in LANGUAGES:
        made, path = updated(language), po_path(language)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(po(made))
        path.with_suffix(".mo").write_bytes(mo(made))
        missing = sum(not message.string or not any(message.string) for message in made if message.id)
        print(f"{language}: {len(made)} messages, {missing} without a translation")


if __name__ == "__main__":
    main()
