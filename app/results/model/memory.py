"""What a configuration takes of the memory that holds it: measured by the machine's sensors, and computed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlmodel import Session, col

from app.ceiling.fit import Fit
from app.core.samples import Workload
from app.core.units import GIGA
from app.db.machines import devices
from app.db.models import all_stated, best_geometry
from app.db.tables import Config, Machine, Measurement, Model, Run
from app.metrics.memory import MEMORY_METRICS
from app.results.ceiling import Placement, fit_of, resolve_placement
from app.results.hardware import gpu_share_of, resolve_hardware

ON_GPUS, IN_SYSTEM = MEMORY_METRICS


@dataclass(frozen=True)
class MemoryUsed:
    """The memory of one configuration. It has a measured or a computed value, or both."""

    fit: Fit | None
    """Weights and KV cache at the context that the server offers; None: unknown."""
    measured_gb: Mapping[str, float] = field(default_factory=dict)
    """The metrics of memory that its sensors reported, in GB by key."""

    @property
    def measured_bytes(self) -> float | None:
        """What was measured where the model is: on GPUs, else in system memory. None: not measured."""
        gigabytes = self.measured_gb.get(ON_GPUS, self.measured_gb.get(IN_SYSTEM))
        return None if gigabytes is None else gigabytes * GIGA

    @property
    def computed_bytes(self) -> int | None:
        """Weights and KV cache together; None: unknown."""
        return sum(use.needed_bytes for use in self.fit.uses) if self.fit else None

    @property
    def used_bytes(self) -> int:
        """The measured value, else the computed one."""
        value = self.computed_bytes if self.measured_bytes is None else self.measured_bytes
        return round(value or 0)

    def less_than(self, other: "MemoryUsed") -> int | None:
        """Returns how many bytes less this is than another one, both measured or both computed; None: unknown."""
        for own_bytes, compared_bytes in (
            (self.measured_bytes, other.measured_bytes),
            (self.computed_bytes, other.computed_bytes),
        ):
            if own_bytes is not None and compared_bytes is not None:
                return round(compared_bytes - own_bytes)
        return None


def memory_by_run(session: Session, public_ids: Collection[str]) -> Mapping[str, MemoryUsed]:
    """Returns the memory of the configurations of some runs, by public id; one of which nothing is known is missing."""
    fits, measured = _fits(session, public_ids), _measured(session, public_ids)
    return {
        public_id: MemoryUsed(fits.get(public_id), measured.get(public_id, {}))
        for public_id in public_ids
        if fits.get(public_id) or public_id in measured
    }


def _fits(session: Session, public_ids: Collection[str]) -> Mapping[str, Fit | None]:
    rows = session.execute(
        select(Run, Config, Model, Machine)
        .join(Config, col(Config.id) == col(Run.config_id))
        .join(Model, col(Model.id) == col(Config.model_id))
        .join(Machine, col(Machine.id) == col(Run.machine_id))
        .where(col(Run.public_id).in_(public_ids))
    ).all()
    stated = all_stated(session)
    fits = {}
    for run, config, model, machine in rows:
        geometry = best_geometry(model, stated.get((model.name, model.quantization)))
        hardware = resolve_hardware(run.hardware, devices(session, machine))
        placement = resolve_placement(hardware.devices, config, geometry, gpu_share=gpu_share_of(run.evidence))
        context = Workload.from_key(run.main_point_key).mean_context()
        fits[run.public_id] = fit_of(placement, config, context) if isinstance(placement, Placement) else None
    return fits


def _measured(session: Session, public_ids: Collection[str]) -> Mapping[str, Mapping[str, float]]:
    """Returns the metrics of memory of some runs at their main points, in GB by public id and key."""
    query = (
        select(col(Run.public_id), col(Measurement.metric), col(Measurement.value))
        .join(
            Measurement,
            (col(Measurement.run_id) == col(Run.id)) & (col(Measurement.point_key) == col(Run.main_point_key)),
        )
        .where(
            col(Run.public_id).in_(public_ids),
            col(Measurement.metric).in_(MEMORY_METRICS),
            col(Measurement.is_shown).is_(True),
            col(Measurement.value) > 0,
        )
    )
    measured: dict[str, dict[str, float]] = {}
    for public_id, key, gigabytes in session.execute(query):
        measured.setdefault(public_id, {})[key] = gigabytes
    return measured
