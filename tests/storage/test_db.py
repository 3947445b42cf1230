"""Transactions as the rest of Roofmark uses them, and the sentence for each way a database can fail."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError, StatementError
from sqlmodel import Session, col, func, select, update

from app.core import files
from app.core.errors import BadInput, StorageError
from app.core.settings import Settings
from app.db.database import Database
from app.db.migrate import migrate
from app.db.tables import Machine, Run, Server
from tests.databases import PostgresDatabases, on_both


def machine(session: Session, slug: str) -> int:
    row = Machine(slug=slug, name=slug)
    session.add(row)
    session.flush()
    assert row.id is not None
    return row.id


def run(machine_id: int, server_id: int, status: str) -> Run:
    return Run(machine_id=machine_id, server_id=server_id, suite_key="triple", suite_sha256="0" * 64, status=status)


def server(session: Session, machine_id: int, slug: str) -> int:
    row = Server(machine_id=machine_id, slug=slug, name=slug, engine="llamacpp", base_url="http://127.0.0.1:1")
    session.add(row)
    session.flush()
    assert row.id is not None
    return row.id


@on_both
def test_times_come_back_aware_and_in_utc(database: Database) -> None:
    summer = timezone(timedelta(hours=2))
    with database.write() as session:
        session.add(Machine(slug="a", name="A", created_at=datetime(2026, 7, 1, 12, 0, 0, 123456, summer)))
    with database.read() as session:
        row = session.exec(select(Machine)).one()
    assert row.created_at == datetime(2026, 7, 1, 10, 0, 0, 123456, UTC)
    assert row.created_at.utcoffset() == timedelta(0)


@on_both
def test_a_time_without_zone_is_refused(database: Database) -> None:
    with pytest.raises(StatementError, match="timezone"), database.write() as session:
        session.add(Machine(slug="a", name="A", created_at=datetime(2026, 7, 1)))


@on_both
def test_one_running_run_per_machine(database: Database) -> None:
    with database.write() as session:
        first, second = machine(session, "first"), machine(session, "second")
        on_first, on_second = server(session, first, "a"), server(session, second, "b")
        for status in ("queued", "queued", "done", "done", "running"):
            session.add(run(first, on_first, status))
        session.add(run(second, on_second, "running"))
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(run(first, on_first, "running"))
    with database.write() as session:
        session.exec(update(Run).where(col(Run.status) == "running").values(status="done"))
        session.add(run(first, on_first, "running"))


@on_both
def test_unknown_states_and_parents_are_refused(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(Server(machine_id=99, slug="s", name="S", engine="e", base_url="u"))
    with database.write() as session:
        parent = machine(session, "m")
        child = server(session, parent, "s")
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(run(parent, child, "sleeping"))


@on_both
def test_an_error_inside_write_undoes_all_of_it(database: Database) -> None:
    def half() -> None:
        with database.write() as session:
            machine(session, "gone")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    with database.read() as session:
        assert session.exec(select(Machine)).all() == []


def test_reading_first_and_writing_later_loses_no_update(database: Database) -> None:
    """In WAL mode a transaction that read before another one wrote may not write: `write()` begins as a writer."""
    with database.write() as session:
        session.add(Machine(slug="counter", name="0"))

    def count_up() -> None:
        for _ in range(20):
            with database.write() as session:
                row = session.exec(select(Machine)).one()
                row.name = str(int(row.name) + 1)

    _in_threads([count_up] * 3)
    with database.read() as session:
        assert session.exec(select(Machine.name)).one() == "60"


def test_many_readers_beside_a_writer_and_an_import_see_no_error(database: Database) -> None:
    with database.write() as session:
        parent = machine(session, "m")
        on = server(session, parent, "s")

    def read() -> None:
        seen = 0
        for _ in range(50):
            with database.read() as session:
                now = session.exec(select(func.count()).select_from(Run)).one()
            assert now >= seen
            seen = now

    def measure() -> None:
        for _ in range(20):
            with database.write() as session:
                session.add(run(parent, on, "done"))

    def import_many() -> None:
        with database.write() as session:
            session.add_all([run(parent, on, "done") for _ in range(1000)])

    _in_threads([read, read, read, measure, import_many])
    with database.read() as session:
        assert session.exec(select(func.count()).select_from(Run)).one() == 1020


def _in_threads(jobs: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # raised below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_reader_is_not_held_up_by_a_writer(database: Database) -> None:
    with database.write() as session:
        machine(session, "half")
        with database.read() as second_session:
            assert second_session.exec(select(Machine)).all() == []


def test_a_second_writer_that_waited_in_vain_is_told_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.database.BUSY_TIMEOUT_MS", 20)
    impatient = Database(str(database.url))
    with database.write() as session:
        machine(session, "first")
        with pytest.raises(StorageError, match="locked by another process"), impatient.write() as second_session:
            machine(second_session, "second")
    with impatient.write() as session:
        machine(session, "later")
    impatient.dispose()


@pytest.mark.parametrize(("pragma", "sentence"), [("max_page_count=1", "disk is full"), ("query_only=ON", "read-only")])
def test_a_full_or_read_only_disk_is_one_sentence_and_loses_nothing(
    database: Database, pragma: str, sentence: str
) -> None:
    with database.write() as session:
        machine(session, "before")
    database.dispose()
    event.listen(database.engine, "connect", lambda connection, _: connection.execute(f"PRAGMA {pragma}"))
    with pytest.raises(StorageError, match=sentence), database.write() as session:
        session.add(Machine(slug="big", name="big", notes="x" * 1_000_000))
    with database.read() as session:
        assert session.exec(select(Machine.slug)).all() == ["before"]


@on_both
def test_a_database_that_was_never_migrated_says_what_to_do(empty_database: Database) -> None:
    with pytest.raises(StorageError, match="roofmark migrate"), empty_database.read() as session:
        session.exec(select(Machine)).all()


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    database = Database(f"sqlite:///{path}")
    with pytest.raises(StorageError, match="damaged"), database.read() as session:
        session.connection().execute(text("SELECT 1 FROM run"))
    database.dispose()


def test_a_folder_in_the_place_of_the_file_is_one_sentence(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}")
    with pytest.raises(StorageError, match="cannot be opened"):
        migrate(database, files.MIGRATIONS)
    database.dispose()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense", "cannot be read"),
        ("postgresql://host:port/x", "cannot be read"),
        ("mysql://localhost/x", "SQLite or PostgreSQL"),
        ("postgresql+asyncpg://localhost/x", "SQLite or PostgreSQL"),
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///file:x?mode=ro&uri=true", "name a file"),
    ],
)
def test_urls_that_cannot_be_used(url: str, sentence: str) -> None:
    with pytest.raises(StorageError, match=sentence):
        Database(url)


@pytest.mark.parametrize("name", ["a b", "what?", "100%20", "a#b", "user@host:1", "[x]", "Größe"])
def test_a_data_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    database = Database(Settings(data_dir=folder).effective_database_url)
    migrate(database, files.MIGRATIONS)
    backup = migrate(database, files.MIGRATIONS, "base")
    database.dispose()
    assert (folder / "roofmark.db").is_file()
    assert backup is not None
    assert Path(backup).parent == folder / "backups"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_data_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be made"):
        Database(f"sqlite:///{tmp_path}/file/roofmark.db")


@pytest.mark.postgres
def test_a_postgres_that_is_not_there_is_one_sentence(postgres_databases: PostgresDatabases) -> None:
    for url in (f"{postgres_databases.server_url}/missing", "postgres://nobody@127.0.0.1:1/x"):
        database = Database(url)
        with pytest.raises(StorageError, match="ROOFMARK_DATABASE_URL"):
            migrate(database, files.MIGRATIONS)
        database.dispose()


@on_both
@pytest.mark.parametrize("text_of_it", ["\0", "fan\0tastic"])
def test_a_character_that_no_database_stores_is_the_persons_slip(database: Database, text_of_it: str) -> None:
    """SQLite keeps it, PostgreSQL does not: neither takes it for a fault of its own."""
    with suppress(BadInput), database.write() as session:  # PostgreSQL refuses it, SQLite does not
        session.add(Machine(slug="a", name=text_of_it))
    with suppress(BadInput), database.read() as session:  # as above
        session.exec(select(Machine).where(Machine.name == text_of_it)).all()
