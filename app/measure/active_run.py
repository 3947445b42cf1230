"""A run while it is measured: each part of it is stored as soon as it is known, and a terminal shows its progress."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlmodel import Session

from app.core.errors import Busy
from app.core.i18n import _
from app.core.samples import Sample
from app.core.settings import Settings
from app.db import runs, samples, servers
from app.db.database import Database
from app.db.tables import Run, Server
from app.hardware.sensor_process import SensorProcess, sensor_columns
from app.hardware.sensors import SensorReading
from app.measure.interference import BusyCheck
from app.measure.job import Prepared, TimedSample, sample_marks, step_label
from app.measure.live import Arrived
from app.measure.waiting import Phase, Stop
from app.metrics import headline_metrics, token_times
from app.suites import Case, Suite

Result = TypeVar("Result")
BUSY_DATABASE_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class RunProgress:
    """What a terminal shows while a run goes on."""

    phase: str
    done: int
    planned: int
    last: dict[str, float | None] | None = None
    """The headline metrics of the newest sample."""
    remaining_s: float | None = None
    sample: Sample | None = None
    arrived: Arrived | None = None
    """What of an answer has come, on the way to its end."""


Listener = Callable[[RunProgress], None]


@dataclass
class ActiveRun:
    """A claimed run while it is being measured."""

    database: Database
    settings: Settings
    run: Run
    server: Server
    is_local: bool
    """Whether the server is on this machine."""
    suite: Suite
    stop: Stop
    listen: Listener
    planned: int
    """How many samples the run will have."""
    timed_samples: list[TimedSample] = field(default_factory=list)
    sensors: SensorProcess | None = None
    """None where the server is on another machine, or sensors are off."""
    server_load: SensorProcess | None = None
    """None where the server does not report its load, or sensors are off."""
    load_readings: list[SensorReading] = field(default_factory=list)
    busy_check: BusyCheck | None = None
    """None where the server is on another machine."""
    marks: list[list[str]] = field(default_factory=list)
    """A letter for each sample (`sample_marks`); empty before it is known which cases fit."""

    @property
    def run_id(self) -> int:
        """The primary key of the run."""
        assert self.run.id is not None
        return self.run.id

    @property
    def samples(self) -> list[Sample]:
        """The samples measured so far."""
        return [timed.sample for timed in self.timed_samples]

    def write(self, change: Callable[[Session], Result]) -> Result:
        """Writes, and waits for a database that another process has locked, so that no measurement is lost."""
        deadline_s = time.monotonic() + BUSY_DATABASE_TIMEOUT_S
        while True:
            try:
                with self.database.write() as session:
                    return change(session)
            except Busy:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)

    def report_phase(self, phase: Phase) -> None:
        """Stores the phase and shows it. Raises Cancelled when somebody has requested that."""
        last = headline_metrics(self.timed_samples[-1].sample) if self.timed_samples else None
        progress = {"phase": phase.sentence, "last": last, "marks": self.marks}
        if not self.write(lambda session: runs.record_progress(session, self.run_id, progress=progress)):
            self.stop.request()
        self.listen(RunProgress(phase.sentence, len(self.timed_samples), self.planned, last))
        self.stop.check()

    def show_arrived(self, arrived: Arrived) -> None:
        """Shows a terminal what has come; nothing is stored, and it is called while an answer is read."""
        self.listen(RunProgress(_("Measuring."), len(self.timed_samples), self.planned, arrived=arrived))

    def store_sample(self, timed: TimedSample, prepared: Prepared) -> None:
        """Stores a sample as soon as it is taken, with the sensors of its round and the progress of the run."""
        self.load_readings += readings_during(timed, self.server_load)
        timed = with_sensor_columns(timed, self.sensors)
        self.timed_samples.append(timed)
        done, phase = len(self.timed_samples), _("Measuring.")
        last, remaining_s = headline_metrics(timed.sample), self._remaining_s(prepared)
        step = step_label(self.suite, prepared.fitting, done)
        self.marks = sample_marks(self.suite, prepared.fitting, self.samples)
        progress = {
            "phase": phase,
            "step": step,
            "last": last,
            "remaining_s": remaining_s,
            "at": time.time(),
            "marks": self.marks,
        }

        def store(session: Session) -> bool:
            samples.add_sample(session, self.run_id, timed.sample, timed.started_at)
            if timed.sample.trace.learned_capabilities:
                servers.remember(session, self.run.server_id, capabilities=timed.sample.trace.learned_capabilities)
            return runs.record_progress(session, self.run_id, samples_done=done, progress=progress)

        may_go_on = self.write(store)
        self.listen(RunProgress(phase, done, self.planned, last, remaining_s, timed.sample))
        if not may_go_on:
            self.stop.request()

    def warn(self, sentence: str | None) -> None:
        """Adds a warning, if there is one, to the evidence, which is stored when the run is concluded."""
        if sentence:
            self.run.evidence = {**self.run.evidence, "warnings": [*self.run.evidence["warnings"], sentence]}

    def _remaining_s(self, prepared: Prepared) -> float:
        """From the newest round of each case; what a case not yet seen takes is estimated from the newest of all."""
        newest = {(timed.sample.point, timed.sample.reuses_cache): timed for timed in self.timed_samples}
        total_s, done = 0.0, len(self.timed_samples)
        for case in prepared.fitting:
            count = self.suite.sample_count([case])
            remaining, done = count - min(count, done), done - min(count, done)
            timed = newest.get((case.point, case.reuses_cache))
            seconds = estimated_seconds(self.timed_samples[-1], case) if timed is None else next_seconds(timed)
            total_s += remaining / case.point.concurrency * seconds
        return total_s


def next_seconds(timed: TimedSample) -> float:
    """Returns the seconds that the next round like this one takes, without the loading and the queue of this one."""
    server = timed.sample.trace.server
    once_ms = ((server.load_ms or 0) + (server.queue_ms or 0)) if server is not None else 0
    return max(0.0, timed.seconds - once_ms / 1000)


def estimated_seconds(timed: TimedSample, case: Case) -> float:
    """How long a round of `case` takes, by a round of another one: the time to its first token grows with the prompts,
    the rest with the length of the answer."""
    seconds, point = next_seconds(timed), timed.sample.point
    first_ms = token_times.first_token_ms(timed.sample.trace)
    after_s = max(0.0, ((timed.sample.trace.end_ms or 0) - (first_ms or 0)) / 1000) if first_ms else seconds
    before_s = max(0.0, seconds - after_s)
    fresh = 0 if case.reuses_cache and not timed.sample.reuses_cache else case.point.prompt_tokens
    prompts = fresh * case.point.concurrency / (point.prompt_tokens * point.concurrency)
    return before_s * prompts + min(after_s, seconds) * case.point.output_tokens / point.output_tokens


def readings_during(timed: TimedSample, process: SensorProcess | None) -> list[SensorReading]:
    """Returns what a process read while this round was played; only its first stream carries the readings, for all
    streams."""
    if process is None or timed.sample.stream:
        return []
    start_s = timed.started_at.timestamp()
    return process.between(start_s, start_s + timed.seconds)


def with_sensor_columns(timed: TimedSample, process: SensorProcess | None) -> TimedSample:
    """Returns the sample with the sensors of its round; only the first sample of a round keeps them."""
    columns = sensor_columns(readings_during(timed, process), timed.started_at.timestamp())
    if not columns:
        return timed
    return replace(timed, sample=replace(timed.sample, sensors={**timed.sample.sensors, **columns}))
