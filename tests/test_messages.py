"""The catalogues say everything that the pages say, and say it with the same names in it."""

import ast
import re
import string
from collections.abc import Iterator
from gettext import GNUTranslations
from pathlib import Path

import pytest
from babel.messages.catalog import Message

from app.core import errors
from tests import messages

ROOT = Path(__file__).parent.parent
LANGUAGES = pytest.mark.parametrize("language", messages.LANGUAGES)


@LANGUAGES
def test_a_catalogue_is_up_to_date_with_the_sources(language: str) -> None:
    """`make messages` makes it so."""
    assert messages.po(messages.updated(language)) == messages.po_path(language).read_bytes()


@LANGUAGES
def test_every_message_is_translated(language: str) -> None:
    found = [message for message in messages.catalogue(language) if message.id]
    assert found
    assert not [message.id for message in found if message.fuzzy or not all(_said(message))]


@LANGUAGES
def test_a_translation_names_what_its_message_names(language: str) -> None:
    for message in messages.catalogue(language):
        for said in _said(message) if message.id else ():
            assert _names(said) == _names(_source(message)), said


@LANGUAGES
def test_a_translation_has_the_tags_of_its_message(language: str) -> None:
    for message in messages.catalogue(language):
        for said in _said(message) if message.id else ():
            assert sorted(re.findall(r"</?\w+", said)) == sorted(re.findall(r"</?\w+", _source(message))), said


@LANGUAGES
def test_what_is_compiled_is_what_is_written(language: str) -> None:
    catalogue = messages.catalogue(language)
    with messages.po_path(language).with_suffix(".mo").open("rb") as file:
        compiled = GNUTranslations(file)
    for message in catalogue:
        if isinstance(message.id, str) and message.id:
            assert compiled.gettext(message.id) == message.string
        elif message.id:
            assert {compiled.ngettext(message.id[0], message.id[1], n) for n in range(1, 10)} == set(_said(message))


def _source(message: Message) -> str:
    return message.id if isinstance(message.id, str) else str(message.id[1])


def _said(message: Message) -> tuple[str, ...]:
    said = message.string or ""
    return (said,) if isinstance(said, str) else tuple(said)


def _names(text: str) -> set[str]:
    """Placeholders of templates, `%(name)s`, of Python, `{name}`, and of charts, `%{x:,}`."""
    charts = {
        re.sub(r"\|.*\}", "}", name) for name in re.findall(r"%\{[^}]*\}", text)
    }  # each language writes its dates
    templates = set(re.findall(r"%\(\w+\)s", text))
    rest = re.sub(r"%\{[^}]*\}", "", text)
    if re.search(r"\{ | \}", rest):  # braces that are meant
        return charts | templates
    fields = {re.split(r"[.!:]", name)[0] for _, name, _, _ in string.Formatter().parse(rest) if name}
    return charts | templates | fields


BEFORE_PAGES = {
    "cli", "demo.py", "settings.py", "notify.py:services", "secrets.py:_fernet", "security.py:check_listen",
    "sources.py:from_path", "config_settings.py:parse_setting",
    "database.py:_checked", "database.py:_create_engine", "migrate.py",
}  # fmt: skip
"""Files, or functions of one, whose errors are for commands, or are said before there are pages."""


def test_every_error_that_a_page_may_show_is_marked() -> None:
    kinds = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}
    unmarked = [
        f"{path.relative_to(messages.SOURCES)}:{raised.lineno}"
        for path in sorted(messages.SOURCES.rglob("*.py"))
        for function, raised in _raises(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(raised.exc, ast.Call)
        and getattr(raised.exc.func, "id", "") in kinds
        and isinstance(raised.exc.args[0], ast.Constant | ast.JoinedStr)
        and not {path.parent.name, path.name, f"{path.name}:{function}"} & BEFORE_PAGES
    ]
    assert unmarked == []


def _raises(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Raise]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Raise):
            yield function, node
        yield from _raises(node, node.name if isinstance(node, ast.FunctionDef) else function)


ENGLISH_ONLY = ("cli", "engines", "hardware", "http", "share")
"""Terminals, what is stored, and shares, which are kept in English and retold."""


def test_clauses_are_joined_as_the_language_joins_them() -> None:
    """`pause("; ").join(...)`, where what is joined was translated."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "app").rglob("*.py"))
        if path.relative_to(ROOT / "app").parts[0] not in ENGLISH_ONLY
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r'(?<!pause\()"(; |: )"\.join', line)
    ]
    assert not found
