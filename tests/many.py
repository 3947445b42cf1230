"""A notebook of years: tens of thousands of runs within seconds, as copies of a seeded one.

Every run has all of its metrics and samples with real events; each copy is a little faster or slower than its original.
"""

import hashlib
import random
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Float, Integer, MetaData, Table, insert, select
from sqlalchemy.schema import CreateTable
from sqlmodel import Session, SQLModel

from app.db import baselines
from app.db.tables import Config, Measurement, Run, SampleRow
from tests.seed import DAYS, START, seed

ORIGINALS = 66
REPETITIONS = 9
"""With the warm-up ten samples for each run of one point."""
VERSIONS = 8
"""So many versions of its engine each configuration is measured with, one after the other."""
STEP = timedelta(minutes=7)
"""Between two copies."""
NEIGHBOURS = 12
"""Runs of so many originals come in turn, so that configurations take turns."""

SCALED = ("value", "low", "high", "minimum", "maximum", "standard_deviation")


def add_many(session: Session, runs: int) -> list[str]:
    """Adds `runs` runs, one in fifty failed and one in a hundred hidden; gives their public ids, oldest first.

    A baseline is pinned for the model of the first one.
    """
    ids = seed(session, runs=min(runs, ORIGINALS), detailed=ORIGINALS, repetitions=REPETITIONS)
    baselines.pin(session, ids[0])
    _move_back(session, STEP * max(0, runs - ORIGINALS))
    session.flush()
    connection, run = session.connection(), SQLModel.metadata.tables["run"]
    originals = [dict(row._mapping) for row in connection.execute(select(run).order_by(run.c.id))]
    copies = Table(
        "copies", MetaData(), Column("id", Integer, primary_key=True), Column("of", Integer), Column("factor", Float),
        prefixes=["TEMPORARY"],
    )  # fmt: skip
    connection.execute(CreateTable(copies))
    made, measured = _copies(originals, _versions(session), runs - len(originals))
    if made:
        connection.execute(insert(Run), made)
    if measured:
        connection.execute(insert(copies), measured)
    _copy(connection, copies, Measurement, SCALED)
    _copy(connection, copies, SampleRow, ())
    copies.drop(connection)
    return ids + [run["public_id"] for run in made]


def _move_back(session: Session, span: timedelta) -> None:
    """What was seeded, so that its copies end when it ended."""
    for run in session.execute(select(Run)).scalars():
        for name in ("queued_at", "started_at", "finished_at"):
            setattr(run, name, getattr(run, name) - span)


def _versions(session: Session) -> dict[int, list[int]]:
    """Adds configurations that differ in their engine's version alone: ids by the id of the original."""
    runs_by_config: dict[int, list[int]] = {}
    for config in session.execute(select(Config)).scalars().all():
        same = [config]
        for number in range(1, VERSIONS):
            values = config.model_dump(exclude={"id", "engine_version", "fingerprint"})
            fingerprint = hashlib.sha256(f"{config.fingerprint}{number}".encode()).hexdigest()
            same.append(Config(**values, engine_version=f"b{6400 + 50 * number}", fingerprint=fingerprint))
        session.add_all(same[1:])
        session.flush()
        runs_by_config[config.id or 0] = [run.id or 0 for run in same]
    return runs_by_config


def _copies(
    originals: list[dict[str, Any]], versions: dict[int, list[int]], count: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of runs, and which run each of those with figures is a copy of."""
    chance = random.Random(count)
    made, measured = [], []
    first_id = 1 + max(run["id"] for run in originals)
    for number in range(count):
        place = (number * len(originals) // count + number * 7 % NEIGHBOURS) % len(originals)
        original = originals[place]
        started: datetime = START + timedelta(days=DAYS) - STEP * (count - number)
        has_failed = number % 50 == 49
        made.append(
            {
                **original,
                "id": first_id + number,
                "public_id": f"many{number:06d}",
                "config_id": versions[original["config_id"]][number * VERSIONS // count],
                "queued_at": started,
                "started_at": started,
                "finished_at": started + timedelta(seconds=21),
                "status": "failed" if has_failed else "done",
                "error": "The server closed the connection without an answer." if has_failed else None,
                "hidden_at": started if number % 100 == 50 else None,
                "labels": ["night"] if number % 20 == 5 else [],
                "note": "quiet room" if number % 40 == 3 else "",
            }
        )
        if not has_failed:
            measured.append({"id": first_id + number, "of": original["id"], "factor": chance.gauss(1, 0.01)})
    return made, measured


def _copy(connection: Connection, copies: Table, model: type[SQLModel], scaled: tuple[str, ...]) -> None:
    table: Table = SQLModel.metadata.tables[str(model.__tablename__)]
    columns = [column for column in table.c if column.name != "id"]

    def copied(column: Any) -> Any:
        if column.name == "run_id":
            return copies.c.id
        return (column * copies.c.factor).label(column.name) if column.name in scaled else column

    rows = select(*map(copied, columns)).join(copies, copies.c.of == table.c.run_id).order_by(copies.c.id, table.c.id)
    connection.execute(insert(table).from_select([column.name for column in columns], rows))
