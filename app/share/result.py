"""A run with everything that its snapshot is made from."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session

from app.core.errors import BadInput
from app.core.i18n import _
from app.core.samples import Sample, Workload
from app.db import measurements, runs, samples
from app.db.machines import MachineDevice
from app.db.tables import Config, Machine, Model, Run
from app.metrics import MetricResult
from app.results import hardware
from app.results.ceiling import PointCeiling, RunCeiling, flag_above_ceiling, run_ceiling
from app.share import circumstances
from app.suites import Case


@dataclass(frozen=True)
class Result:
    run: Run
    machine: Machine
    config: Config
    model: Model
    cases: Sequence[Case]
    taken: Sequence[Sample]
    measured: Sequence[MetricResult]
    main: Workload
    held: Sequence[MachineDevice]
    roof: RunCeiling | None

    @property
    def points(self) -> list[Workload]:
        return list(dict.fromkeys(each.point for each in self.measured))

    @property
    def top(self) -> PointCeiling | None:
        return self.roof.at(self.main) if self.roof else None

    def shown(self, point: Workload, key: str) -> MetricResult | None:
        found = [each for each in self.measured if each.point == point and each.metric == key]
        return next((each for each in found if each.is_shown), found[0] if found else None)


def result(session: Session, public_id: str) -> Result:
    """Raises NotFound, and BadInput for a run without any number."""
    run = runs.run(session, public_id)
    assert run.id is not None
    machine, config, model = run.machine, run.config, run.model
    measured = measurements.measurements_of(session, run.id)
    if config is None or model is None or all(each.value is None for each in measured):
        raise BadInput(_("This run has no result that could be shared."))
    points = {each.point.key: each.point for each in measured}
    held = hardware.hardware_of(session, run)
    roof = run_ceiling(session, run, config, model, held, measured)
    return Result(
        run=run,
        machine=machine,
        config=config,
        model=model,
        cases=circumstances.suite_cases(session, run),
        taken=flag_above_ceiling(samples.samples_of(session, run.id), roof),
        measured=measured,
        main=points.get(run.main_point_key) or measured[0].point,
        held=held.devices,
        roof=roof if isinstance(roof, RunCeiling) else None,
    )
