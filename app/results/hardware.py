"""The hardware of a run: its machine's devices, frozen when it started, so that no later edit changes its result."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import Text, cast
from sqlmodel import Session, col, func, select

from app.core.config_settings import remote_host
from app.core.i18n import N_, _, joined
from app.core.units import format_bytes
from app.db.database import cached_query
from app.db.machines import BandwidthValue, MachineDevice, device_title, devices
from app.db.tables import Run
from app.hardware.catalogue import is_same_name
from app.results.run_filter import NOT_HIDDEN

FrozenDevices = list[dict[str, Any]]
"""The content of `Run.hardware`: each device as plain JSON values."""

NOT_RECORDED = N_("the machine's devices were not recorded with this run, so they are taken as they are known today")
SAME_MEMORY = 0.02
"""The relative difference in memory that still means the same card: what drivers reserve changes with their
versions."""


@dataclass(frozen=True)
class Hardware:
    """The devices that the ceiling of a run is computed from."""

    devices: Sequence[MachineDevice]
    assumptions: tuple[str, ...] = ()
    """Assumptions needed to judge the devices."""
    is_outdated: bool = False
    """Whether the machine's devices are known differently today."""


def freeze(session: Session, run: Run) -> FrozenDevices:
    """Returns the devices of the run's machine as they are known now."""
    return freeze_devices(devices(session, run.machine))


def refreeze(session: Session, run: Run) -> None:
    """Replaces the frozen hardware of a run with the machine's devices as they are known today."""
    run.hardware = freeze(session, run)
    session.add(run)


def hardware_of(session: Session, run: Run) -> Hardware:
    """Returns the hardware of a run, without the machine's devices when the model ran elsewhere."""
    if run.config is not None and remote_host(run.config.settings):
        return Hardware(())
    return resolve_hardware(run.hardware, devices(session, run.machine))


def gpu_share_of(evidence: Mapping[str, Any]) -> float | None:
    """Returns the share of the model in the memory of cards, 0 to 1, as the server reported it after a run; None: not
    reported."""
    shares = [figure["value"] for figure in evidence.get("server", ()) if figure["name"] == "gpu_share"]
    return shares[0] if shares else None


class HardwareRecord(NamedTuple):
    """The frozen hardware of a run, and what its server reported of it."""

    frozen: FrozenDevices
    gpu_share: float | None


def newest_records(session: Session) -> dict[tuple[int, int], HardwareRecord]:
    """Returns the record of the newest finished run of each configuration, by machine and configuration."""
    newest = select(func.max(col(Run.id))).where(col(Run.status) == "done", col(Run.config_id).is_not(None), NOT_HIDDEN)
    newest = newest.group_by(col(Run.machine_id), col(Run.config_id))
    columns = (col(Run.machine_id), col(Run.config_id), col(Run.hardware), col(Run.evidence))
    rows = session.exec(select(*columns).where(col(Run.id).in_(newest))).all()
    return {
        (machine_id, config_id): HardwareRecord(frozen, gpu_share_of(evidence))
        for machine_id, config_id, frozen, evidence in rows
        if config_id is not None
    }


def resolve_hardware(frozen: FrozenDevices, today: Sequence[MachineDevice]) -> Hardware:
    """Returns the frozen devices; a bandwidth or peak that was unknown is today's, if the machine still has the
    device."""
    if not frozen:
        return Hardware(today, (_(NOT_RECORDED),), is_outdated=True)
    return Hardware(
        [_with_later_figures(device, today) for device in thaw_devices(frozen)],
        is_outdated=frozen != freeze_devices(today),
    )


def _with_later_figures(device: MachineDevice, today: Iterable[MachineDevice]) -> MachineDevice:
    later = next((candidate for candidate in today if _is_same_kind(device, candidate)), None)
    if later is None:
        return device
    if not device.bandwidths:
        device = replace(device, bandwidths=[replace(bandwidth, is_later=True) for bandwidth in later.bandwidths])
    if device.peak_flops is None and later.peak_flops is not None:
        device = replace(
            device,
            compute_flops_per_s=later.compute_flops_per_s,
            fastest_flops_per_s=later.fastest_flops_per_s,
            is_peak_later=True,
        )
    return device


# --- JSON ------------------------------------------------------------------------------------------------------------


def freeze_devices(devices: Iterable[MachineDevice]) -> FrozenDevices:
    """Returns the devices as plain JSON values, as a run stores them."""
    frozen = []
    for device in devices:
        stated = [
            {**asdict(bandwidth), "at": bandwidth.at and bandwidth.at.isoformat()} for bandwidth in device.bandwidths
        ]
        frozen.append({**asdict(device), "bandwidths": stated})
    return frozen


def thaw_devices(frozen: FrozenDevices) -> list[MachineDevice]:
    """Returns the devices that a run has stored."""
    return [
        MachineDevice(**{**record, "bandwidths": [_stated(bandwidth) for bandwidth in record["bandwidths"]]})
        for record in frozen
    ]


def _stated(plain: Mapping[str, Any]) -> BandwidthValue:
    return BandwidthValue(**{**plain, "at": datetime.fromisoformat(plain["at"]) if plain["at"] else None})


# --- other hardware --------------------------------------------------------------------------------------------------


def device_changes(then: Sequence[MachineDevice], today: Sequence[MachineDevice]) -> list[str]:
    """Returns the changes of devices in words. Figures that are only known better, or measured again, are no other
    hardware.

    >>> one, two = (MachineDevice("RTX 3090", "accelerator", count, None, ()) for count in (1, 2))
    >>> device_changes([one], [two]), device_changes([one], [one]), device_changes([], [two])
    (['RTX 3090 → 2 × RTX 3090'], [], ['2 × RTX 3090 added'])
    """
    descriptions = []
    for kind in ("accelerator", "ram"):
        removed, added = _pool_devices(then, kind), _pool_devices(today, kind)
        for device in [*removed]:
            same = next((card for card in added if card.count == device.count and _is_same(device, card)), None)
            if same is not None:
                removed.remove(device)
                added.remove(same)
        before, after = _device_list(removed), _device_list(added)
        if before == after:
            before, after = _device_list(removed, with_memory=True), _device_list(added, with_memory=True)
        if before and after:
            descriptions.append(f"{before} → {after}")
        elif before or after:
            descriptions.append(_("{device} removed", device=before) if before else _("{device} added", device=after))
    return descriptions


def _pool_devices(devices: Iterable[MachineDevice], kind: str) -> list[MachineDevice]:
    """Returns equal cards as one device, however they are listed."""
    pooled: list[MachineDevice] = []
    for device in devices:
        if device.kind != kind:
            continue
        for place, pooled_device in enumerate(pooled):
            if _is_same(pooled_device, device):
                pooled[place] = replace(pooled_device, count=pooled_device.count + device.count)
                break
        else:
            pooled.append(device)
    return pooled


def _device_list(devices: Iterable[MachineDevice], with_memory: bool = False) -> str:
    return " + ".join(
        f"{f'{device.count} × ' if device.count > 1 else ''}{device_title(device.name)}"
        f"{f' {format_bytes(device.memory_bytes)}' if with_memory and device.memory_bytes else ''}"
        for device in devices
    )


def _is_same(first: MachineDevice, second: MachineDevice) -> bool:
    """Whether two devices are the same; a figure that one of them lacks makes no difference."""
    return _is_same_kind(first, second) and _is_as_large(first.memory_bytes, second.memory_bytes)


def _is_as_large(first: int | None, second: int | None) -> bool:
    return first is None or second is None or abs(first - second) <= SAME_MEMORY * max(first, second)


def _is_same_kind(first: MachineDevice, second: MachineDevice) -> bool:
    if first.kind != second.kind:
        return False
    if first.kind == "ram":  # whose speed becomes part of its name when it is known
        return first.name.startswith(second.name) or second.name.startswith(first.name)
    return is_same_name(first.name, second.name)


def describe_devices(devices: Sequence[MachineDevice]) -> str:
    """Returns all devices in one line, such as `2 × RTX 3090 24.0 GB + Memory 64.0 GB`; empty when nothing is known."""
    return _device_list([*_pool_devices(devices, "accelerator"), *_pool_devices(devices, "ram")], with_memory=True)


class HardwareChange(NamedTuple):
    """A change of the hardware between two runs of a server."""

    at: datetime
    """When the first run with the new hardware started."""
    text: str


class Timelines:
    """The hardware of each server's runs over time."""

    def __init__(self, rows: Iterable[tuple[int, datetime, FrozenDevices]]) -> None:
        self._since: dict[int, list[datetime]] = {}
        self._devices: dict[int, list[Sequence[MachineDevice]]] = {}
        for server_id, started_at, frozen in rows:
            self._since.setdefault(server_id, []).append(started_at)
            self._devices.setdefault(server_id, []).append(thaw_devices(frozen))

    def between(self, server_id: int, then: datetime, today: datetime) -> list[str]:
        """Returns what changed from a run that started at one moment to one that started later, as far as it was
        recorded."""
        first, second = self._place(server_id, then), self._place(server_id, today)
        if first == second or first < 0:
            return []
        devices = self._devices[server_id]
        return device_changes(devices[first], devices[second])

    def all_changes(self) -> dict[int, list[HardwareChange]]:
        """Returns all changes by server, in order of time."""
        changes: dict[int, list[HardwareChange]] = {}
        for server_id, since in self._since.items():
            for (_since, then), (at, today) in pairwise(zip(since, self._devices[server_id], strict=True)):
                if descriptions := device_changes(then, today):
                    changes.setdefault(server_id, []).append(HardwareChange(at, joined(*descriptions, by="; ")))
        return changes

    def names(self, server_id: int) -> list[str]:
        """Returns the hardware before, between and after the changes of a server in words: its accelerators, and all
        devices with their memory where only that tells them apart."""
        epochs: list[Sequence[MachineDevice]] = []
        for known_devices in self._devices.get(server_id, ()):
            if not epochs or device_changes(epochs[-1], known_devices):
                epochs.append(known_devices)
            else:
                epochs[-1] = known_devices
        short = [_device_list(_pool_devices(epoch, "accelerator")) for epoch in epochs]
        return short if len({*short}) == len(short) else [describe_devices(epoch) for epoch in epochs]

    def unchanged_since(self, server_id: int, moment: datetime) -> datetime | None:
        """Returns since when the hardware has been that of a run that started at `moment`; None: no earlier change is
        recorded."""
        place = self._place(server_id, moment)
        devices = self._devices.get(server_id, [])
        changed = next((i for i in range(place - 1, -1, -1) if device_changes(devices[i], devices[place])), None)
        return None if changed is None else self._since[server_id][changed + 1]

    def _place(self, server_id: int, moment: datetime) -> int:
        return bisect_right(self._since.get(server_id, []), moment) - 1


@cached_query(maxsize=4)
def timelines(session: Session, server_id: int | None = None) -> Timelines:
    """Reads only the runs whose record differs from that of the run before; hidden runs do not count."""
    order = [col(Run.started_at), col(Run.id)]
    record = cast(col(Run.hardware), Text)
    before = func.lag(record).over(partition_by=col(Run.server_id), order_by=order)
    columns: list[Any] = [Run.server_id, Run.started_at, Run.hardware, record.label("record"), before.label("before")]
    recorded = select(*columns).where(col(Run.started_at).is_not(None), record != "[]", NOT_HIDDEN)
    if server_id is not None:
        recorded = recorded.where(col(Run.server_id) == server_id)
    records = recorded.subquery()
    switches = select(records.c.server_id, records.c.started_at, records.c.hardware).where(
        records.c.before.is_(None) | (records.c.before != records.c.record)
    )
    return Timelines(session.exec(switches.order_by(records.c.started_at)).all())
