"""The view models of a run's page about its hardware: what limits the result, its ceiling, and time."""

from collections.abc import Sequence
from dataclasses import dataclass

from app import charts
from app.ceiling.fit import Fit
from app.core.i18n import N_
from app.core.samples import Sample, Workload
from app.db import devices
from app.db.machines import is_local_machine
from app.db.tables import Machine, Model, Run
from app.metrics import MetricResult
from app.metrics.memory import MEMORY_METRICS
from app.results.ceiling import DecodeAnalysis, Limits, PointCeiling, RunCeiling, Unknown
from app.results.load_run import RunResult
from app.web import calculator
from app.web.run_page.sections import Section

# --- hardware --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LimitsOfResult(Section):
    template = "_run_limits.html"
    contents = ("limits-title", N_("Limits"))

    limits: Limits
    point: Workload | None
    """The workload of the limits, when the run has several."""


def limits(result: RunResult, point: Workload) -> LimitsOfResult | None:
    limits_at_point = result.limits_at(point)
    if not (limits_at_point.findings or limits_at_point.unknown):
        return None
    return LimitsOfResult(limits_at_point, point if len(result.points) > 1 else None)


@dataclass(frozen=True)
class Ceiling(Section):
    template = "_run_ceiling.html"
    contents = ("ceiling-title", N_("Ceiling"))

    run: Run
    machine: Machine
    model: Model
    ceiling: RunCeiling | Unknown
    is_here: bool
    """Whether Roofmark runs on the machine, so that its bandwidth can be measured."""
    is_outdated: bool
    """Whether the machine's devices are known differently today."""
    top: PointCeiling | None
    """The ceiling at the selected workload; None when all of the ceiling is unknown."""
    calculation: str
    """The query of the calculator for the same case; empty when it is unknown."""
    fit: Fit | None
    """Whether the model fits its devices; None when that is unknown."""
    memory_used: Sequence[MetricResult]
    """The memory that was measured at the selected workload."""
    insight: DecodeAnalysis | None
    context_figure: charts.Figure | None
    roofline: charts.Figure | None


def ceiling(result: RunResult, point: Workload) -> Ceiling | None:
    if result.ceiling is None or result.model is None:
        return None
    run_ceiling, top, insight = result.known_ceiling, result.ceiling_at(point), result.insight_at(point)
    calculation = ""
    if run_ceiling is not None and top is not None and result.model.id is not None:
        known_devices, placement = devices.devices_of(result.session, result.machine), run_ceiling.placement
        calculation = calculator.query_of_run(result.model.id, result.machine.name, known_devices, placement, top)
    return Ceiling(
        run=result.run,
        machine=result.machine,
        model=result.model,
        ceiling=result.ceiling,
        is_here=is_local_machine(result.machine),
        is_outdated=result.hardware.is_outdated,
        top=top,
        calculation=calculation,
        fit=result.memory_fit,
        memory_used=[
            used
            for key in MEMORY_METRICS
            if (used := result.shown_metric(point, key)) is not None and used.value is not None
        ],
        insight=insight,
        context_figure=charts.against_context(insight.curve, charts.measured_speeds(insight)) if insight else None,
        roofline=charts.run_roofline(run_ceiling.placement, top) if run_ceiling and top else None,
    )


# --- time ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tokens(Section):
    """When tokens arrived at one workload, and the sensor readings meanwhile."""

    template = "_run_tokens.html"
    contents = ("tokens-title", N_("Tokens"))

    public_id: str
    points: Sequence[Workload]
    """The workloads to choose from."""
    shown: Workload | None
    timeline: charts.Figure
    gaps: charts.Figure | None
    sensors: charts.Figure | None
    no_sensors: str
    """Why there is no chart of the sensors; empty when nobody knows."""


def tokens(result: RunResult, point: Workload | None) -> Tokens | None:
    at_point = result.samples_at(point) if point else []
    timeline, typical = charts.timeline(at_point), charts.typical_sample(at_point)
    if timeline is None:
        return None
    return Tokens(
        public_id=result.run.public_id,
        points=result.points,
        shown=point,
        timeline=timeline,
        gaps=charts.gaps(typical) if typical else None,
        sensors=charts.sensors_of(_with_sensors(typical, at_point)) if typical else None,
        no_sensors=charts.absence(result.run.evidence.get("no_sensors")),
    )


def _with_sensors(sample: Sample, at_point: Sequence[Sample]) -> Sample:
    """Returns the samples with sensor readings, which are stored with the first stream of a round."""
    first_streams = (
        stream for stream in at_point if (stream.round, stream.stream) == (sample.round, 0) and not stream.is_warmup
    )
    return next(first_streams, sample) if sample.point.concurrency > 1 else sample
