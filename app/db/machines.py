"""Machines, and the devices of a machine that hold models: its memory and its accelerators."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, exists
from sqlmodel import Session, col, select

from app.core.errors import BadInput, Conflict, NotFound
from app.core.i18n import N_, _, joined
from app.db import bandwidth
from app.db.slugs import first_free, free_slug
from app.db.tables import BandwidthProbe, Machine, Run, now
from app.hardware import memory
from app.hardware.catalogue import built_in
from app.hardware.host import this_host
from app.hardware.profile import CATALOGUE, MEASURED, SENSOR, TYPED, Profile

LARGEST_CPU_FLOPS_PER_S = 1e15
"""A bound far above any processor: whoever types more has typed GFLOP/s."""


def list_machines(session: Session, archived: bool = False) -> Sequence[Machine]:
    """The machines in use, or the archived ones, by name."""
    is_listed = col(Machine.archived_at).is_not(None) if archived else col(Machine.archived_at).is_(None)
    return session.exec(select(Machine).where(is_listed).order_by(Machine.name)).all()


def all_machines(session: Session) -> Sequence[Machine]:
    """All machines by name, archived ones included."""
    return session.exec(select(Machine).order_by(Machine.name)).all()


def machine(session: Session, slug: str) -> Machine:
    """Find a machine by its slug. Raises NotFound."""
    row = session.exec(select(Machine).where(Machine.slug == slug)).first()
    if row is None:
        raise NotFound(_("There is no machine called {slug!r}.", slug=slug))
    return row


def add_machine(session: Session, name: str, **fields: Any) -> Machine:
    """Adds a machine with a slug of its own. Raises Conflict when another machine has this name."""
    _check_name(session, name)
    added = Machine(slug=free_slug(session, Machine, name), name=name, **fields)
    session.add(added)
    session.flush()
    return added


def edit_machine(session: Session, slug: str, **fields: Any) -> Machine:
    """Changes columns of a machine. Its slug stays: links to a machine outlive its renaming. Raises NotFound, and
    Conflict when another machine has the name."""
    row = machine(session, slug)
    if "name" in fields and fields["name"] != row.name:
        _check_name(session, fields["name"], row)
    return row.sqlmodel_update(fields)


def free_name(session: Session, name: str) -> str:
    """Returns the name, with a number where another machine has it."""
    return first_free(name, {machine.name for machine in all_machines(session)})


def _check_name(session: Session, name: str, own: Machine | None = None) -> None:
    """Raises Conflict for the name of another machine, an archived one included: sentences tell machines apart by
    their names alone."""
    namesakes = [other for other in all_machines(session) if other.name.casefold() == name.casefold()]
    if any(other is not own for other in namesakes):
        raise Conflict(_("Another machine is called {name!r}: choose another name.", name=name))


def archive_machine(session: Session, slug: str, archived: bool = True) -> Machine:
    """Archive a machine, or restore it. Raises NotFound."""
    return edit_machine(session, slug, archived_at=now() if archived else None)


def check_cpu_peak(flops_per_s: float | None) -> float | None:
    """Return the peak, or raise BadInput for one that no processor has."""
    if flops_per_s is not None and not 0 < flops_per_s < LARGEST_CPU_FLOPS_PER_S:
        raise BadInput(_("The processor's peak must be above 0 and below 1,000 TFLOP/s; 1,000 GFLOP/s are 1 TFLOP/s."))
    return flops_per_s


# --- this machine ----------------------------------------------------------------------------------------------------


def is_local_machine(machine: Machine) -> bool:
    """Whether Roofmark runs on this machine: by the stored host name, or by its name where none is stored."""
    return this_host().name == (machine.hostname or machine.name)


def local_machine(session: Session) -> Machine | None:
    """Returns the machine that Roofmark runs on, if it is known; one with a stored host name outranks one that only has
    this host's name."""
    candidates = [machine for machine in list_machines(session) if is_local_machine(machine)]
    return next((machine for machine in candidates if machine.hostname), candidates[0] if candidates else None)


def ensure_local_machine(session: Session) -> Machine:
    """Returns the machine that Roofmark runs on; a missing one is added with what is known at no cost."""
    existing = local_machine(session)
    if existing is not None:
        return existing
    host = this_host()
    name = free_name(session, host.name)
    return add_machine(session, name, os=host.os, cpu=host.cpu, ram_bytes=host.ram_bytes, hostname=host.name)


def fill(session: Session, slug: str, profile: Profile) -> Machine:
    """Stores what was detected. What a person typed stays unless detection knows better. Raises NotFound."""
    return edit_machine(session, slug, **detected_fields(profile, machine(session, slug)))


def detected_fields(profile: Profile, before: Machine | None = None) -> dict[str, Any]:
    """Returns columns of a machine as detected. A bandwidth or a card that a person typed stays as it is."""
    fields: dict[str, Any] = {
        "os": profile.host.os,
        "cpu": profile.host.cpu,
        "ram_bytes": profile.host.ram_bytes,
        "hostname": profile.host.name,
        "physical_cores": profile.physical_cores,
        "llc_bytes": profile.llc_bytes,
        "ram_kind": profile.ram.kind or None,
        "ram_data_rate_mt_per_s": profile.ram.data_rate_mt_per_s,
        "ram_bus_bits": profile.ram.bus_bits,
    }
    if before is None or before.ram_bandwidth_source != TYPED:
        fields["ram_bandwidth_bytes_per_s"] = profile.ram_bandwidth_bytes_per_s
        fields["ram_bandwidth_source"] = profile.ram_bandwidth_source
    detected = {key: value for key, value in fields.items() if value is not None}
    typed = [card for card in before.accelerators if card.get("source") == TYPED] if before else []
    names = {card["name"] for card in typed}
    accelerators = [asdict(card) for card in profile.accelerators if card.name not in names]
    retained = typed if accelerators else (before.accelerators if before else [])
    return detected | {"accelerators": accelerators + list(retained)}


MEMORY = N_("Memory")


def device_title(name: str) -> str:
    """Returns a device's name in the reader's language; memory has no name of its own. Several devices are joined by a
    plus."""
    parts = name.split(" + ")
    return " + ".join(
        f"{_(MEMORY)}{part.removeprefix(MEMORY)}" if part.partition(" ")[0] == MEMORY else part for part in parts
    )


# --- its devices -----------------------------------------------------------------------------------------------------


SOURCES = {
    MEASURED: N_("measured on the machine"),
    SENSOR: N_("from the hardware's own clocks and bus width"),
    CATALOGUE: N_("from the catalogue"),
    TYPED: N_("as typed"),
}


def source_words(source: str) -> str:
    """Returns the source of a bandwidth in the reader's language."""
    return _(SOURCES.get(source, N_("as stated")))


@dataclass(frozen=True)
class BandwidthValue:
    """A bandwidth and its source: measured, sensor, catalogue or typed."""

    bytes_per_s: float
    source: str
    note: str = ""
    at: datetime | None = None
    is_later: bool = False
    """Whether it became known only after the run that it is used for."""

    @property
    def words(self) -> str:
        """Returns the source in words: `measured on the machine on 2026-11-02, a lower bound`."""
        when = _(" on {at}", at=f"{self.at:%Y-%m-%d}") if self.at else ""
        later = _(", after this run") if self.is_later else ""
        return joined(joined(source_words(self.source), when, later, by=""), self.note, by=", ")


@dataclass(frozen=True)
class MachineDevice:
    """A device that holds a model or a part of one: the memory, or `count` equal accelerators with the figures of
    one."""

    name: str
    kind: str
    """ram or accelerator."""
    count: int
    memory_bytes: int | None
    bandwidths: Sequence[BandwidthValue]
    """The best source first: the first value counts, the others are shown too."""
    compute_flops_per_s: float | None = None
    """For memory it is the peak of the machine's processor."""
    fastest_flops_per_s: float | None = None
    llc_bytes: int | None = None
    is_peak_later: bool = False
    """Whether its FLOP/s became known only after the run, as for `BandwidthValue.is_later`."""

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """The bandwidth that counts, in bytes per second."""
        return self.bandwidths[0].bytes_per_s if self.bandwidths else None

    @property
    def peak_flops(self) -> float | None:
        """The peak FLOP/s of the fastest usable path, else with FP32 accumulate."""
        return self.fastest_flops_per_s or self.compute_flops_per_s


def devices(session: Session, machine: Machine) -> Sequence[MachineDevice]:
    """Returns a machine's memory, then its accelerators in the order listed."""
    return [_ram(session, machine), *map(_accelerator, machine.accelerators)]


def _ram(session: Session, machine: Machine) -> MachineDevice:
    rate = machine.ram_data_rate_mt_per_s
    speed = f"{machine.ram_kind or ''}-{rate:.0f}".lstrip("-") if rate else machine.ram_kind or ""
    measured = bandwidth.effective_probe(session, machine)
    bandwidths = []
    stated = machine.ram_bandwidth_bytes_per_s
    if stated is not None:
        note = _arithmetic(machine) if machine.ram_bandwidth_source in (SENSOR, TYPED) else ""
        bandwidths.append(BandwidthValue(stated, machine.ram_bandwidth_source or TYPED, note))
    if measured is not None and (best := measured.best_bytes_per_s) is not None:
        is_doubtful = bool(measured.record["remarks"])
        note = _("a lower bound, in doubt") if is_doubtful else _("a lower bound")
        is_outranked = is_doubtful and stated is not None and best < stated  # as other work halves it
        bandwidths.insert(1 if is_outranked else 0, BandwidthValue(best, MEASURED, note, measured.finished_at))
    name = " ".join(filter(None, [MEMORY, speed]))
    return MachineDevice(
        name,
        "ram",
        1,
        machine.ram_bytes,
        bandwidths,
        compute_flops_per_s=machine.cpu_flops_per_s,
        llc_bytes=machine.llc_bytes,
    )


def _arithmetic(machine: Machine) -> str:
    rate, bits = machine.ram_data_rate_mt_per_s, machine.ram_bus_bits
    stated = machine.ram_bandwidth_bytes_per_s or 0
    if not rate or not bits or not math.isclose(stated, memory.bandwidth_bytes_per_s(rate, bits), rel_tol=1e-5):
        return ""
    return f"{rate:,.0f} MT/s × {bits // 8} B"


def _accelerator(card: dict[str, Any]) -> MachineDevice:
    value = card.get("bandwidth_bytes_per_s")
    stated = [BandwidthValue(value, card.get("source") or TYPED, card.get("note") or "")] if value else []
    return MachineDevice(
        name=card["name"],
        kind="accelerator",
        count=card["count"],
        memory_bytes=card.get("memory_bytes"),
        bandwidths=stated,
        compute_flops_per_s=card.get("compute_flops_per_s"),
        fastest_flops_per_s=card.get("fastest_flops_per_s"),
        llc_bytes=card.get("llc_bytes"),
    )


def capacity_of(device: MachineDevice) -> int | None:
    """Returns the bytes that a model can take on a device; None when unknown, or when the device shares the system's
    memory."""
    return None if _shares_system_memory(device.name, device.memory_bytes) else device.memory_bytes


@lru_cache(maxsize=256)
def _shares_system_memory(name: str, memory_bytes: int | None) -> bool:
    device = built_in().find(name, memory_bytes).device
    return device is not None and device.kind == "apu"


def lock_machine(session: Session, machine_id: int) -> None:
    """Locks a machine until this transaction ends: nobody else can start a measurement on it."""
    session.exec(select(Machine.id).where(Machine.id == machine_id).with_for_update(key_share=True)).all()


def has_running_run(machine_id: int) -> ColumnElement[bool]:
    """A condition: whether a run is running on the machine."""
    return exists().where(col(Run.machine_id) == machine_id, col(Run.status) == "running")


def has_running_probe(machine_id: int) -> ColumnElement[bool]:
    """A condition: whether the bandwidth of the machine is being measured."""
    return exists().where(col(BandwidthProbe.machine_id) == machine_id, col(BandwidthProbe.status) == "running")
