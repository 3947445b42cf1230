"""What servers tell of drafted tokens, counted over the samples of a point."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.samples import Sample, ServerFigures, Status, Workload
from app.db import runs
from app.db.database import Database
from app.results.ceiling.configs import newest_decodes
from app.results.token_counts import Drafts, drafts_of
from app.schemas.run_document import run_document
from tests.databases import on_both
from tests.seed import made_sample, seed
from tests.web.notebook import add_run

POINT = Workload(512, 128)


def sample(ordinal: int, drafted: int | None, accepted: int | None, is_warmup: bool = False, **trace: Any) -> Sample:
    made = made_sample(ordinal, POINT, 500.0, 90.0, is_warmup)
    server = replace(made.trace.server or ServerFigures(), draft_tokens=drafted, draft_accepted_tokens=accepted)
    return replace(made, trace=replace(made.trace, server=server, **trace))


@pytest.fixture
def seeded(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)


def stored_drafts(database: Database, samples: list[Sample]) -> dict[Workload, Drafts]:
    public_id = add_run(database, samples)
    with database.read() as session:
        run_id = runs.run(session, public_id).id or 0
        return {point: drafts for (_, point), drafts in drafts_of(session, [run_id]).items()}


@on_both
@pytest.mark.usefixtures("seeded")
def test_samples_of_a_point_are_counted_together(database: Database) -> None:
    samples = [
        sample(0, 500, 5, is_warmup=True),
        sample(1, 90, 60),
        sample(2, 93, 67),
        sample(3, 1, 1, status=Status.FAILED),
    ]
    drafts = stored_drafts(database, samples)
    assert drafts == {POINT: Drafts(183, 127, 254)}
    assert drafts[POINT].passes == 127
    assert drafts[POINT].accepted_per_pass == 1


@pytest.mark.usefixtures("seeded")
def test_none_drafted_is_told_apart_from_not_told(database: Database) -> None:
    assert stored_drafts(database, [sample(0, 0, 0)]) == {POINT: Drafts(0, 0, 127)}
    assert stored_drafts(database, [sample(0, None, None)]) == {}


@pytest.mark.usefixtures("seeded")
def test_counts_that_cannot_be_are_not_used(database: Database) -> None:
    assert stored_drafts(database, [sample(0, 500, 400)]) == {}


@on_both
@pytest.mark.usefixtures("seeded")
def test_lists_and_documents_count_them(database: Database) -> None:
    public_id = add_run(database, [sample(n, 100, 63) for n in range(3)])
    with database.read() as session:
        ceiling = run_document(session, public_id)["points"][0]["ceiling"]
        (newest,) = newest_decodes(session)
    assert newest.drafts == Drafts(300, 189, 381)
    assert ceiling["accepted_tokens_per_step"] == pytest.approx(189 / 192)
    assert ceiling["draft_tokens_per_step"] == pytest.approx(300 / 192)
