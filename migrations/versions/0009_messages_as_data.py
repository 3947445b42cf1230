"""Messages are data: sentences that Roofmark has stored become `{"id": message, "params": values}`.

`0009_sentences.json` has the messages of the version before. A sentence becomes a message only where that message with
its values is the very same sentence again; every other text stays as it is.
"""

import ast
import json
import re
import string
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

TEXT_COLUMNS = (
    ("run", "error"),
    ("run", "hidden_reason"),
    ("sample", "error"),
    ("bandwidth_probe", "error"),
)
JSON_COLUMNS = (
    ("run", "evidence", ("warnings", "checks", "reason", "how")),
    ("run", "hardware", ("note",)),
    ("machine", "accelerators", ("note",)),
    ("server", "facts", ("notes",)),
    ("bandwidth_probe", "record", ("remarks",)),
    ("model", "geometry", ("assumptions",)),
    ("stated_geometry", "geometry", ("assumptions",)),
)
"""And the keys, anywhere inside, whose texts are Roofmark's sentences."""
PAGE = 1000
"""So many rows are in memory at once."""

_BREAK = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_NUMBER = r"[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?"
_QUOTED = r"'.*'|\".*\""
_LONGEST_TEXT = 4000
"""Longer texts, in characters, are nobody's sentence."""
_LONGEST = 3
"""No message has more sentences."""
_FEWEST_LETTERS = 8
"""A message with less text of its own cannot be told from names: its values must be numbers."""
_OTHERS_WORDS = frozenset({"words", "name", "model", "path", "host", "asked", "answering", "key"})
"""Values that are never a message, whatever they say."""
_MESSAGE = ({"id", "params"}, {"id", "params", "plural"})

Message = dict[str, Any]


def upgrade() -> None:
    for table, column in TEXT_COLUMNS:
        _rewrite(table, column, _stored if column != "hidden_reason" else _stored_reason)
    for table, column, keys in JSON_COLUMNS:
        _rewrite(table, column, partial(_json, change=partial(_packed, keys=keys)), is_json=True)


def downgrade() -> None:
    """Every message becomes its English sentence."""
    for table, column in (*TEXT_COLUMNS, ("bandwidth_probe", "phase")):
        _rewrite(table, column, _english_text)
    columns = [(table, column) for table, column, _ in JSON_COLUMNS]
    for table, column in (*columns, ("run", "progress"), ("share", "snapshot")):
        _rewrite(table, column, partial(_json, change=_english), is_json=True)
    op.execute("UPDATE share SET schema_version = 1")


def _rewrite(table: str, column: str, change: Callable[[str], str], *, is_json: bool = False) -> None:
    """As text, whatever the column's type: today's types know of messages, those of this revision do not."""
    connection = op.get_bind()
    value = "CAST(:value AS JSON)" if is_json and connection.dialect.name == "postgresql" else ":value"
    page = sa.text(
        f"SELECT id, CAST({column} AS TEXT) FROM {table} "  # noqa: S608  # names of this file
        f"WHERE id > :last AND {column} IS NOT NULL ORDER BY id LIMIT {PAGE}"
    )
    update = sa.text(f"UPDATE {table} SET {column} = {value} WHERE id = :id")  # noqa: S608  # see above
    last = 0
    while rows := connection.execute(page, {"last": last}).all():
        changed = [{"id": id, "value": new} for id, text in rows if (new := change(text)) != text]
        if changed:
            connection.execute(update, changed)
        last = rows[-1][0]


def _json(text: str, change: Callable[[Any], Any]) -> str:
    before = json.loads(text)
    after = change(before)
    return text if after == before else json.dumps(after)


# --- from sentences to messages --------------------------------------------------------------------------------------


def _stored(text: str) -> str:
    message = _message(text)
    return text if message is None else json.dumps(message, ensure_ascii=False)


def _stored_reason(text: str) -> str:
    """Any other reason for hiding a run is a person's own sentence, whatever it says."""
    return _stored(text) if text in _sentences()["reasons"] else text


def _packed(value: Any, keys: Iterable[str], is_sentence: bool = False) -> Any:
    if isinstance(value, dict):
        return {name: _packed(child, keys, name in keys) for name, child in value.items()}
    if isinstance(value, list):
        return [_packed(child, keys, is_sentence) for child in value]
    message = _message(value) if is_sentence and isinstance(value, str) else None
    return value if message is None else message


@lru_cache(maxsize=10_000)
def _message(text: str) -> Message | None:
    """What the text was made of: a message, or several sentences with at least one of them."""
    if len(text) > _LONGEST_TEXT:
        return None
    if (message := _whole(text)) is not None:
        return message
    sentences, parts, at = _BREAK.split(text), [], 0
    while at < len(sentences):
        for end in range(min(len(sentences), at + _LONGEST), at, -1):
            if (part := _whole(" ".join(sentences[at:end]))) is not None or end == at + 1:
                parts.append(part or sentences[at])
                at = end
                break
    if len(parts) == 1 or not any(isinstance(part, dict) for part in parts):
        return None
    joined: Any = parts[0]
    for part in parts[1:]:
        joined = {"id": "{sentences} {sentence}", "params": {"sentences": joined, "sentence": part}}
    return joined if _english(joined) == text else None


def _whole(text: str) -> Message | None:
    if text in _sentences()["plain"]:
        return {"id": text, "params": {}}
    for template in _templates():
        if (message := template.read(text)) is not None:
            return message
    head, colon, words = text.partition(": ")
    if colon and text.endswith(".") and (said := _whole(head)) is not None:  # with a server's own words
        return {"id": "{said}: {words}.", "params": {"said": said, "words": words[:-1]}}
    if text.endswith(".") and (sentence := _whole(text[:-1])) is not None:
        return {"id": "{sentence}.", "params": {"sentence": sentence}}
    return None


class _Template:
    """A message with values, to be found in a sentence again."""

    def __init__(self, id: str, plural: str | None = None, form: str | None = None) -> None:
        self.id, self.plural = id, plural
        parsed = list(string.Formatter().parse(form or id))
        self.letters = sum(letter.isalpha() for text, *_ in parsed for letter in text)
        self.fields = [(name, spec or "", conversion) for _, name, spec, conversion in parsed if name is not None]
        pattern, seen = "", set()
        for text, name, spec, conversion in parsed:
            pattern += re.escape(text)
            if name is not None:
                is_number = spec or (plural and name == "n") or self.letters < _FEWEST_LETTERS
                kind = _NUMBER if is_number else _QUOTED if conversion == "r" else ".+?"
                pattern += f"(?P={name})" if name in seen else f"(?P<{name}>{kind})"
                seen.add(name)
        self._pattern = re.compile(pattern, re.DOTALL)

    def read(self, text: str) -> Message | None:
        match = self._pattern.fullmatch(text)
        if match is None or any(_BREAK.search(value) for value in match.groupdict().values()):
            return None
        try:
            params = {name: self._value(match[name], name, spec, kind) for name, spec, kind in self.fields}
        except (ValueError, SyntaxError):  # quotes around something else
            return None
        message = {"id": self.id, **({"plural": self.plural} if self.plural else {}), "params": params}
        return message if _english(message) == text else None

    def _value(self, text: str, name: str, spec: str, conversion: str | None) -> Any:
        if spec or (self.plural and name == "n"):
            number = float(text.replace(",", ""))
            return int(number) if number == int(number) and "." not in text else number
        if conversion == "r":
            return ast.literal_eval(text)
        message = _whole(text) if " " in text and name not in _OTHERS_WORDS else None
        return text if message is None else message


@lru_cache(maxsize=1)
def _sentences() -> dict[str, Any]:
    """`plain`: without values; `formatted`; `counted`: pairs; `reasons`: for hiding a run."""
    stored = json.loads(Path(__file__).with_name("0009_sentences.json").read_text(encoding="utf-8"))
    has_values = {text: "{" in text for text in stored["messages"]}
    return {
        "plain": {text for text, has in has_values.items() if not has},
        "formatted": [text for text, has in has_values.items() if has],
        "counted": stored["counted"],
        "reasons": set(stored["reasons"]),
    }


@lru_cache(maxsize=1)
def _templates() -> list[_Template]:
    """Those with the most text of their own first. Where one value ends and the next begins must be seen."""
    templates = [_Template(text) for text in _sentences()["formatted"] if "}{" not in text]
    templates += [_Template(one, many, form) for one, many in _sentences()["counted"] for form in (one, many)]
    return sorted((template for template in templates if template.letters), key=lambda template: -template.letters)


# --- from messages to sentences --------------------------------------------------------------------------------------


def _english(value: Any) -> Any:
    """With every message in it as an English sentence."""
    if isinstance(value, list):
        return [_english(child) for child in value]
    if not isinstance(value, dict):
        return value
    if value.keys() not in _MESSAGE or not isinstance(value["params"], dict):
        return {name: _english(child) for name, child in value.items()}
    return _sentence(value["id"], {name: _english(param) for name, param in value["params"].items()}, value)


def _sentence(id: str, params: dict[str, Any], message: Message) -> str:
    text = next(iter(params.values()), "")
    if id == "{lower_first}":
        return text if text[1:2].isupper() else text[:1].lower() + text[1:]
    if id == "{upper_first}":
        return text[:1].upper() + text[1:]
    if id == "{without_code}":
        return text.replace("`", "")
    try:
        if "plural" in message:
            return (id if params["n"] == 1 else message["plural"]).format(**{**params, "n": f"{params['n']:,}"})
        return id.format(**params) if params else id
    except (LookupError, TypeError, ValueError, AttributeError):  # the message alone
        return id


def _english_text(text: str) -> str:
    if not text.startswith('{"id":'):
        return text
    try:
        return str(_english(json.loads(text)))
    except ValueError:  # words that look like a message
        return text
