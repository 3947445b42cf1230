"""Every revision, up and down, with rows in it; failures, races and backups."""

import json
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Text, cast, event, func, inspect, select
from sqlmodel import SQLModel

import app.db.tables  # noqa: F401  (fills SQLModel.metadata)
from app.core import files, i18n
from app.core.errors import BadInput, StorageError
from app.db.database import Database
from app.db.migrate import KEEP_BACKUPS, alembic_config, current_revision, migrate, revisions
from app.db.tables import Model, Run, SampleRow
from tests.databases import on_both
from tests.storage import rows


@contextmanager
def writing(database: Database) -> Iterator[Connection]:
    with database.engine.execution_options(roofmark_write=True).begin() as connection:
        yield connection


def counts(database: Database) -> dict[str, int]:
    with database.engine.connect() as connection:
        return rows.counts(connection)


def is_current(database: Database, scripts: Path) -> bool:
    return current_revision(database) == revisions(scripts)[-1]


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A copy of the migrations that a test may add to."""
    return Path(shutil.copytree(files.MIGRATIONS, tmp_path / "migrations"))


def add_revision(scripts: Path, upgrade: str) -> str:
    """A next revision whose upgrade is `upgrade`; its number."""
    last = revisions(scripts)[-1]
    new = f"{int(last) + 1:04}"
    body = textwrap.indent(textwrap.dedent(upgrade).strip(), "    ")
    (scripts / "versions" / f"{new}_next.py").write_text(
        f"import sqlalchemy as sa\nfrom alembic import op\n\nrevision = {new!r}\ndown_revision = {last!r}\n\n\n"
        f"def upgrade():\n{body}\n\n\ndef downgrade():\n    pass\n"
    )
    return new


@on_both
def test_an_empty_database_becomes_current_without_a_backup(empty_database: Database) -> None:
    assert current_revision(empty_database) is None
    assert migrate(empty_database, files.MIGRATIONS) is None
    assert is_current(empty_database, files.MIGRATIONS)
    assert set(counts(empty_database)) == set(SQLModel.metadata.tables)
    assert migrate(empty_database, files.MIGRATIONS) is None


@on_both
def test_every_revision_carries_its_rows_up_and_goes_down_again(empty_database: Database) -> None:
    numbers = revisions(files.MIGRATIONS)
    before: dict[str, int] = {}
    for revision in numbers:
        migrate(empty_database, files.MIGRATIONS, revision)
        assert current_revision(empty_database) == revision
        after = counts(empty_database)
        assert {name: after[name] for name in before if name in after} == {
            name: count for name, count in before.items() if name in after
        }
        with writing(empty_database) as connection:
            rows.fill(connection)
        before = counts(empty_database)
        assert min(before.values()) >= 1
    for revision in [*reversed(numbers[:-1]), "base"]:
        migrate(empty_database, files.MIGRATIONS, revision)
        after = counts(empty_database)
        assert all(after[name] == before[name] for name in before if name in after)
    assert current_revision(empty_database) is None
    assert counts(empty_database) == {}
    migrate(empty_database, files.MIGRATIONS)
    assert is_current(empty_database, files.MIGRATIONS)


@on_both
def test_samples_keep_all_but_their_own_copy_of_the_triple(empty_database: Database) -> None:
    migrate(empty_database, files.MIGRATIONS, "0007")
    with writing(empty_database) as connection:
        rows.fill(connection)
        rows.fill(connection)
        before = connection.exec_driver_sql("SELECT * FROM sample ORDER BY id").mappings().all()
    migrate(empty_database, files.MIGRATIONS)
    with empty_database.engine.connect() as connection:
        after = connection.exec_driver_sql("SELECT * FROM sample ORDER BY id").mappings().all()
        digests = connection.exec_driver_sql("SELECT metrics_digest FROM run").scalars().all()
    triple = {"ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s"}
    assert [dict(row) for row in after] == [{k: v for k, v in row.items() if k not in triple} for row in before]
    assert digests == [None, None], "every run is derived anew"


LOST = "The connection was lost after 2,000 token events."
BUSY = "The server is busy (HTTP 429): Loading. Try again."
OWN = "Nobody knows what this says: it was only a try."
EVIDENCE = {
    "warnings": ["The server's log /var/log/x.log cannot be read: Permission denied.", OWN],
    "left_out": [{"point": "512/128/1/0", "reason": "A prompt of 600 tokens and 128 output tokens do not fit into the "
                  "server's context of 512 tokens."}],
    "server": [{"name": "queue_ms", "how": "stated with 5 of 5 answers"}],
    "models": ["It was only a try."],
}  # fmt: skip
GEOMETRY = {"full": {"assumptions": ["4.85 bits per weight, taken for granted"], "source": "typed"}}


@on_both
def test_stored_sentences_become_messages_and_sentences_again(empty_database: Database) -> None:
    migrate(empty_database, files.MIGRATIONS, "0008")
    with writing(empty_database) as connection:
        rows.fill(connection)
        rows.fill(connection)
        table = {table.name: table for table in rows.tables(connection)}
        first = {
            name: connection.execute(select(func.min(table[name].c.id))).scalar_one()
            for name in ("run", "sample", "model")
        }
        second = connection.execute(select(func.max(table["run"].c.id))).scalar_one()
        values: dict[str, dict[str, Any]] = {
            "run": {"error": LOST, "hidden_reason": "It was only a try.", "evidence": EVIDENCE, "note": LOST},
            "sample": {"error": BUSY},
            "model": {"name": "It was only a try.", "geometry": GEOMETRY},
        }
        for name, columns in values.items():
            connection.execute(table[name].update().where(table[name].c.id == first[name]).values(columns))
        connection.execute(
            table["run"].update().where(table["run"].c.id == second).values(error=OWN, hidden_reason=LOST)
        )
    migrate(empty_database, files.MIGRATIONS)
    with i18n.use("zh-Hant"), empty_database.read() as session:
        run, own_words_run = session.get_one(Run, first["run"]), session.get_one(Run, second)
        assert run.error == "連線中斷（在 2,000 個 token 事件之後）。"
        assert run.hidden_reason == "只是試試看。"
        assert run.evidence["warnings"] == ["伺服器的記錄檔 /var/log/x.log 無法讀取：權限不足。", OWN]
        assert run.evidence["server"][0]["how"] == "5 個回應中有 5 個附上"
        assert run.evidence["models"] == ["It was only a try."], "a name is none of Roofmark's sentences"
        assert (run.note, own_words_run.error, own_words_run.hidden_reason) == (LOST, OWN, LOST), "a person's own words"
        assert session.get_one(SampleRow, first["sample"]).error == "伺服器忙碌中（HTTP 429）：Loading. Try again。"
        model = session.get_one(Model, first["model"])
        assert (model.name, model.geometry["full"]["assumptions"]) == (
            "It was only a try.",
            ["每個權重 4.85 位元，依假設"],
        )
    migrate(empty_database, files.MIGRATIONS, "0008")
    with empty_database.engine.connect() as connection:
        for name, columns in values.items():
            row = connection.execute(select(table[name]).where(table[name].c.id == first[name])).mappings().one()
            assert {column: row[column] for column in columns} == columns


@on_both
def test_flags_get_their_new_keys_and_the_old_ones_back(empty_database: Database) -> None:
    flags, left_out = '["short", "drift", "loop_lag"]', '{"possibly_cached": 2, "drift": 1}'
    migrate(empty_database, files.MIGRATIONS, "0008")
    with writing(empty_database) as connection:
        rows.fill(connection)
        rows.fill(connection)
        connection.exec_driver_sql(f"UPDATE sample SET flags = '{flags}' WHERE id = (SELECT min(id) FROM sample)")
        connection.exec_driver_sql(f"UPDATE measurement SET left_out = '{left_out}', null_reason = 'possibly_cached'")
    migrate(empty_database, files.MIGRATIONS, "0010")
    renamed = ["early_stop", "drift", "client_scheduling_delay"]
    assert _flags(empty_database) == (renamed, {"cache_state_unknown": 2, "drift": 1}, "cache_state_unknown")
    migrate(empty_database, files.MIGRATIONS, "0008")
    assert _flags(empty_database) == (json.loads(flags), json.loads(left_out), "possibly_cached")


@on_both
def test_machines_with_one_name_get_names_of_their_own(empty_database: Database) -> None:
    migrate(empty_database, files.MIGRATIONS, "0012")
    with writing(empty_database) as connection:
        for _ in range(3):
            rows.fill(connection)
        connection.exec_driver_sql("UPDATE machine SET name = 'box'")
        slugs = connection.exec_driver_sql("SELECT slug FROM machine ORDER BY id").scalars().all()
    migrate(empty_database, files.MIGRATIONS, "0013")
    with empty_database.engine.connect() as connection:
        names = connection.exec_driver_sql("SELECT name FROM machine ORDER BY id").scalars().all()
    assert names == ["box", *(f"box ({slug})" for slug in slugs[1:])]


def _flags(database: Database) -> tuple[object, object, object]:
    """Of the first sample and of a measurement: what is stored as JSON, and the null reason."""
    with database.engine.connect() as connection:
        by_name = {table.name: table for table in rows.tables(connection)}
        sample, measurement = by_name["sample"], by_name["measurement"]
        flags = connection.execute(select(sample.c.flags).order_by(sample.c.id)).scalars().first()
        row = connection.execute(select(measurement.c.left_out, measurement.c.null_reason)).first()
    assert row is not None
    return flags, row.left_out, row.null_reason


@on_both
def test_renamed_messages_are_translated_and_get_their_old_ids_back(empty_database: Database) -> None:
    params = {"title": "Context", "told": "2,048", "said": {"id": "not stated", "params": {}}}
    old = {"id": "{title} is {told} as the server says, not {said} as it was stated.", "params": params}
    evidence = {"warnings": [{"id": "{clauses}; {clause}", "params": {"clauses": "x", "clause": old}}, OWN]}
    error = json.dumps({"id": "The measurement was broken off.", "params": {}})
    migrate(empty_database, files.MIGRATIONS, "0010")
    with writing(empty_database) as connection:
        rows.fill(connection)
        run = next(table for table in rows.tables(connection) if table.name == "run")
        connection.execute(run.update().values(evidence=evidence, error=error))
        run_id = connection.execute(select(func.min(run.c.id))).scalar_one()
    migrate(empty_database, files.MIGRATIONS)
    with empty_database.read() as session:
        stored_run = session.get(Run, run_id)
        assert stored_run is not None
        sentence = "x; Context: the server reports 2,048, not the stated not stated."
        assert stored_run.evidence["warnings"] == [sentence, OWN]
        assert stored_run.error == "The measurement was interrupted."
    migrate(empty_database, files.MIGRATIONS, "0010")
    with empty_database.engine.connect() as connection:
        row = connection.execute(select(cast(run.c.evidence, Text()), cast(run.c.error, Text()))).one()
        assert [json.loads(text) for text in row] == [evidence, json.loads(error)]


@on_both
def test_the_migrated_tables_are_those_of_the_models(database: Database) -> None:
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SQLModel.metadata) == []
        migrated = _shape(connection)
    migrate(database, files.MIGRATIONS, "base")
    SQLModel.metadata.create_all(database.engine)
    with database.engine.connect() as connection:
        assert _shape(connection) == migrated


def _shape(connection: Connection) -> dict[str, dict[str, list[str]]]:
    """What autogenerate does not compare too: checks, names, cascades and the conditions of partial indexes."""
    look = inspect(connection)
    parts = {
        "columns": look.get_columns,
        "primary key": look.get_pk_constraint,
        "checks": look.get_check_constraints,
        "foreign keys": look.get_foreign_keys,
        "unique": look.get_unique_constraints,
        "indexes": look.get_indexes,
    }
    return {
        table: {name: _texts(get(table)) for name, get in parts.items()}
        for table in look.get_table_names()
        if table != "alembic_version"
    }


def _texts(value: object) -> list[str]:
    """Types and SQL texts compare by what they say; the order of a table's parts means nothing."""
    if isinstance(value, dict):
        return [f"{key}={_texts(item)}" for key, item in sorted(value.items())]
    return sorted(f"{_texts(part)}" for part in value) if isinstance(value, list) else [str(value)]


def test_revisions_are_numbered_in_the_order_alembic_follows(empty_database: Database) -> None:
    script = ScriptDirectory.from_config(alembic_config(empty_database, files.MIGRATIONS))
    assert [migration.revision for migration in script.walk_revisions()][::-1] == revisions(files.MIGRATIONS)
    assert script.get_heads() == [revisions(files.MIGRATIONS)[-1]]


def test_an_upgrade_first_copies_the_database_and_the_copy_holds_the_rows(database: Database, scripts: Path) -> None:
    with writing(database) as connection:
        rows.fill(connection)
    before = counts(database)
    new = add_revision(scripts, "op.execute('DELETE FROM measurement')")
    backup = migrate(database, scripts)
    assert backup is not None
    assert current_revision(database) == new
    copy = Database(f"sqlite:///{backup}")
    assert counts(copy) == before
    assert current_revision(copy) == revisions(files.MIGRATIONS)[-1]
    copy.dispose()


def test_only_the_newest_backups_are_kept(database: Database) -> None:
    head = revisions(files.MIGRATIONS)[-1]
    made = []
    for _ in range(KEEP_BACKUPS + 2):
        made.append(Path(migrate(database, files.MIGRATIONS, "base") or ""))
        migrate(database, files.MIGRATIONS, head)
    assert sorted(made[0].parent.iterdir()) == made[-KEEP_BACKUPS:]


@on_both
def test_a_failing_migration_leaves_everything_as_it_was(database: Database, scripts: Path) -> None:
    with writing(database) as connection:
        rows.fill(connection)
    before = counts(database)
    head = current_revision(database)
    add_revision(scripts, "op.create_table('half', sa.Column('id', sa.Integer))")
    add_revision(
        scripts,
        """
        op.execute("DELETE FROM measurement")
        op.add_column("run", sa.Column("half", sa.Integer))
        raise RuntimeError("a bug in this migration")
        """,
    )
    with pytest.raises(StorageError, match="as it was before") as caught:
        migrate(database, scripts)
    assert "bug in this migration" in str(caught.value.__cause__)
    assert counts(database) == before
    assert current_revision(database) == head
    with database.engine.connect() as connection:
        assert "half" not in {column["name"] for column in inspect(connection).get_columns("run")}
        if database.is_sqlite:
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
    if database.is_sqlite:
        (backup,) = (Path(str(database.url.database)).parent / "backups").iterdir()
        assert str(backup) in str(caught.value)
        copy = Database(f"sqlite:///{backup}")
        assert counts(copy) == before
        copy.dispose()


def test_rebuilding_a_parent_table_keeps_its_children(database: Database, scripts: Path) -> None:
    with writing(database) as connection:
        rows.fill(connection)
    before = counts(database)
    add_revision(
        scripts,
        """
        with op.batch_alter_table("run", recreate="always") as batch:
            batch.add_column(sa.Column("mood", sa.String(10), nullable=False, server_default="calm"))
        """,
    )
    migrate(database, scripts)
    assert counts(database) == before


def test_a_migration_that_leaves_orphans_is_refused(database: Database, scripts: Path) -> None:
    with writing(database) as connection:
        rows.fill(connection)
    before = counts(database)
    add_revision(scripts, 'op.execute("DELETE FROM run")')
    with pytest.raises(StorageError, match="as it was before"):
        migrate(database, scripts)
    assert counts(database) == before


def test_a_disk_that_fills_up_during_a_migration_is_named(database: Database, scripts: Path) -> None:
    database.dispose()
    # SQLite's own limit says the same as a full disk
    event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count=100"))
    add_revision(
        scripts,
        """
        op.execute("CREATE TABLE big (x BLOB)")
        op.execute("INSERT INTO big VALUES (zeroblob(10000000))")
        """,
    )
    with pytest.raises(StorageError, match="disk is full") as caught:
        migrate(database, scripts)
    assert "as it was before" in str(caught.value)
    assert "big" not in counts(database)
    assert is_current(database, files.MIGRATIONS)


@on_both
def test_a_database_of_a_newer_version_is_left_alone(database: Database) -> None:
    with writing(database) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StorageError, match="newer Roofmark"):
        migrate(database, files.MIGRATIONS)
    assert not is_current(database, files.MIGRATIONS)
    assert current_revision(database) == "9999"


def test_an_unknown_revision_is_named(database: Database) -> None:
    with pytest.raises(BadInput, match="no revision nonsense"):
        migrate(database, files.MIGRATIONS, "nonsense")


@on_both
def test_processes_that_migrate_at_once_wait_for_each_other(empty_database: Database, scripts: Path) -> None:
    _migrate_in_processes(empty_database, scripts)
    assert is_current(empty_database, scripts)
    with writing(empty_database) as connection:
        rows.fill(connection)
    before = counts(empty_database)
    add_revision(scripts, "op.create_table('later', sa.Column('id', sa.Integer, primary_key=True))")
    _migrate_in_processes(empty_database, scripts)
    assert is_current(empty_database, scripts)
    assert counts(empty_database) == {**before, "later": 0}
    if empty_database.is_sqlite:
        assert len(list((Path(str(empty_database.url.database)).parent / "backups").iterdir())) == 1


def _migrate_in_processes(database: Database, scripts: Path, count: int = 3) -> None:
    code = (
        "import sys; from pathlib import Path; from app.db.database import Database; "
        "from app.db.migrate import migrate; "
        "database = Database(sys.argv[1]); sys.stdin.read(); migrate(database, Path(sys.argv[2]))"
    )
    arguments = [sys.executable, "-c", code, database.url.render_as_string(hide_password=False), str(scripts)]
    started = [
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=files.MIGRATIONS.parent)
        for _ in range(count)
    ]
    for process in started:  # imports are done by now or soon: all go at about the same moment
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()


def test_a_lock_that_never_comes_free_is_one_sentence(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filelock import FileLock

    monkeypatch.setattr("app.db.migrate.MIGRATION_TIMEOUT_S", 0.05)
    with FileLock(f"{empty_database.url.database}.migrating"), pytest.raises(StorageError, match="still migrating"):
        migrate(empty_database, files.MIGRATIONS)


def test_a_current_database_needs_no_lock(database: Database) -> None:
    """It could not be taken on a full or read-only disk, and there is nothing to do."""
    from filelock import FileLock

    with FileLock(f"{database.url.database}.migrating"):
        assert migrate(database, files.MIGRATIONS) is None


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is not a database, " * 100)
    database = Database(f"sqlite:///{path}")
    with pytest.raises(StorageError, match="not a SQLite file"):
        migrate(database, files.MIGRATIONS)
    assert path.read_text().startswith("this is not")
    database.dispose()


def test_a_backup_is_a_plain_database_file(database: Database, scripts: Path) -> None:
    """It must be usable by putting it in the place of the damaged file, with no other file beside it."""
    add_revision(scripts, "op.execute('SELECT 1')")
    backup = migrate(database, scripts)
    assert backup is not None
    with sqlite3.connect(backup) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    plain.close()
