"""What a configuration takes of the memory that holds it: measured by the machine's sensors, and computed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlmodel import Session, col

from app.ceiling.fit import Fit
from app.core.units import GIGA
from app.db.tables import Measurement, Run
from app.metrics.memory import MEMORY_METRICS
from app.results.ceiling import Decode, Placement, fit_of

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
        for mine, theirs in (
            (self.measured_bytes, other.measured_bytes),
            (self.computed_bytes, other.computed_bytes),
        ):
            if mine is not None and theirs is not None:
                return round(theirs - mine)
        return None


def memory_used(decode: Decode, placement: Placement | None, measured_gb: Mapping[str, float]) -> MemoryUsed | None:
    """Returns the memory of a run's configuration; None where nothing is known of it."""
    fit = fit_of(placement, decode.config, decode.point.mean_context()) if placement else None
    return MemoryUsed(fit, measured_gb) if fit or measured_gb else None


def measured_memory(session: Session, public_ids: Collection[str]) -> Mapping[str, Mapping[str, float]]:
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
