"""Flags of samples get the field's names."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

NEW_KEYS = {
    "short": "early_stop",
    "over": "exceeded_max_tokens",
    "bundled": "multi_token_chunks",
    "loop_lag": "client_scheduling_delay",
    "cold": "model_load",
    "possibly_cached": "cache_state_unknown",
}
SAMPLE = sa.table("sample", sa.column("flags", sa.JSON()))
MEASUREMENT = sa.table("measurement", sa.column("left_out", sa.JSON()), sa.column("null_reason", sa.String()))


def upgrade() -> None:
    _rename(NEW_KEYS)


def downgrade() -> None:
    _rename({new: old for old, new in NEW_KEYS.items()})


def _rename(keys: Mapping[str, str]) -> None:
    """In the list of a sample's flags, and in what a measurement left out for which reason."""
    _replace(SAMPLE, SAMPLE.c.flags, keys)
    _replace(MEASUREMENT, MEASUREMENT.c.left_out, keys)
    for old, new in keys.items():
        op.execute(sa.update(MEASUREMENT).where(MEASUREMENT.c.null_reason == old).values(null_reason=new))


def _replace(table: sa.TableClause, column: sa.ColumnClause[Any], keys: Mapping[str, str]) -> None:
    """Each key is a whole JSON string of the column, so with its quotes it is no part of another one."""
    document: sa.ColumnElement[Any] = sa.cast(column, sa.Text())
    has_any = sa.or_(*(sa.cast(column, sa.Text()).contains(f'"{old}"', autoescape=True) for old in keys))
    for old, new in keys.items():
        document = sa.func.replace(document, f'"{old}"', f'"{new}"', type_=sa.Text())
    is_sqlite = op.get_bind().dialect.name == "sqlite"  # where JSON is text, and a cast to it would make numbers
    value = sa.type_coerce(document, sa.Text()) if is_sqlite else sa.cast(document, sa.JSON())
    op.execute(sa.update(table).where(has_any).values({column.name: value}))
