"""Rows for tables of any revision, made by looking at the tables and not at today's models."""

import itertools
import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.types import JSON

_numbers = itertools.count(1)


def tables(connection: Connection) -> list[Table]:
    """All but Alembic's own, parents first."""
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != "alembic_version"]


def fill(connection: Connection) -> None:
    """One more row in every table, pointing at the newest rows of its parents."""
    for table in tables(connection):
        allowed = _allowed_words(connection, table.name)
        connection.execute(insert(table).values({c.name: _value(connection, c, allowed) for c in table.columns}))


def counts(connection: Connection) -> dict[str, int]:
    return {
        table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in tables(connection)
    }


def _allowed_words(connection: Connection, table: str) -> dict[str, str]:
    """The first word that each `column IN (...)` check allows."""
    checks = (check["sqltext"] for check in inspect(connection).get_check_constraints(table))
    matches = (re.search(r"(\w+)\b.*?'([^']*)'", str(check), re.DOTALL) for check in checks)
    return {match[1]: match[2] for match in matches if match}


def _value(connection: Connection, column: Column[Any], allowed: dict[str, str]) -> object:
    if column.name in allowed:
        return allowed[column.name]
    for key in column.foreign_keys:
        return connection.execute(select(func.max(key.column))).scalar_one()
    number = next(_numbers)
    kinds: list[tuple[type | tuple[type, ...], object]] = [
        (Boolean, True),
        ((BigInteger, Integer), number),
        (Float, number / 4),
        (DateTime, datetime(2026, 1, 2, 3, 4, number % 60, tzinfo=UTC)),
        (JSON, {"a": [number]}),
        ((LargeBinary, BYTEA), b"\x00\xff"),
        (String, f"w{number}"),
    ]
    for kind, value in kinds:
        if isinstance(column.type, kind):
            return value
    raise AssertionError(f"no value known for {column.table.name}.{column.name} of type {column.type!r}")
