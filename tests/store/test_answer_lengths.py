"""How long the answers of runs are, as counted."""

from dataclasses import replace

from sqlmodel import select

from app.db import Database
from app.models import Run
from app.samples import Point
from app.store.token_counts import answer_lengths
from tests.compare.runs import POINT, place, run, taken
from tests.databases import on_both

LONGER = Point(2048, 64)


@on_both
def test_the_middle_of_the_usable_ones_at_each_point(database: Database) -> None:
    (config,) = place(database)[:1]
    samples = [
        replace(sample, ordinal=place, trace=replace(sample.trace, output_tokens=tokens), flags=flags)
        for place, (sample, tokens, flags) in enumerate(
            [
                (taken(500, 50)[0], 9, ()),
                (taken(500, 50)[1], 30, ()),
                (taken(500, 50)[1], 31, ("bundled",)),
                (taken(500, 50)[1], 32, ()),
                (taken(500, 50)[1], 1, ("incomplete",)),
                (taken(500, 50)[1], None, ()),
                (taken(500, 50, LONGER)[1], 60, ()),
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
