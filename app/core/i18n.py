"""The reader's language. Sources speak English; a catalogue of `app/locale/` says the same in another language.

`use` sets the language of a request; whatever runs in it, threads of the pool included, then speaks it. Without a
request there is none: commands, workers and the database stay English. What was stored or said in English, `translated`
says in the reader's language when it is shown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.core.sentences import Messages, compiled, sentences

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "zh-Hant": "繁體中文"}
"""Tags as in `<html lang>`, each with its own name for itself."""
CATALOGUES = Path(__file__).parent.parent / "locale"
DOMAIN = "roofmark"

_SCRIPTS = {"zh": "zh-Hant", "zh-tw": "zh-Hant", "zh-hk": "zh-Hant", "zh-mo": "zh-Hant"}
"""What browsers call a language whose tag does not name its script."""

_PAUSES = {"zh-Hant": {" ": "", "; ": "；", ": ": "：", ", ": "，"}}
"""What stands between sentences and clauses, where it is not as in English."""
_ITEMS = {"zh-Hant": "、"}
"""And between the items of a list."""
_OTHERS = "words"
"""The name of a value that is somebody else's words: they stay as they were said."""
_TERMS = frozenset({"bound", "series", "x", "y"})
"""Names of values that are Roofmark's own even if they are single words."""
_STOPS = ("。", "！", "？")
_LONGEST = 4000
"""Longer texts, in characters, are nobody's sentence."""
_LONGEST_MESSAGE = 3
"""In sentences."""
_MOST_CLAUSES = 6

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


def lower_first(title: str) -> str:
    """A title, or the beginning of a sentence, inside of one; abbreviations stay as they are.

    >>> lower_first("Decode"), lower_first("TTFT, prompt cached")
    ('decode', 'TTFT, prompt cached')
    """
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


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


def N_(message: str, /, **values: Any) -> str:
    """For a text that is kept, in a module or in the database: it is in the catalogues, and whoever shows it translates
    it with `translated`."""
    return message.format(**values) if values else message


def noun(counted: str) -> str:
    """For what `app.core.units.plural` counts, where it stands apart from the call."""
    return counted


def translated(text: str) -> str:
    """An English text of Roofmark in the reader's language, with the values it has. Words of others stay as they are.

    It may be one message, with values or without, or several sentences, each of a message.
    """
    tag, said = _language.get(), str(text)  # forms show errors as they are
    return said if tag == ENGLISH or len(said) > _LONGEST else _catalogue(tag).translated(said)


def install(environment: "Environment") -> None:
    """Lets templates speak it: `_()`, `{% trans %}`, and the filter `translated` for a text that was marked."""
    environment.add_extension("jinja2.ext.i18n")
    environment.policies["ext.i18n.trimmed"] = True
    environment.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]  # the extension adds it
    environment.globals["_"] = _in_template
    environment.filters.update(translated=translated, enumerated=enumerated, inside=lower_first)
    environment.globals.update(language=language, languages=LANGUAGES, pause=separator)


def separator(english: str) -> str:
    """What stands between sentences or clauses in the reader's language, by what does in English."""
    return _PAUSES.get(language(), {}).get(english, english)


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


def as_sentence(words: str) -> str:
    """Words that stand in the middle of a sentence elsewhere, as one of their own."""
    said = f"{words[:1].upper()}{words[1:]}"
    return said if said.endswith((".", "。")) else _("{sentence}.", sentence=said)


def joined(*said: str) -> str:
    """Sentences one after the other; Chinese needs no blank between them."""
    return separator(" ").join(each for each in said if each)


def enumerated(names: Iterable[str], last: str = "and") -> str:
    """`a, b and c`, or with another word before the `last`."""
    *others, end = names
    if not others:
        return end
    said = {"and": N_("{others} and {end}"), "or": N_("{others} or {end}")}[last]
    return _(said, others=_ITEMS.get(language(), ", ").join(others), end=end)


class _Catalogue:
    """What one language says, and how English is found in it."""

    def __init__(self, tag: str) -> None:
        import gettext  # with the first page in another language

        path = CATALOGUES / tag.replace("-", "_") / "LC_MESSAGES" / f"{DOMAIN}.mo"
        with path.open("rb") as file:
            translations = gettext.GNUTranslations(file)
        self._gettext, self.ngettext = translations.gettext, translations.ngettext
        said = [tuple(forms) for forms in compiled(path.read_bytes())]
        self._counted = {form: (forms[0], forms[1]) for forms in said if len(forms) > 1 for form in forms}
        self._messages = Messages((forms[0] for forms in said if len(forms) == 1), self._counted)
        self._without_code = {forms[0].replace("`", ""): forms[0] for forms in said if "`" in forms[0]}
        self._pauses = _PAUSES.get(tag, {})
        self.translated = lru_cache(maxsize=4096)(self._translated)

    def gettext(self, message: str) -> str:
        return self._gettext(message) if message else ""  # of nothing gettext tells the head of the catalogue

    def _translated(self, text: str) -> str:
        if (said := self._sentence(text)) is not None:
            return said
        told = self._sentences(sentences(text))
        if not all(is_known for _part, is_known in told) and (said := self._sentence(text, across=True)) is not None:
            return said
        if any(is_known for _part, is_known in told):
            return self._joined([part for part, _is_known in told], " ")
        return self._clauses(text)

    def _joined(self, parts: Sequence[str], pause: str) -> str:
        """Between Chinese sentences there is no blank, but there is one behind a sentence that stayed English."""
        said = self._pauses.get(pause, pause)
        return reduce(lambda before, part: before + (said or ("" if before.endswith(_STOPS) else " ")) + part, parts)

    def _sentences(self, parts: list[str]) -> list[tuple[str, bool]]:
        """Each as it is said, and whether it is Roofmark's; a message may have several sentences."""
        said, at = [], 0
        while at < len(parts):
            for end in range(min(len(parts), at + _LONGEST_MESSAGE), at, -1):
                if (found := self._sentence(" ".join(parts[at:end]))) is not None:
                    said.append((found, True))
                    break
            else:
                end = at + 1
                found = self._clauses(parts[at])
                said.append((found, found != parts[at]))
            at = end
        return said

    def _clauses(self, text: str) -> str:
        """Of what is no message itself: names, messages and others' words in a row."""
        for end in (found.start() for found in re.finditer("[,;] ", text)):  # a message that goes on where another ends
            if (more := self._sentence(text[end:])) is not None and (said := self.translated(text[:end])) != text[:end]:
                return said + more
        head, colon, tail = text.partition(": ")
        is_said = " " in head or tail[:1].isdigit()
        if colon and is_said and (said_head := self.translated(head)) != head:  # what follows is another's word
            return self._joined((said_head, tail), colon)
        if colon and (said_tail := self._value(tail)) != tail:  # what a file is, or another thing with a name
            return self._joined((self.gettext(head), said_tail), colon)
        for pause in ("; ", " = ", " + ", ", "):
            parts = text.split(pause)
            if 1 < len(parts) <= _MOST_CLAUSES:
                told = [self.translated(part) for part in parts]
                is_name = [" " not in part for part in parts]
                is_own = [one != other and not name for one, other, name in zip(told, parts, is_name, strict=True)]
                if any(is_own) and (pause != ", " or all(map(or_, is_own, is_name))):
                    return self._joined(told, pause)
        return text

    def _sentence(self, text: str, *, across: bool = False) -> str | None:
        """A whole message; none of its values goes `across` the end of a sentence, unless it may, and none that it
        begins with across a colon."""
        if (said := self.gettext(text)) != text:
            return said
        for message, values in self._messages.of(text):
            if across or message.is_within(values):
                others = {_OTHERS, *(field.name for field in message.fields if field.is_quoted)}
                told = {name: value if name in others else self._value(value, name) for name, value in values.items()}
                return message.filled(self._of(message.id, values), told)
        if text.endswith(".") and (whole := self._sentence(text[:-1], across=across)) is not None:
            return self.gettext("{sentence}.").format(sentence=whole)
        if text in self._without_code:
            return self.gettext(self._without_code[text]).replace("`", "")
        # words from the middle of a sentence may stand as one of their own
        return self._sentence(text[:1].lower() + text[1:], across=across) if text[:1].isupper() else None

    def _value(self, value: str, name: str = "") -> str:
        """Single words are names, but for those that are known to be Roofmark's terms, which begin large elsewhere."""
        if name in _TERMS:
            return next(
                (said for each in (value, value[:1].upper() + value[1:]) if (said := self.gettext(each)) != each), value
            )
        return self.translated(value) if " " in value else value

    def _of(self, message: str, values: Mapping[str, str]) -> str:
        if message not in self._counted:
            return self.gettext(message)
        count = values["n"].replace(",", "")
        return self.ngettext(*self._counted[message], int(count) if count.isdecimal() else 2)


@cache
def _catalogue(tag: str) -> _Catalogue:
    return _Catalogue(tag)
