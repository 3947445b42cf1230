"""What somebody needs who has only the link: each metric explained, and no table of nothing."""

from collections.abc import Sequence

import pytest

from app.db.database import Database
from app.metrics import HEADLINE_METRICS, metrics
from app.share import Snapshot, comparison, explorer, run
from tests.compare.runs import place, timed
from tests.compare.runs import run as add_run


@pytest.fixture
def two(database: Database) -> list[str]:
    """Of a machine and a model of which nothing is known but their names."""
    first, second = place(database)
    return [
        add_run(database, first, timed(500, 50)),
        add_run(database, second, timed(400, 60), hours=1),
    ]


def shared(database: Database, names: Sequence[str]) -> dict[str, Snapshot]:
    with database.read() as session:
        return {
            "run": run.snapshot(session, names[0]),
            "comparison": comparison.snapshot(session, names),
            "explorer": explorer.snapshot(session, {"x": "quantization", "y": HEADLINE_METRICS[2]}),
        }


@pytest.mark.parametrize(
    ("kind", "keys"), [("run", HEADLINE_METRICS), ("comparison", HEADLINE_METRICS), ("explorer", HEADLINE_METRICS[2:])]
)
def test_each_metric_is_explained(database: Database, two: list[str], kind: str, keys: Sequence[str]) -> None:
    remarks = shared(database, two)[kind].remarks
    for key in keys:
        assert f"{metrics()[key].title} · {metrics()[key].explanation}" in remarks


@pytest.mark.parametrize("kind", ["run", "comparison", "explorer"])
def test_what_is_unknown_everywhere_has_no_table_column_or_fact(database: Database, two: list[str], kind: str) -> None:
    snapshot = shared(database, two)[kind]
    assert "Hardware" not in {fact.title for fact in snapshot.facts}
    assert "memory" not in snapshot.title + snapshot.subtitle
    for table in snapshot.figures:
        assert table.rows
        empty = [
            column.title for at, column in enumerate(table.columns) if all(row[at] in (None, "") for row in table.rows)
        ]
        assert set(empty) <= {"95 % low", "95 % high", "Verdict"}, table.title
