"""Several streams in the database: what holds of their engine, and what stands under their ceiling."""

from dataclasses import replace

import pytest

from app.core.samples import Sample, Workload
from app.db import measurements, runs
from app.db.database import Database
from app.db.samples import samples_of
from app.metrics import metrics
from app.results.ceiling import config_ceilings
from app.results.ceiling.configs import newest_decodes
from tests.databases import on_both
from tests.seed import made_sample, seed
from tests.web.notebook import add_run

POINT = Workload(512, 128, concurrency=4)


def played(**changes: object) -> list[Sample]:
    """A round of four streams whose prompts were processed together."""
    return [
        replace(made_sample(n, POINT, 2000.0, 50.0), stream=n, round=0, **changes)  # type: ignore[arg-type]  # fields
        for n in range(4)
    ]


@pytest.fixture
def seeded(database: Database) -> str:
    with database.write() as session:
        return seed(session, runs=1, configs_used=1, detailed=1)[0]


@on_both
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("batches", [True, False])
def test_whether_the_engine_batches_is_kept_with_each_sample(database: Database, batches: bool) -> None:
    public_id = add_run(database, played(engine_batches=batches))
    with database.read() as session:
        run_id = runs.run(session, public_id).id or 0
        samples = samples_of(session, run_id)
        assert [(sample.engine_batches, sample.prefill_overlaps) for sample in samples] == [(batches, batches)] * 4
        (prefill,) = [
            measurement
            for measurement in measurements.measurements_of(session, run_id)
            if (measurement.metric, measurement.source) == ("prefill_tokens_per_s", "server")
        ]
    assert (prefill.value is None) is batches
    assert prefill.null_reason == ("overlapping_prefill" if batches else None)


@on_both
def test_the_throughput_of_the_rounds_stands_under_the_ceiling(database: Database, seeded: str) -> None:
    """Of a lone stream it is the decode speed, whatever the throughput."""
    with database.read() as session:
        run = runs.run(session, seeded)
        config_id = run.config_id
        (alone,) = newest_decodes(session)
        shown = {e.metric: e.value for e in measurements.measurements_of(session, run.id or 0) if e.is_shown}
        assert alone.tokens_per_s == shown["decode_tokens_per_s"]
    public_id = add_run(
        database, played(), config_id=config_id, suite_key="streams", main_point_key=POINT.key, status="done"
    )
    with database.read() as session:
        (decode,) = [decode for decode in newest_decodes(session) if decode.public_id == public_id]
        run_id = runs.run(session, public_id).id or 0
        (throughput,) = [
            measurement.value
            for measurement in measurements.measurements_of(session, run_id)
            if measurement.metric == "output_tokens_per_s"
        ]
        assert decode.tokens_per_s == throughput
        assert throughput is not None
        assert throughput < 4 * 50
        roof = config_ceilings(session)[config_id or 0, "streams"]
        assert roof.mbu == pytest.approx(throughput / roof.ceiling.tokens_per_s)
    assert metrics()["output_tokens_per_s"].formula_version == 2
