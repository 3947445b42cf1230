"""A job to play, and a server that answers it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from app import engines
from app.core.settings import Settings
from app.measure.job import Job, TimedSample, prepare
from app.measure.play import run_suite
from app.measure.waiting import Phase, Stop, WaitLimits
from app.suites import Suite, custom_suite
from tests.replay import Script, serve

MODELS = Script.json({"data": [{"id": "syn-1"}]})
CHAT = "/v1/chat/completions"
READY = Script.json({"status": "ok"})
IDLE = Script.json([{"id": 0, "is_processing": False}])
SUITE = custom_suite({"prompt": "word " * 400, "output_tokens": 7, "repetitions": 2, "warmups": 1}, "mine", "Mine")


@contextmanager
def job(
    routes: dict[str, Any], engine: str = "openai", suite: Suite = SUITE, **changes: Any
) -> Iterator[tuple[Job, Any]]:
    with serve(routes, pace=0.02) as replay, engines.open_client(replay.url, None, Settings()) as client:
        values = {"model_id": "syn-1", "context_tokens": None, "limits": WaitLimits(5, 5), **changes}
        yield Job(engine=engines.find(engine), client=client, suite=suite, **values), replay


def played(made: Job, stop: Stop | None = None) -> list[Phase | TimedSample]:
    return list(run_suite(made, prepare(made), stop or Stop()))


def samples_of(steps: list[Phase | TimedSample]) -> list[Any]:
    return [step.sample for step in steps if isinstance(step, TimedSample)]
