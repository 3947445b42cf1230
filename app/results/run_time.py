"""How long a run is going to take: from earlier runs of its suite, else from speeds that were measured."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import select as select_columns
from sqlmodel import Session, col

from app.db.tables import Config, Measurement, Run
from app.suites import Case, Suite

MOST_RUNS = 50
"""The newest runs of a server that are looked at."""
MOST_ALIKE = 5
BESIDE_SAMPLES_S = 3.0
"""What a run takes beside its requests: starting its process, probing the server, and looking whether it is idle."""


class Basis(StrEnum):
    RUNS = "runs"
    """Earlier runs of the suite on this server."""
    SPEEDS = "speeds"
    """Prefill and decode of an earlier run of another suite."""


@dataclass(frozen=True)
class RunTime:
    """How long one run takes, in seconds, and what that was estimated from."""

    seconds: float
    basis: Basis


class _EarlierRun(NamedTuple):
    id: int
    suite_sha256: str
    seconds: float
    samples: int


class EarlierRuns:
    """The newest whole runs of a server, of one of its models where a model id is given."""

    def __init__(self, session: Session, server_id: int, model_id: str | None) -> None:
        query = (
            select_columns(
                col(Run.id),
                col(Run.suite_sha256),
                col(Run.started_at),
                col(Run.finished_at),
                col(Run.samples_done),
                col(Config.settings),
            )
            .join(Config, col(Config.id) == col(Run.config_id))
            .where(
                col(Run.server_id) == server_id,
                col(Run.status) == "done",
                col(Run.source) == "live",
                col(Run.hidden_at).is_(None),
            )
            .order_by(col(Run.id).desc())
            .limit(MOST_RUNS)
        )
        self._runs = [
            _EarlierRun(run_id, sha256, (finished_at - started_at).total_seconds(), samples)
            for run_id, sha256, started_at, finished_at, samples, settings in session.execute(query)
            if started_at and finished_at and samples and _is_of(model_id, settings)
        ]
        self._speeds = _speeds(session, [run.id for run in self._runs[:MOST_ALIKE]])

    def time_of(self, suite: Suite, fitting: Sequence[Case]) -> RunTime | None:
        """Estimates a run of these cases of a suite; None where nothing of this server and model was measured."""
        alike = [run for run in self._runs if run.suite_sha256 == suite.sha256][:MOST_ALIKE]
        if alike:
            per_sample_s = statistics.median(run.seconds / run.samples for run in alike)
            return RunTime(per_sample_s * suite.sample_count(fitting), Basis.RUNS)
        if self._speeds is None:
            return None
        prefill, decode = self._speeds
        seconds = BESIDE_SAMPLES_S
        for case in fitting:
            rounds, point = suite.warmups_of(case) + suite.repetitions, case.point
            seconds += rounds * (point.prompt_tokens * point.concurrency / prefill + point.output_tokens / decode)
        return RunTime(seconds, Basis.SPEEDS)


def _is_of(model_id: str | None, settings: Mapping[str, Any]) -> bool:
    """Whether a configuration is of this model; one that does not record its model's id may be."""
    return model_id is None or settings.get("model_id") in (None, model_id)


def _speeds(session: Session, run_ids: Sequence[int]) -> tuple[float, float] | None:
    """Medians of prefill and decode in tok/s over all points of these runs; None where one of them is unknown."""
    keys = ("prefill_tokens_per_s", "decode_tokens_per_s")
    query = select_columns(col(Measurement.metric), col(Measurement.value)).where(
        col(Measurement.run_id).in_(run_ids),
        col(Measurement.metric).in_(keys),
        col(Measurement.is_shown),
        col(Measurement.value) > 0,
    )
    values: dict[str, list[float]] = {key: [] for key in keys}
    for metric, value in session.execute(query):
        values[metric].append(value)
    prefill, decode = (values[key] for key in keys)
    return (statistics.median(prefill), statistics.median(decode)) if prefill and decode else None
