"""The reader's language. Sources speak English; a catalogue of `app/locale/` says the same in another language.

`use` sets the language of a request; whatever runs in it, threads of the pool included, then speaks it. Without a
request there is none: commands, workers and the database stay English.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gettext import NullTranslations

    from jinja2 import Environment
    from markupsafe import Markup

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "zh-Hant": "繁體中文"}
"""Tags as in `<html lang>`, each with its own name for itself."""
CATALOGUES = Path(__file__).parent / "locale"
DOMAIN = "roofmark"

_SCRIPTS = {"zh": "zh-Hant", "zh-tw": "zh-Hant", "zh-hk": "zh-Hant", "zh-mo": "zh-Hant"}
"""What browsers call a language whose tag does not name its script."""

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


def language() -> str:
    return _language.get()


@contextmanager
def use(tag: str) -> Iterator[None]:
    token = _language.set(tag)
    try:
        yield
    finally:
        _language.reset(token)


def accepted(header: str) -> str:
    """The language of `Accept-Language` that there is and that the reader likes best.

    >>> accepted("fr, zh-TW;q=0.9, en;q=0.8"), accepted("en-GB, zh-Hant;q=0.5"), accepted("zh-CN"), accepted("")
    ('zh-Hant', 'en', 'en', 'en')
    """
    wanted = sorted(_weighed(header), key=lambda each: -each[0])
    return next((tag for weight, name in wanted if weight > 0 and (tag := _known(name))), ENGLISH)


def _weighed(header: str) -> Iterator[tuple[float, str]]:
    for part in header.split(","):
        name, _, weight = part.partition(";")
        try:
            yield float(weight.strip().removeprefix("q=") or 1), name.strip().lower()
        except ValueError:  # a weight that is no number: that part counts for nothing
            continue


def _known(name: str) -> str | None:
    if name in _SCRIPTS:
        return _SCRIPTS[name]
    return next((tag for tag in LANGUAGES if name == tag.lower() or name.startswith(f"{tag.lower()}-")), None)


def gettext(message: str) -> str:
    tag = _language.get()
    return message if tag == ENGLISH else _catalogue(tag).gettext(message)


def ngettext(one: str, many: str, count: int) -> str:
    tag = _language.get()
    if tag == ENGLISH:
        return one if count == 1 else many
    return _catalogue(tag).ngettext(one, many, count)


def _(message: str, /, **values: Any) -> str:
    """`message` in the reader's language; with `values`, those in the place of its `{name}`s."""
    said = gettext(message)
    return said.format(**values) if values else said


def marked(message: str) -> str:
    """For a text of a module: it is in the catalogues, and whoever shows it translates it."""
    return message


def noun(counted: str) -> str:
    """For what `app.units.plural` counts, where it stands apart from the call."""
    return counted


def install(environment: "Environment") -> None:
    """Lets templates speak it: `_()`, `{% trans %}`, and the filter `translated` for a text of a module."""
    environment.add_extension("jinja2.ext.i18n")
    environment.policies["ext.i18n.trimmed"] = True
    environment.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]  # the extension adds it
    environment.globals["_"] = _in_template
    environment.filters["translated"] = gettext
    environment.globals.update(language=language, languages=LANGUAGES)


def _in_template(message: str, /, **values: Any) -> "Markup":
    """As Jinja's own `_()`, which looks for the catalogue in its context: a table asks hundreds of times."""
    found = _as_markup(_language.get(), message)
    return found % values if values else found


@lru_cache(maxsize=4096)
def _as_markup(_tag: str, message: str) -> "Markup":
    """In the language of the request, which `_tag` is. Without values, `%%` is a percent sign too."""
    from markupsafe import Markup  # with the first page

    said = Markup(gettext(message))  # noqa: S704  # a text of a template or a catalogue
    return said if "%(" in message else said % ()


def first_sentence(text: str) -> tuple[str, str]:
    """A sentence and the rest: it ends where a capital letter follows, in Chinese with its own full stop."""
    first, *rest = re.split(r"(?<=[.!?]) (?=[A-Z])|(?<=[。！？])(?=.)", text, maxsplit=1)
    return first, "".join(rest)


def joined(*sentences: str) -> str:
    """Sentences one after the other; Chinese needs no blank between them."""
    return ("" if language() == "zh-Hant" else " ").join(each for each in sentences if each)


@cache
def _catalogue(tag: str) -> "NullTranslations":
    import gettext  # with the first page in another language

    return gettext.translation(DOMAIN, CATALOGUES, [tag.replace("-", "_")])
