"""The tokens that were really counted: averaged by the database as by hand, and used by every ceiling."""

from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import select

from app.core.samples import Sample, ServerFigures, Status, Workload
from app.db import runs
from app.db.database import Database
from app.db.tables import Machine, Run
from app.metrics.token_times import TokenCounts, token_counts_of
from app.results.ceiling import CeilingRequest, config_ceilings, decode_ceilings
from app.results.ceiling.configs import newest_decodes
from app.results.compare import compare
from app.results.token_counts import Place, newest_token_counts, token_counts
from app.schemas.run_document import run_document
from tests.databases import on_both
from tests.seed import made_sample, seed
from tests.web.notebook import add_run

POINT = Workload(512, 128)


def sample(ordinal: int, prompt: int | None, cached: int | None, output: int, **fields: Any) -> Sample:
    made = made_sample(ordinal, POINT, 500.0, 90.0)
    status = fields.pop("status", Status.OK)
    trace = replace(made.trace, prompt_tokens=prompt, cached_tokens=cached, output_tokens=output, status=status)
    return replace(made, trace=trace, **fields)


SAMPLES = [
    sample(0, 9000, 0, 900, is_warmup=True),
    sample(1, 300, 0, 100),
    sample(2, 301, 10, 120),
    sample(3, 300, 300, 100, reuses_cache=True),
    sample(4, 10, 0, 1, status=Status.INCOMPLETE),
]
COUNTS = TokenCounts(300.5, 5.0, 110.0)


@pytest.fixture
def seeded(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)


@on_both
@pytest.mark.usefixtures("seeded")
def test_counts_are_means_of_what_counts(database: Database) -> None:
    assert token_counts_of(SAMPLES) == COUNTS
    public_id = add_run(database, SAMPLES)
    with database.read() as session:
        run = runs.run(session, public_id)
        assert token_counts(session, [run.id or 0]) == {(run.id, POINT): COUNTS}
        assert token_counts(session, []) == {}
        newest = newest_token_counts(session)
        assert newest[Place(run.machine_id, run.config_id or 0, POINT)] == COUNTS


@pytest.mark.usefixtures("seeded")
def test_what_nobody_counted_is_unknown(database: Database) -> None:
    samples = [sample(0, None, None, 100)]
    public_id = add_run(database, samples)
    with database.read() as session:
        run_id = runs.run(session, public_id).id or 0
        assert token_counts(session, [run_id]) == {(run_id, POINT): TokenCounts(None, None, 100.0)}
    assert token_counts_of(samples) == TokenCounts(None, None, 100.0)
    assert token_counts_of([]) == TokenCounts()


@pytest.mark.usefixtures("seeded")
def test_pages_and_lists_use_the_same_tokens(database: Database) -> None:
    """300 tokens of a prompt that the suite calls 512."""
    public_id, again = add_run(database, SAMPLES), add_run(database, SAMPLES)
    with database.read() as session:
        (point,) = run_document(session, public_id)["points"]
        run = session.exec(select(Run).where(Run.public_id == public_id)).one()
        (decode,) = [decode for decode in newest_decodes(session) if decode.public_id == again]
        listed = config_ceilings(session)[run.config_id or 0, run.suite_key]
        machine = session.get_one(Machine, run.machine_id)
        compared = compare(session, [public_id, again], {}).ceilings
        (explored,) = decode_ceilings(session, [CeilingRequest(machine, decode.config, decode.known_geometry, POINT)])
    assert point["ceiling"]["context"] == round(300.5 + 55)
    assert decode.counts == COUNTS
    assert listed.ceiling.tokens_per_s == pytest.approx(point["ceiling"]["decode_tokens_per_s"])
    assert [ceiling.decode_tokens_per_s for ceiling in compared] == [pytest.approx(listed.ceiling.tokens_per_s)] * 2
    assert explored == pytest.approx(point["ceiling"]["decode_tokens_per_s"])


@pytest.mark.usefixtures("seeded")
def test_pages_and_lists_use_the_same_drafts(database: Database) -> None:
    """2 of 4 drafted tokens are accepted in each of 50 passes over the weights."""
    plain = sample(0, 300, 0, 151)
    server = ServerFigures(draft_tokens=200, draft_accepted_tokens=100)
    public_id = add_run(database, [replace(plain, trace=replace(plain.trace, server=server))])
    with database.read() as session:
        (point,) = run_document(session, public_id)["points"]
        (decode,) = [decode for decode in newest_decodes(session) if decode.public_id == public_id]
        run = session.exec(select(Run).where(Run.public_id == public_id)).one()
        listed = config_ceilings(session)[run.config_id or 0, run.suite_key]
        machine = session.get_one(Machine, run.machine_id)
        (explored,) = decode_ceilings(session, [CeilingRequest(machine, decode.config, decode.known_geometry, POINT)])
    assert decode.drafts is not None
    assert decode.drafts.accepted_per_pass == 2
    assert listed.ceiling.tokens_per_s == pytest.approx(point["ceiling"]["decode_tokens_per_s"])
    assert explored == pytest.approx(point["ceiling"]["decode_tokens_per_s"])
