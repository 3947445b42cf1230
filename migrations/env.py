"""Runs migrations on the engine that `app.db.migrate.migrate` hands over, as one transaction: all of them or none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from alembic import context
from alembic.operations.ops import MigrationScript
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, TypeDecorator
from sqlmodel import SQLModel

import app.db.tables  # noqa: F401  (fills SQLModel.metadata)

# any constant that no other program uses on the same PostgreSQL database
ADVISORY_LOCK = 0x526F6F666D61726B


def engine() -> Engine:
    given = context.config.attributes.get("engine")
    if isinstance(given, Engine):
        return given
    # the `alembic` command of a developer
    from app.core.settings import Settings
    from app.db.database import Database

    return Database(Settings().effective_database_url).engine


@contextmanager
def foreign_keys_off(connection: Connection) -> Iterator[None]:
    """SQLite ignores this pragma inside a transaction, so it goes to the driver itself, before BEGIN."""
    driver = connection.connection.cursor()
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys=ON")


@contextmanager
def one_migration_at_a_time(connection: Connection) -> Iterator[None]:
    """One transaction around all migrations, with nobody else writing."""
    if connection.dialect.name == "sqlite":
        with foreign_keys_off(connection), connection.begin():
            yield
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            if broken:
                raise RuntimeError(f"rows point at nothing after the migration: {[tuple(row) for row in broken[:5]]}")
    else:
        with connection.begin():
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")
            yield


def number(_context: MigrationContext, _revision: object, directives: list[MigrationScript]) -> None:
    """Revisions are numbered, so that their order can be read from the folder."""
    directives[0].rev_id = f"{int(context.script.get_current_head() or 0) + 1:04}"


def plain_type(kind: str, item: object, _context: object) -> str | Literal[False]:
    """A revision names SQLAlchemy's own types: what SQLModel wraps around them may change, a revision may not."""
    return f"sa.{item.impl_instance!r}" if kind == "type" and isinstance(item, TypeDecorator) else False


with engine().execution_options(roofmark_write=True).connect() as connection, one_migration_at_a_time(connection):
    context.configure(
        connection=connection,
        target_metadata=SQLModel.metadata,
        render_as_batch=True,
        process_revision_directives=number,
        render_item=plain_type,
    )
    context.run_migrations()
