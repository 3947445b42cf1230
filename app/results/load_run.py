"""Loads one run with everything that is shown of it: its page, JSON document, share and notification all use this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from sqlmodel import Session

from app import engines
from app.ceiling.fit import Fit
from app.core.samples import Sample, Workload
from app.core.server_metrics import ServerMetric
from app.db import measurements, runs, samples
from app.db.tables import Config, Machine, Model, Run, Server
from app.metrics import MetricResult
from app.metrics.server_vs_client import ServerClientComparison, compare_with_client
from app.metrics.serving import Served, serving
from app.metrics.throughput import Slo
from app.results import hardware
from app.results.ceiling import (
    DecodeAnalysis,
    Limits,
    PointCeiling,
    RunCeiling,
    Unknown,
    analyze_decode,
    fit_of,
    flag_above_ceiling,
    limits_of_run,
    run_ceiling,
)
from app.results.compare.baseline import RunVerdicts, verdicts_of_run
from app.results.hardware import Hardware
from app.results.previous import Previous, previous
from app.results.wrong_runs import WrongRun, wrong_runs


class LeftOut(NamedTuple):
    """A workload of the suite that was not measured."""

    point: Workload
    reason: str


@dataclass(frozen=True)
class RunResult:
    """A run with all that is shown of it. Each part that takes queries or arithmetic is computed on first access, once;
    the session must still be open then."""

    session: Session = field(repr=False)
    run: Run
    machine: Machine
    server: Server
    config: Config | None
    """The configuration; None until the run has started."""
    model: Model | None

    @property
    def run_id(self) -> int:
        assert self.run.id is not None
        return self.run.id

    @property
    def engine(self) -> str:
        """The engine's key; empty when the configuration is unknown."""
        return self.config.engine if self.config else ""

    # --- numbers -----------------------------------------------------------------------------------------------------

    @cached_property
    def metrics(self) -> Sequence[MetricResult]:
        """Every metric of every workload from every source, in the order measured."""
        return measurements.measurements_of(self.session, self.run_id)

    @cached_property
    def samples(self) -> Sequence[Sample]:
        """All samples in the order measured; those faster than twice the ceiling are flagged."""
        return flag_above_ceiling(samples.samples_of(self.session, self.run_id), self.ceiling)

    @cached_property
    def points(self) -> Sequence[Workload]:
        """The workloads measured, in order."""
        return list(dict.fromkeys(result.point for result in self.metrics))

    @property
    def main_point(self) -> Workload | None:
        """The suite's main workload, or the first one measured when that is missing; None without any number."""
        main = (point for point in self.points if point.key == self.run.main_point_key)
        return next(main, next(iter(self.points), None))

    @property
    def has_value(self) -> bool:
        """Whether any metric has a value."""
        return any(result.value is not None for result in self.metrics)

    def metrics_at(self, point: Workload) -> Sequence[MetricResult]:
        return [result for result in self.metrics if result.point == point]

    def samples_at(self, point: Workload) -> Sequence[Sample]:
        return [sample for sample in self.samples if sample.point == point]

    def shown_metric(self, point: Workload, key: str) -> MetricResult | None:
        """Returns the metric from the source that is shown where there is room for one; None when it does not apply."""
        results = [result for result in self.metrics if result.point == point and result.metric == key]
        return next((result for result in results if result.is_shown), next(iter(results), None))

    @cached_property
    def server_comparisons(self) -> Sequence[ServerClientComparison]:
        """The server-side metrics, each with the client's value for the same requests."""
        stored = self.run.evidence.get("server", [])
        return compare_with_client([ServerMetric.from_json(metric) for metric in stored], self.samples)

    def serving(self, slo: Slo) -> Sequence[Served]:
        """Returns the results of each number of streams within these limits; empty for a run without several
        streams."""
        return serving(self.samples, slo)

    # --- hardware ----------------------------------------------------------------------------------------------------

    @cached_property
    def hardware(self) -> Hardware:
        """The hardware as it was frozen when the run started."""
        return hardware.hardware_of(self.session, self.run)

    @cached_property
    def ceiling(self) -> RunCeiling | Unknown | None:
        """The ceilings; None for a run without any metric or configuration."""
        if not self.metrics:
            return None
        return run_ceiling(self.session, self.run, self.config, self.model, self.hardware, self.metrics)

    @property
    def known_ceiling(self) -> RunCeiling | None:
        return self.ceiling if isinstance(self.ceiling, RunCeiling) else None

    @cached_property
    def memory_fit(self) -> Fit | None:
        """Whether the model fits the devices that hold it; None when they or its layers are unknown."""
        if self.known_ceiling is None or self.config is None:
            return None
        longest = max(point.context for point in self.known_ceiling.points)
        return fit_of(self.known_ceiling.placement, self.config, longest)

    def ceiling_at(self, point: Workload | None) -> PointCeiling | None:
        return self.known_ceiling.at(point) if self.known_ceiling else None

    def limits_at(self, point: Workload) -> Limits:
        """Returns what limits the result of a workload; what to change first comes first."""
        return limits_of_run(self.samples, point, self.ceiling, self.run.evidence, self.engine)

    def insight_at(self, point: Workload | None) -> DecodeAnalysis | None:
        """Returns where the time of a token goes; None without a ceiling or a decode speed at this workload."""
        ceiling = self.ceiling_at(point)
        if self.known_ceiling is None or self.config is None or ceiling is None:
            return None
        is_wrong = self.wrong is not None
        return analyze_decode(self.session, self.run, self.config, self.known_ceiling, ceiling, is_wrong=is_wrong)

    # --- beside other runs -------------------------------------------------------------------------------------------

    @cached_property
    def previous(self) -> Previous | None:
        """The nearest earlier configuration of the model on the machine; None without one."""
        return previous(self.session, self.run, engines.titles())

    @cached_property
    def wrong(self) -> WrongRun | None:
        """How the run stands off from the other runs of its configuration; None where it does not."""
        return wrong_runs(self.session, [self.run.public_id]).get(self.run.public_id)

    @cached_property
    def verdicts(self) -> RunVerdicts:
        """The verdicts against the baseline and the previous configuration, and what disturbed the run."""
        return verdicts_of_run(self.session, self.run, self.previous.run if self.previous else None)

    # --- what was noted while measuring ------------------------------------------------------------------------------

    @property
    def warnings(self) -> Sequence[str]:
        return self._evidence("warnings")

    @property
    def checks(self) -> Sequence[str]:
        return self._evidence("checks")

    @property
    def left_out(self) -> Sequence[LeftOut]:
        return [LeftOut(Workload.from_key(part["point"]), part["reason"]) for part in self._evidence("left_out")]

    def _evidence(self, key: str) -> Sequence[Any]:
        evidence: Mapping[str, Any] = self.run.evidence
        stored: Sequence[Any] = evidence.get(key, [])
        return stored


def load_run(session: Session, public_id: str) -> RunResult:
    """Loads a run by its public id. Raises NotFound."""
    run = runs.run(session, public_id)
    return RunResult(session, run, run.machine, run.server, run.config, run.model)
