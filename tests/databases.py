"""Databases for tests: `on_both` runs a test on SQLite and PostgreSQL.

The PostgreSQL server is the tests' own: in a temporary folder, on a free port of 127.0.0.1, gone when they end.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from app.core import files
from app.db.database import Database
from app.db.migrate import migrate
from tests.needs import need
from tests.ports import free_port

on_both = pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


class PostgresDatabases:
    """Makes databases on one running server."""

    def __init__(self, server_url: str) -> None:
        self.server_url = server_url
        self._admin = create_engine(f"{server_url}/postgres", isolation_level="AUTOCOMMIT")
        self._count = 0

    @classmethod
    @contextmanager
    def started(cls) -> Iterator["PostgresDatabases"]:
        with postgres_server() as url:
            databases = cls(url)
            try:
                yield databases
            finally:
                databases._admin.dispose()

    @contextmanager
    def fresh(self, *, is_migrated: bool = False) -> Iterator[str]:
        """The URL of a new database: without tables, or as a copy of one that was migrated once."""
        self._count += 1
        name = f"test_{self._count}"
        template = self._migrated if is_migrated else "template1"
        with self._admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
            yield f"{self.server_url}/{name}"
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")

    @cached_property
    def _migrated(self) -> str:
        """The name of a migrated database without rows."""
        with self._admin.connect() as connection:
            connection.exec_driver_sql("CREATE DATABASE migrated")
        database = Database(f"{self.server_url}/migrated")
        migrate(database, files.MIGRATIONS)
        database.dispose()
        return "migrated"


@contextmanager
def postgres_server() -> Iterator[str]:
    """Gives the server's URL without a database name. Durability is off: the data dies with the tests."""
    binaries = _binaries()
    need(binaries, "PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    assert binaries is not None
    # not under pytest's own folder: that is closed to the other user who runs the server
    with tempfile.TemporaryDirectory(prefix="roofmark-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        run = _as_other_user_when_root(folder)
        data = folder / "data"
        port = free_port()
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        run([binaries / "initdb", "-D", data, "-U", "roofmark", "-A", "trust", "-E", "UTF8", "--no-sync"])
        run([binaries / "pg_ctl", "-D", data, "-w", "-t", "60", "-l", folder / "log", "-o", options, "start"])
        try:
            yield f"postgresql+psycopg://roofmark@127.0.0.1:{port}"
        finally:
            run([binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"])


def _binaries() -> Path | None:
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    initdb = shutil.which("initdb")
    return Path(initdb).parent if initdb else None


def _as_other_user_when_root(folder: Path) -> Callable[[list[object]], None]:
    """PostgreSQL refuses to run as root: the user that its package made runs it instead."""
    prefix: list[str] = []
    if os.name == "posix" and os.getuid() == 0:
        need(shutil.which("runuser"), "runuser is missing, and PostgreSQL refuses to run as root")
        shutil.chown(folder, "postgres")
        prefix = ["runuser", "-u", "postgres", "--"]

    def run(command: list[object]) -> None:
        subprocess.run(
            [*prefix, *map(str, command)], check=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    return run
