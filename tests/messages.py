"""The catalogues beside the sources: `make messages` brings them up to date, and test_messages.py says when they are not.

Texts are found where they are marked: `_()`, `ngettext()` and `marked()` in Python, `_()` and `{% trans %}` in templates,
and every noun that is counted (`plural`, `noun`) in both.
"""

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages import pofile
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_python
from babel.messages.mofile import write_mo
from jinja2 import nodes

from app import files, i18n
from app.web.render import environment

SOURCES = Path(i18n.__file__).parent
PYTHON_KEYWORDS = ("_", "ngettext", "marked", "noun", "plural")
LANGUAGES = [tag for tag in i18n.LANGUAGES if tag != i18n.ENGLISH]
MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
"""The same in every catalogue, which changes with its messages alone."""

Text = str | tuple[str, str]
"""A message, or one for a single thing with one for several."""


def texts() -> list[Text]:
    """Everything that is marked, each once, in the order of files."""
    return list(dict.fromkeys((*_of_python(), *_of_templates())))


def _of_python() -> Iterator[Text]:
    for path in sorted(SOURCES.rglob("*.py")):
        with path.open("rb") as file:
            for _line, keyword, found, _comments in extract_python(file, PYTHON_KEYWORDS, (), {}):
                said = [each for each in (found if isinstance(found, tuple) else (found,)) if each]
                if not said:
                    continue  # a name and no text
                if keyword in ("plural", "noun"):
                    yield _counted(said[-1])
                else:
                    yield (said[0], said[1]) if keyword == "ngettext" else said[0]


def _of_templates() -> Iterator[Text]:
    templates = environment()
    for path in sorted(files.TEMPLATES.glob("*.html")):
        source = path.read_text(encoding="utf-8")
        for _line, function, found in templates.extract_translations(source):  # type: ignore[attr-defined]
            yield (found[0], found[1]) if function == "ngettext" else found
        for each in templates.parse(source).find_all(nodes.Filter):
            if each.name == "plural" and isinstance(each.args[0], nodes.Const):
                yield _counted(each.args[0].value)


def _counted(noun: str) -> tuple[str, str]:
    """As app.units.plural asks for it."""
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
