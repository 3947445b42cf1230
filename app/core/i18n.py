"""The reader's language, and messages as data. Sources speak English; a catalogue of `app/locale/` holds the same
messages in another language.

`use` sets the language of a request, threads of the pool included. Without a request the language is English: in
commands, in workers, and for whatever the API answers.

`_("… {name}", name=…)` gives a `Text`: a sentence in the reader's language that remembers its message and its values.
What is stored of a Text is `{"id": message, "params": values}` (`dumps`, `stored_text`); what is read back (`loads`,
`restored_text`) is a Text in the language of whoever reads it. A plain str stays as it is, whatever it says: a person's
words, a name, a sentence of a server.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache, reduce
from gettext import GNUTranslations, translation
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "zh-Hant": "繁體中文"}
"""Tags as in `<html lang>`, each with its own name for itself."""
CATALOGUES = Path(__file__).parent.parent / "locale"
DOMAIN = "roofmark"

_SCRIPTS = {"zh": "zh-Hant", "zh-tw": "zh-Hant", "zh-hk": "zh-Hant", "zh-mo": "zh-Hant"}
"""What browsers call a language whose tag does not name its script."""

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


# --- the reader's language -------------------------------------------------------------------------------------------


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
    """Returns the supported language that `Accept-Language` prefers; English when it names none of them.

    >>> accepted("fr, zh-TW;q=0.9, en;q=0.8"), accepted("en-GB, zh-Hant;q=0.5"), accepted("zh-CN"), accepted("")
    ('zh-Hant', 'en', 'en', 'en')
    """
    preferences = sorted(_preferences(header), key=lambda preference: -preference[0])
    return next((tag for weight, name in preferences if weight > 0 and (tag := _supported(name))), ENGLISH)


def _preferences(header: str) -> Iterator[tuple[float, str]]:
    for part in header.split(","):
        name, _, weight = part.partition(";")
        try:
            yield float(weight.strip().removeprefix("q=") or 1), name.strip().lower()
        except ValueError:  # a weight that is not a number: the part is ignored
            continue


def _supported(name: str) -> str | None:
    if name in _SCRIPTS:
        return _SCRIPTS[name]
    return next((tag for tag in LANGUAGES if name == tag.lower() or name.startswith(f"{tag.lower()}-")), None)


@cache
def _catalogue(tag: str) -> GNUTranslations:
    return translation(DOMAIN, CATALOGUES, [tag.replace("-", "_")])


def gettext(message: str) -> str:
    """The translation of a message, which may still hold its placeholders; English where there is none."""
    tag = _language.get()
    return message if tag == ENGLISH or not message else _catalogue(tag).gettext(message)


def _ngettext(singular: str, plural: str, count: float) -> str:
    tag = _language.get()
    if tag == ENGLISH:
        return singular if count == 1 else plural
    return _catalogue(tag).ngettext(singular, plural, int(count))


# --- messages --------------------------------------------------------------------------------------------------------


class Text(str):
    """A message as the reader reads it, which knows what it was made of.

    Methods of str, `+` and f-strings give a plain str, which has lost its message: what is stored is composed with
    placeholders or with `joined`.
    """

    __slots__ = ("id", "params", "plural")

    id: str
    """The English message, which is the key in the catalogues."""
    params: Mapping[str, Any]
    """The values by placeholder name: each is a str, a number or another Text."""
    plural: str | None
    """The English plural form, used for any count but one; `params["n"]` is the count."""

    def __new__(cls, text: str, id: str, params: Mapping[str, Any], plural: str | None = None) -> Self:
        made = str.__new__(cls, text)
        made.id, made.params, made.plural = id, params, plural
        return made

    def __reduce__(self) -> tuple[Any, ...]:  # for copy, dataclasses.asdict and pickle
        return type(self), (str(self), self.id, self.params, self.plural)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """A field of the type `Text | str` keeps a Text; a plain str validates every Text to a str."""
        from pydantic_core import core_schema  # 15 ms and 4 MB, without which `roofmark --help` does

        return core_schema.is_instance_schema(cls)

    def to_json(self) -> dict[str, Any] | str:
        """Returns `{"id": ..., "params": {...}}`, with `"plural"` for a message with a count. A message with a value
        that JSON cannot hold becomes its plain sentence."""
        if any(isinstance(value, float) and not isfinite(value) for value in self.params.values()):
            return str(self)
        plural = {} if self.plural is None else {"plural": self.plural}
        return {"id": self.id, **plural, "params": {name: packed(value) for name, value in self.params.items()}}


def _(message: str, /, **params: Any) -> str:
    """Returns a Text: `message` in the reader's language, with each `{name}` replaced by its value in `params`."""
    if isinstance(message, Text) and not params:
        return message
    translation = gettext(message)
    if not params:
        return Text(translation, message, params)
    params = {name: _param(value) for name, value in params.items()}
    return Text(translation.format(**params), message, params)


def ngettext(singular: str, plural: str, n: int, /, **params: Any) -> str:
    """Returns a Text with a count: `{n}` is the count, with thousands separators."""
    params = {"n": n, **{name: _param(value) for name, value in params.items()}}
    return Text(_counted(singular, plural, params), singular, params, plural)


def N_(message: str) -> str:
    """Marks a module-level constant for translation. The code that shows it passes it to `_`."""
    return message


def noun(singular: str) -> str:
    """Marks a noun that is passed to `app.core.units.plural` somewhere else."""
    return singular


def _counted(singular: str, plural: str, params: Mapping[str, Any]) -> str:
    return _ngettext(singular, plural, params["n"]).format(**{**params, "n": f"{params['n']:,}"})


def _param(value: Any) -> Any:
    """Returns a value that JSON can hold. An error becomes the Text that it was raised with."""
    if isinstance(value, Exception) and value.args and isinstance(value.args[0], Text):
        return value.args[0]
    return value if isinstance(value, Text | int | float) else str(value)


# --- sentences made of several ---------------------------------------------------------------------------------------

_JOINTS = {
    " ": N_("{sentences} {sentence}"),
    "; ": N_("{clauses}; {clause}"),
    ": ": N_("{subject}: {clause}"),
    ", ": N_("{clauses}, {clause}"),
    " · ": N_("{parts} · {part}"),
    " + ": N_("{parts} + {part}"),
    "<br>": N_("{lines}<br>{line}"),
    "": N_("{text}{more}"),
}
_ITEMS = N_("{items}, {item}")
"""Joins the names of a list: Chinese has a comma of its own for that."""
_PLACEHOLDER = re.compile(r"{(\w+)}")


def joined(*texts: str, by: str = " ") -> str:
    """Joins sentences, or clauses, with the separator that `by` names in English; empty texts are left out. Chinese has
    no space between sentences."""
    texts = tuple(filter(None, texts))
    return _folded(_JOINTS[by], texts) if texts else ""


def enumerated(names: Iterable[str], last: Literal["and", "or"] = "and") -> str:
    """Joins names as `a, b and c`, or with "or" before the last one."""
    *others, end = names
    if not others:
        return end
    message = {"and": N_("{others} and {end}"), "or": N_("{others} or {end}")}[last]
    return _(message, others=_folded(_ITEMS, others), end=end)


def _folded(joint: str, texts: Iterable[str]) -> str:
    before, after = _PLACEHOLDER.findall(joint)
    first, *others = texts
    return reduce(lambda text, part: _(joint, **{before: text, after: part}), others, first)


def separator(english: str) -> str:
    """Returns the separator of sentences or clauses in the reader's language for the English one."""
    return _PLACEHOLDER.sub("", gettext(_JOINTS[english]))


def lower_first(title: str) -> str:
    """Returns a title, or the beginning of a sentence, for use inside a sentence. Abbreviations keep their capitals.

    >>> lower_first("Decode"), lower_first("TTFT, prompt cached")
    ('decode', 'TTFT, prompt cached')
    """
    return _changed("{lower_first}", title)


def upper_first(words: str) -> str:
    """Returns words with a capital first letter, for the beginning of a sentence."""
    return _changed("{upper_first}", words)


def without_code(words: str) -> str:
    """Returns the words without backticks, which only pages render as code."""
    return _changed("{without_code}", words)


def as_sentence(words: str) -> str:
    """Returns words that are part of a sentence elsewhere as a sentence: with a capital first letter and a full
    stop."""
    text = upper_first(words)
    return text if text.endswith((".", "。")) else _("{sentence}.", sentence=text)


_CHANGES: Mapping[str, Callable[[str], str]] = {
    "{lower_first}": lambda text: text if text[1:2].isupper() else text[:1].lower() + text[1:],
    "{upper_first}": lambda text: text[:1].upper() + text[1:],
    "{without_code}": lambda text: text.replace("`", ""),
}
"""Messages that change the letters of their only value, and are in no catalogue."""


def _changed(id: str, text: str) -> str:
    """Returns the changed text as a Text; the same object when nothing changes."""
    changed = _CHANGES[id](text)
    if text == changed:
        return text
    return Text(changed, id, {id[1:-1]: text}) if isinstance(text, Text) else changed


_BREAK = re.compile(r"(?<=[.!?]) (?=[A-Z])|(?<=[。！？])(?=.)")


def first_sentence(text: str) -> tuple[str, str]:
    """Splits a text into its first sentence and the rest. A sentence ends before a capital letter, in Chinese at its
    full stop."""
    first, *rest = _BREAK.split(text, maxsplit=1)
    return first, "".join(rest)


# --- stored messages -------------------------------------------------------------------------------------------------

_KEYS = ({"id", "params"}, {"id", "params", "plural"})
_SAFE = re.compile(r"(?:[^{}]|{{|}}|{[a-z_]\w*(?:!r)?(?::,?(?:\.\d)?[dfg%]?)?})*", re.IGNORECASE)
"""A message that is safe to format whoever wrote it: it has no attribute access and no field widths."""
_MESSAGE_START = '{"id":'


def packed(value: Any) -> Any:
    """Returns a tree of JSON values with every Text replaced by its stored form."""
    if isinstance(value, Text):
        return value.to_json()
    if isinstance(value, dict):
        return {name: packed(child) for name, child in value.items()}
    return [packed(child) for child in value] if isinstance(value, list | tuple) else value


def dumps(value: Any) -> str:
    """Serializes as json.dumps does; each Text is stored as its message."""
    return json.dumps(packed(value))


def loads(text: str | bytes) -> Any:
    """Parses as json.loads does; each stored message becomes a Text in the reader's language."""
    text = text.decode() if isinstance(text, bytes) else text
    return json.loads(text, object_hook=_restored if '"params"' in text else None)


def stored_text(text: str) -> str:
    """Returns a text as a text column stores it: a message as JSON, any other text unchanged."""
    if not isinstance(text, Text) and text.startswith(_MESSAGE_START):  # a person's words that look like a message
        text = Text(text, "{text}", {"text": text})
    packed_text = packed(text)
    return packed_text if isinstance(packed_text, str) else json.dumps(packed_text, ensure_ascii=False)


def restored_text(stored: str) -> str:
    """Returns the text that `stored_text` stored, in the reader's language."""
    if not stored.startswith(_MESSAGE_START):
        return stored
    try:
        text = loads(stored)
    except ValueError:  # older words that look like a message
        return stored
    return text if isinstance(text, Text) else stored


def localized(value: Any) -> Any:
    """Returns a tree of values and dataclasses with every Text in it in the current reader's language."""
    if isinstance(value, Text):
        return _localized_text(value.id, {name: localized(param) for name, param in value.params.items()}, value.plural)
    if value is None or isinstance(value, str | int | float):  # most of a tree: numbers of a chart, times of events
        return value
    if isinstance(value, Mapping):
        return {name: localized(child) for name, child in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(localized, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: localized(getattr(value, field.name)) for field in fields(value)})
    return value


def english(text: str) -> str:
    """Returns the English form of a Text, as addresses and files use it."""
    if not isinstance(text, Text):
        return text
    with use(ENGLISH):
        return str(localized(text))


def _restored(stored: dict[str, Any]) -> Any:
    """Returns the Text that `Text.to_json` stored; any other object unchanged. JSON decoding calls this innermost
    object first."""
    if stored.keys() not in _KEYS or not isinstance(stored["id"], str) or not isinstance(stored["params"], dict):
        return stored
    return _localized_text(stored["id"], stored["params"], stored.get("plural"))


def _localized_text(id: str, params: Mapping[str, Any], plural: str | None) -> Text:
    """Returns a message in the reader's language; the bare message when the values do not fit it."""
    try:
        if id in _CHANGES:
            text = _CHANGES[id](params[id[1:-1]])
        elif not _SAFE.fullmatch(id) or (plural is not None and not _SAFE.fullmatch(plural)):
            text = id
        elif plural is not None:
            text = _counted(id, plural, params)
        else:
            text = gettext(id).format(**params) if params else gettext(id)
    except (LookupError, TypeError, ValueError):  # from another version, or handmade
        text = id
    return Text(text, id, params, plural)


# --- templates -------------------------------------------------------------------------------------------------------


def install(environment: "Environment") -> None:
    """Adds translation to a Jinja environment: `_()` and `{% trans %}` for texts of templates, and the filter `gettext`
    for constants of modules, which is escaped as every value is."""
    environment.add_extension("jinja2.ext.i18n")
    environment.policies["ext.i18n.trimmed"] = True
    environment.install_gettext_callables(gettext, _ngettext, newstyle=True)  # type: ignore[attr-defined]  # the extension adds it
    environment.globals["_"] = _in_template
    environment.filters.update(gettext=_, enumerated=enumerated, inside=lower_first)
    environment.globals.update(language=language, languages=LANGUAGES, pause=separator)


def _in_template(message: str, /, **values: Any) -> Markup:
    """Translates in a template. Jinja's own `_()` looks the catalogue up in its context each time, and a table calls
    this hundreds of times."""
    markup = _as_markup(_language.get(), message)
    return markup % values if values else markup


@lru_cache(maxsize=4096)
def _as_markup(_tag: str, message: str) -> Markup:
    """Returns the translation as Markup; `_tag` is the language of the request and part of the cache key. Without
    values, `%%` is a percent sign too."""
    markup = Markup(gettext(message))  # noqa: S704  # a text of a template or a catalogue
    return markup if "%(" in message else markup % ()
