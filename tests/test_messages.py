"""What is translated says it with the same names in it; what is missing fails a release only (`tests.messages`)."""

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
def test_a_translation_names_what_its_message_names(language: str) -> None:
    for message in messages.catalogue(language):
        for translation in _translations(message):
            assert _names(translation) == _names(_source(message)), translation


@LANGUAGES
def test_a_translation_has_the_tags_of_its_message(language: str) -> None:
    for message in messages.catalogue(language):
        for translation in _translations(message):
            assert _tags(translation) == _tags(_source(message)), translation


@LANGUAGES
def test_what_is_compiled_is_what_is_written(language: str) -> None:
    catalogue = messages.catalogue(language)
    with messages.po_path(language).with_suffix(".mo").open("rb") as file:
        compiled = GNUTranslations(file)
    for message in catalogue:
        if isinstance(message.id, str) and message.id:
            assert compiled.gettext(message.id) == (message.string or message.id)
        elif message.id and all(messages.strings(message)):
            plurals = {compiled.ngettext(message.id[0], message.id[1], n) for n in range(1, 10)}
            assert plurals == set(messages.strings(message))


def _mismatched(path: Path) -> Iterator[str]:
    """The calls of `_()` whose values are not those that their message has places for."""
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "_" and call.keywords:
            message, values = call.args[0], {keyword.arg for keyword in call.keywords}
            if isinstance(message, ast.Constant) and isinstance(message.value, str) and None not in values:
                fields = {name.split(".")[0] for _, name, _, _ in string.Formatter().parse(message.value) if name}
                if fields != values - {"n"} | fields & {"n"}:
                    yield f"{path}:{call.lineno}: {message.value}"


def test_every_message_is_made_with_the_values_that_it_names() -> None:
    paths = [path for folder in ("app", "migrations") for path in (ROOT / folder).rglob("*.py")]
    assert [mismatch for path in paths for mismatch in _mismatched(path)] == []


def test_a_report_names_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "texts", lambda: ["Runs", "Nobody has translated this."])
    assert messages.main(["--complete"]) == 1
    assert "zh-Hant: 2 messages, 1 without a translation\n  Nobody has translated this.\n" in capsys.readouterr().out


def _source(message: Message) -> str:
    return message.id if isinstance(message.id, str) else str(message.id[1])


def _translations(message: Message) -> list[str]:
    return [text for text in messages.strings(message) if text] if message.id else []


def _tags(text: str) -> list[str]:
    return sorted(re.findall(r"</?\w+", text))


def _names(text: str) -> set[str]:
    """Placeholders of templates, `%(name)s`, of Python, `{name}`, and of charts, `%{x:,}`."""
    charts = {
        re.sub(r"\|.*\}", "}", name) for name in re.findall(r"%\{+[^}]*\}+", text)
    }  # each language writes its dates
    templates = set(re.findall(r"%\(\w+\)s", text))
    rest = re.sub(r"%\{+[^}]*\}+", "", text)
    if re.search(r"\{ | \}", rest):  # braces that are meant
        return charts | templates
    fields = {re.split(r"[.!:]", name)[0] for _, name, _, _ in string.Formatter().parse(rest) if name}
    return charts | templates | fields


BEFORE_PAGES = {
    "cli", "demo.py", "settings.py", "notify.py:services", "secrets.py:_fernet", "security.py:check_listen",
    "sources.py:from_path", "config_settings.py:parse_setting", "database.py:_checked", "database.py:_create_engine",
    "migrate.py",
}  # fmt: skip
"""Files, or functions of one, whose errors are for commands, or are said before there are pages."""


def test_every_error_that_a_page_may_show_is_marked() -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
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


ENGLISH_ONLY = ("cli", "engines", "share")
"""Terminals, servers' own words, and titles of shares."""


def test_clauses_are_joined_as_the_language_joins_them() -> None:
    """`joined(..., by="; ")`, where what is joined was translated."""
    joins = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "app").rglob("*.py"))
        if path.relative_to(ROOT / "app").parts[0] not in ENGLISH_ONLY
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r'"(; |: )"\.join', line)
    ]
    assert not joins
