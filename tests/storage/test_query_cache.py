"""Answers that are kept until something is written."""

from sqlmodel import Session, col, func, select

from app.core import i18n
from app.db import machines
from app.db.database import Database, cached_query
from app.db.tables import Machine
from tests.databases import on_both

pytestmark = on_both

asked: list[str] = []


@cached_query(maxsize=2)
def count(session: Session, prefix: str = "") -> int:
    asked.append(prefix)
    return session.exec(select(func.count()).select_from(Machine).where(col(Machine.name).startswith(prefix))).one()


def count_queries(database: Database, prefix: str = "") -> tuple[int, int]:
    """The answer, and how often the database was asked for it."""
    asked.clear()
    with database.read() as session:
        return count(session, prefix), len(asked)


def test_an_answer_is_read_once_until_anything_is_written(database: Database) -> None:
    assert count_queries(database) == (0, 1)
    assert count_queries(database) == (0, 0)
    with database.write() as session:
        machines.add_machine(session, "one")
    assert count_queries(database) == (1, 1)
    assert count_queries(database) == (1, 0)


def test_what_another_process_writes_counts_too(database: Database) -> None:
    assert count_queries(database) == (0, 1)
    second_database = Database(database.url.render_as_string(hide_password=False))
    with second_database.write() as session:
        machines.add_machine(session, "one")
    second_database.dispose()
    assert count_queries(database) == (1, 1)


def test_who_writes_sees_what_is_not_committed_and_nobody_else_does(database: Database) -> None:
    assert count_queries(database) == (0, 1)
    with database.write() as session:
        machines.add_machine(session, "one")
        assert count(session) == 1
        assert count_queries(database)[0] == 0
    assert count_queries(database)[0] == 1


def test_what_is_rolled_back_was_never_there(database: Database) -> None:
    try:
        with database.write() as session:
            machines.add_machine(session, "one")
            assert count(session) == 1
            raise RuntimeError
    except RuntimeError:  # what rolls back
        pass
    assert count_queries(database)[0] == 0


def test_what_is_read_while_somebody_writes_does_not_pass_for_what_they_wrote(database: Database) -> None:
    with database.read() as early:
        assert count(early, "o") == 0
        with database.write() as session:
            machines.add_machine(session, "one")
        count(early, "on")
    assert count_queries(database, "on")[0] == 1
    assert count_queries(database, "o")[0] == 1


def test_only_the_answers_asked_for_last_are_kept(database: Database) -> None:
    for prefix in ("a", "b", "a", "c"):
        count_queries(database, prefix)
    assert [count_queries(database, prefix)[1] for prefix in ("a", "c", "b")] == [0, 0, 1]


def test_each_language_has_its_own(database: Database) -> None:
    assert count_queries(database)[1] == 1
    with i18n.use("zh-Hant"):
        assert count_queries(database)[1] == 1
    assert count_queries(database)[1] == 0


def test_what_is_kept_can_be_looked_at_without_asking(database: Database) -> None:
    with database.read() as session:
        assert count.peek(session, "a") is None
        assert count(session, "a") == 0
        assert count.peek(session, "a") == 0
        assert count.peek(session, "b") is None
    with database.write() as session:
        assert count.peek(session, "a") is None
