"""How long the answers of runs are, as counted."""

from dataclasses import replace

from sqlmodel import select

from app.core.samples import Workload
from app.db.database import Database
from app.db.tables import Run
from app.results.token_counts import answer_lengths
from tests.compare.runs import POINT, place, run, timed
from tests.databases import on_both

LONGER = Workload(2048, 64)


@on_both
def test_the_middle_of_the_usable_ones_at_each_point(database: Database) -> None:
    (config,) = place(database)[:1]
    samples = [
        replace(sample, ordinal=place, trace=replace(sample.trace, output_tokens=tokens), flags=flags)
        for place, (sample, tokens, flags) in enumerate(
            [
                (timed(500, 50)[0], 9, ()),
                (timed(500, 50)[1], 30, ()),
                (timed(500, 50)[1], 31, ("multi_token_chunks",)),
                (timed(500, 50)[1], 32, ()),
                (timed(500, 50)[1], 1, ("incomplete",)),
                (timed(500, 50)[1], None, ()),
                (timed(500, 50, LONGER)[1], 60, ()),
            ]
        )
    ]
    run(database, config, samples)
    run(database, config, [])
    with database.read() as session:
        ids = frozenset(run_id for run_id in session.exec(select(Run.id)) if run_id)
        lengths = answer_lengths(session, ids)
        assert answer_lengths(session, frozenset()) == {}
    assert {point: length for (_run, point), length in lengths.items()} == {POINT.key: 31, LONGER.key: 60}
