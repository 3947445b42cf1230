"""Fixtures that every part uses. A test that is to run on both databases is marked with `tests.databases.on_both`."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from sqlalchemy import URL, Engine, create_engine

from app.core import files
from app.core.settings import Settings
from app.db.database import _JSON, Database
from app.db.migrate import migrate
from app.demo import DemoEngine
from tests.databases import PostgresDatabases
from tests.engine_fixture import real_engine

# a machine that is busy is no fault of the code, and what failed once must fail again
hypothesis.settings.register_profile("roofmark", deadline=None, derandomize=True)
hypothesis.settings.load_profile("roofmark")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ROOFMARK_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _statements_are_compiled_once() -> Iterator[None]:
    """Every test has a database of its own; an engine each would compile all statements of a page for each test."""
    shared = create_engine("sqlite://", query_cache_size=5000, **_JSON)
    shared.connect().close()  # asks SQLite for its version

    def create_engine_of_one_dialect(url: URL, **options: Any) -> Engine:
        engine = create_engine(url, **options)
        if url.get_backend_name() == "sqlite":
            engine.dialect = engine.pool._dialect = shared.dialect
            engine._compiled_cache = shared._compiled_cache
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.db.database.create_engine", create_engine_of_one_dialect)
        yield
    shared.dispose()


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database: SQLite, unless the test was parametrised with `on_both`. On PostgreSQL it has its
    tables already where the test uses `database`."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield f"sqlite:///{tmp_path / 'data' / 'roofmark.db'}"
    else:
        is_migrated = "database" in request.fixturenames
        with request.getfixturevalue("postgres_databases").fresh(is_migrated=is_migrated) as url:
            yield url


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(data_dir=tmp_path / "data", database_url=database_url, sensors=False)


@pytest.fixture
def empty_database(settings: Settings) -> Iterator[Database]:
    """A database without tables."""
    database = Database(settings.effective_database_url)
    yield database
    database.dispose()


@pytest.fixture
def database(empty_database: Database, request: pytest.FixtureRequest) -> Database:
    """A migrated database without rows, the one that `settings` names."""
    if empty_database.is_sqlite:
        shutil.copy(request.getfixturevalue("migrated_file"), str(empty_database.url.database))
    else:
        migrate(empty_database, files.MIGRATIONS)
    return empty_database


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, copied rather than made for each test."""
    path = tmp_path_factory.mktemp("migrated") / "roofmark.db"
    database = Database(f"sqlite:///{path}")
    migrate(database, files.MIGRATIONS)
    database.dispose()
    return path


@pytest.fixture(scope="session")
def postgres_databases() -> Iterator[PostgresDatabases]:
    with PostgresDatabases.started() as databases:
        yield databases


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoEngine]:
    """A running llama.cpp with a real model; tests that use it carry the marker `engine`."""
    with real_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine
