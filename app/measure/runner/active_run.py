"""A run while it is measured: what of it is stored the moment it is known, and what a terminal hears of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sqlmodel import Session

from app.core.errors import Busy
from app.core.i18n import _
from app.core.samples import Sample
from app.core.settings import Settings
from app.db import runs, samples, servers
from app.db.database import Database
from app.db.tables import Run, Server
from app.hardware.sensors import Reading
from app.hardware.watch import SensorProcess
from app.measure import bench
from app.measure.bench import BusyCheck, Phase, Prepared, SampleProgress, Stop
from app.metrics import headline_metrics
from app.suites import Suite

Found = TypeVar("Found")
BUSY_DATABASE_S = 120.0


@dataclass(frozen=True)
class Progress:
    """What a terminal shows while a run goes on."""

    phase: str
    done: int
    planned: int
    last: dict[str, float | None] | None = None
    remaining_s: float | None = None
    sample: Sample | None = None


Listener = Callable[[Progress], None]


@dataclass
class ActiveRun:
    """A claimed run while it is being measured."""

    database: Database
    settings: Settings
    run: Run
    server: Server
    is_here: bool
    """Whether the server is on this machine."""
    suite: Suite
    stop: Stop
    listen: Listener
    planned: int
    taken: list[SampleProgress] = field(default_factory=list)
    watch: SensorProcess | None = None
    load: list[Reading] = field(default_factory=list)
    busy_check: BusyCheck | None = None
    """None where the server is on another machine."""

    @property
    def run_id(self) -> int:
        assert self.run.id is not None
        return self.run.id

    def write(self, change: Callable[[Session], Found]) -> Found:
        """Writes, and waits for a database that others hold: what was measured is not lost for that."""
        deadline = time.monotonic() + BUSY_DATABASE_S
        while True:
            try:
                with self.database.write() as session:
                    return change(session)
            except Busy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def tell(self, phase: Phase) -> None:
        """Raises Cancelled where somebody has asked for that."""
        last = headline_metrics(self.taken[-1].sample) if self.taken else None
        progress = {"phase": phase.sentence, "last": last}
        if not self.write(lambda session: runs.beat(session, self.run_id, progress=progress)):
            self.stop.request()
        self.listen(Progress(phase.sentence, len(self.taken), self.planned, last))
        self.stop.check()

    def keep(self, taken: SampleProgress, prepared: Prepared) -> None:
        """Stores a sample the moment it was taken, with the progress that it means."""
        self.taken.append(taken)
        last = headline_metrics(taken.sample)
        remaining_s = self._remaining_s(prepared)
        done, phase = len(self.taken), _("Measuring.")
        step = bench.step(self.suite, prepared.fitting, done)
        progress = {"phase": phase, "step": step, "last": last, "remaining_s": remaining_s, "at": time.time()}

        def keep(session: Session) -> bool:
            samples.add_sample(session, self.run_id, taken.sample, taken.started_at)
            if taken.sample.trace.learned:
                servers.remember(session, self.run.server_id, capabilities=taken.sample.trace.learned)
            return runs.beat(session, self.run_id, samples_done=done, progress=progress)

        alive = self.write(keep)
        self.listen(Progress(phase, done, self.planned, last, remaining_s, taken.sample))
        if not alive:
            self.stop.request()

    def warn(self, sentence: str) -> None:
        """Is stored with the rest of the evidence, when the run is concluded."""
        self.run.evidence = {**self.run.evidence, "warnings": [*self.run.evidence["warnings"], sentence]}

    def _remaining_s(self, prepared: Prepared) -> float:
        """From the newest round of each point; points not yet seen are scaled by their tokens."""
        newest = {taken.sample.point: taken.seconds for taken in self.taken}
        point, seconds = self.taken[-1].sample.point, self.taken[-1].seconds
        total, ahead = 0.0, len(self.taken)
        for case in prepared.fitting:
            count = self.suite.sample_count([case])
            left, ahead = count - min(count, ahead), ahead - min(count, ahead)
            scale = (case.point.prompt_tokens + case.point.output_tokens) / (point.prompt_tokens + point.output_tokens)
            total += left / case.point.concurrency * newest.get(case.point, seconds * scale)
        return total
