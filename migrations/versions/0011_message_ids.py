"""Messages whose English text or placeholders have changed get their new ids, so that they are still translated.

`0011_messages.json` lists them: the `old` and the `new` id, and the new names of `params`.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

TEXT_COLUMNS = (
    ("run", "error"),
    ("run", "hidden_reason"),
    ("sample", "error"),
    ("bandwidth_probe", "error"),
    ("bandwidth_probe", "phase"),
)
JSON_COLUMNS = (
    ("run", "evidence"),
    ("run", "hardware"),
    ("run", "progress"),
    ("machine", "accelerators"),
    ("server", "facts"),
    ("bandwidth_probe", "record"),
    ("model", "geometry"),
    ("stated_geometry", "geometry"),
    ("share", "snapshot"),
)
ROWS_AT_ONCE = 1000


class Renamed(NamedTuple):
    """The id of a message and the names of its values by their other names."""

    id: str
    params: Mapping[str, str]


def upgrade() -> None:
    _rename({entry["old"]: Renamed(entry["new"], entry.get("params", {})) for entry in _entries()})


def downgrade() -> None:
    _rename(
        {
            entry["new"]: Renamed(entry["old"], {new: old for old, new in entry.get("params", {}).items()})
            for entry in _entries()
        }
    )


def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(Path(__file__).with_name("0011_messages.json").read_text("utf-8"))
    return entries


def _rename(messages: Mapping[str, Renamed]) -> None:
    for table, column in TEXT_COLUMNS:
        _rewrite(table, column, messages, is_json=False)
    for table, column in JSON_COLUMNS:
        _rewrite(table, column, messages, is_json=True)


def _rewrite(table: str, column: str, messages: Mapping[str, Renamed], *, is_json: bool) -> None:
    """Reads and writes the column as text: today's column types would change the messages themselves."""
    connection = op.get_bind()
    value = "CAST(:value AS JSON)" if is_json and connection.dialect.name == "postgresql" else ":value"
    page = sa.text(
        f"SELECT id, CAST({column} AS TEXT) FROM {table} "  # noqa: S608  # names of this file
        f"WHERE id > :last AND CAST({column} AS TEXT) LIKE '%\"params\"%' ORDER BY id LIMIT {ROWS_AT_ONCE}"
    )
    update = sa.text(f"UPDATE {table} SET {column} = {value} WHERE id = :id")  # noqa: S608  # see above
    last = 0
    while rows := connection.execute(page, {"last": last}).all():
        changed = [{"id": id, "value": new} for id, text in rows if (new := _renamed_text(text, messages)) != text]
        if changed:
            connection.execute(update, changed)
        last = rows[-1][0]


def _renamed_text(text: str, messages: Mapping[str, Renamed]) -> str:
    """The text itself where nothing in it is renamed, or it is a person's words and no JSON."""
    try:
        before = json.loads(text)
        after = json.loads(text, object_hook=partial(_renamed, messages=messages))
    except ValueError:  # a person's words, or a server's
        return text
    return text if after == before else json.dumps(after)


def _renamed(stored: dict[str, Any], messages: Mapping[str, Renamed]) -> dict[str, Any]:
    params = stored.get("params")
    if stored.keys() not in ({"id", "params"}, {"id", "params", "plural"}) or not isinstance(params, dict):
        return stored
    new = messages.get(stored["id"]) if isinstance(stored["id"], str) else None
    if new is None:
        return stored
    return {**stored, "id": new.id, "params": {new.params.get(name, name): param for name, param in params.items()}}
