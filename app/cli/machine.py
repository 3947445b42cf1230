"""`roofmark machine`: hardware of the machines, this machine's memory bandwidth, and the device catalogue."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.output import Json, print_json, say
from app.cli.startup import open_with_log
from app.core import units
from app.core.settings import Settings
from app.core.units import DASH, TERA, format_bytes, format_number
from app.db import devices, machines
from app.db.database import Database
from app.db.machines import MachineDevice
from app.db.tables import BandwidthProbe, Machine
from app.hardware.detect import detect as detect_profile
from app.hardware.profile import Profile
from app.measure import bandwidth_process as measuring

commands = typer.Typer()
machine_group = typer.Typer(name="machine", help="Detect, list and measure hardware.", no_args_is_help=True)
commands.add_typer(machine_group)


@machine_group.command("detect")
def detect_machine(as_json: Json = False) -> None:
    """Detect this machine's CPU, memory and GPUs."""
    database = open_with_log(Settings())
    with database.read() as session:
        catalogue = devices.load_catalogue(session)
    profile = detect_profile(catalogue)
    with database.write() as session:
        slug = machines.fill(session, machines.ensure_local_machine(session).slug, profile).slug
    document = _stored_machine_json(database, slug)
    if as_json:
        unknowns = [asdict(unknown) for unknown in profile.unknowns]
        print_json({"schema": "roofmark.machine/1", "machine": document, "unknowns": unknowns})
    else:
        say("\n".join(_profile_lines(slug, profile)))


@machine_group.command("bandwidth")
def measure_bandwidth(
    slug: Annotated[str | None, typer.Argument(metavar="MACHINE", help="Slug of this machine.")] = None,
    as_json: Json = False,
) -> None:
    """Measure this machine's memory bandwidth; takes about three seconds and all cores."""
    settings = Settings()
    database = open_with_log(settings)
    if slug is None:
        with database.write() as session:
            slug = machines.ensure_local_machine(session).slug
    row = measuring.perform(database, settings, slug, lambda phase: say(phase, err=True))
    if as_json:
        print_json({"schema": "roofmark.bandwidth/1", "machine": slug, **_probe_json(row)})
    else:
        say("\n".join(_probe_lines(slug, row)))


@machine_group.command("peak", hidden=True)  # its name in earlier versions, for scripts
@machine_group.command("set-peak")
def set_peak(
    tflops: Annotated[
        float, typer.Argument(metavar="TFLOPS", help="TFLOP/s of all cores with the fastest usable path.")
    ],
    slug: Annotated[str | None, typer.Option("--machine", help="Slug of a machine; this machine by default.")] = None,
    as_json: Json = False,
) -> None:
    """Set the CPU's peak TFLOP/s (not detectable), which prefill ceilings need."""
    flops_per_s = machines.check_cpu_peak(tflops * TERA)
    database = open_with_log(Settings())
    with database.write() as session:
        slug = slug or machines.ensure_local_machine(session).slug
        machines.edit_machine(session, slug, cpu_flops_per_s=flops_per_s)
    if as_json:
        document = _stored_machine_json(database, slug)
        print_json({"schema": "roofmark.machine/1", "machine": document, "unknowns": []})
    else:
        say(f"{slug}: peak compute of the CPU set to {format_number(tflops)} TFLOP/s.")


@machine_group.command("list")
def list_machines(as_json: Json = False) -> None:
    """List machines with their memory and GPUs."""
    with open_with_log(Settings()).read() as session:
        rows = [(row, machines.devices(session, row)) for row in machines.list_machines(session)]
    if as_json:
        document = [_machine_json(row, row_devices) for row, row_devices in rows]
        print_json({"schema": "roofmark.machines/1", "machines": document})
    elif rows:
        say("\n".join(line for row in rows for line in _machine_lines(*row)))
    else:
        say("No machine yet: `roofmark machine detect` adds this one.")


@machine_group.command("devices")
def list_devices(
    text: Annotated[str, typer.Argument(metavar="NAME", help="Part of a name, such as 'rtx 3090'.")] = "",
    as_json: Json = False,
) -> None:
    """Search the device catalogue."""
    with open_with_log(Settings()).read() as session:
        matches = devices.load_catalogue(session).search(text)
    if as_json:
        print_json({"schema": "roofmark.devices/1", "devices": [asdict(device) for device in matches]})
        return
    for device in matches:
        figures = [
            f"{units.format_bandwidth(device.bandwidth_bytes_per_s):>10}",
            f"{format_bytes(device.memory_bytes):>8}",
            f"{_tera(device.compute_flops_per_s):>5} / {_tera(device.fastest_flops_per_s):>6} TFLOP/s",
        ]
        say("  ".join([f"{device.name:<44}", *figures, device.source]))
    if not matches:
        say(f"There is no device {text!r} in the catalogue.")


# --- text ------------------------------------------------------------------------------------------------------------


def _profile_lines(slug: str, profile: Profile) -> list[str]:
    ram = profile.ram
    rate = f"{ram.data_rate_mt_per_s:,.0f} MT/s" if ram.data_rate_mt_per_s else ""
    width = f"{ram.bus_bits} bit" if ram.bus_bits else ""
    stated = profile.ram_bandwidth_bytes_per_s
    bandwidth_text = f"{units.format_bandwidth(stated)} ({profile.ram_bandwidth_source})" if stated else ""
    cores = f"{profile.physical_cores or DASH} cores, {profile.logical_cores or DASH} threads"
    lines = [
        f"{slug}: {profile.host.os}",
        f"Processor    {profile.host.cpu}, {cores}, last-level cache {format_bytes(profile.llc_bytes)}",
        "Memory       "
        + ", ".join(filter(None, [format_bytes(profile.host.ram_bytes), ram.kind, rate, width, bandwidth_text])),
    ]
    for accelerator in profile.accelerators:
        figures = [f"{accelerator.count} x {accelerator.name}", format_bytes(accelerator.memory_bytes)]
        if accelerator.bandwidth_bytes_per_s:
            figures.append(f"{units.format_bandwidth(accelerator.bandwidth_bytes_per_s)} ({accelerator.source})")
        if accelerator.compute_flops_per_s:
            figures.append(f"{_tera(accelerator.compute_flops_per_s)} TFLOP/s FP16")
        lines.append("Accelerator  " + ", ".join(figures))
    lines += [f"Unknown      {unknown.what}: {unknown.reason}." for unknown in profile.unknowns]
    return lines


def _probe_lines(slug: str, row: BandwidthProbe) -> list[str]:
    assert row.best_bytes_per_s is not None
    assert row.median_bytes_per_s is not None
    record = row.record
    return [
        f"{slug}: memory bandwidth at least {units.format_bandwidth(row.best_bytes_per_s)}.",
        f"Best of {record['samples']} samples, median {units.format_bandwidth(row.median_bytes_per_s)}, "
        f"threads {row.threads}, buffer {format_bytes(record['buffer_bytes'])}. This is a lower bound.",
        *record["remarks"],
    ]


def _machine_lines(machine: Machine, machine_devices: Sequence[MachineDevice]) -> list[str]:
    description = ", ".join(filter(None, [machine.cpu, machine.os]))
    lines = [f"{machine.slug}: {description}" if description else machine.slug]
    for device in machine_devices:
        figures = [format_bytes(device.memory_bytes)]
        figures += [f"{units.format_bandwidth(stated.bytes_per_s)} {stated.source}" for stated in device.bandwidths]
        figures += [f"{_tera(device.peak_flops)} TFLOP/s"] if device.peak_flops else []
        name = f"{device.count} x {device.name}" if device.kind == "accelerator" else device.name
        lines.append(f"  {name}: {', '.join(figures)}")
    return lines


def _tera(value: float | None) -> str:
    return format_number(value / TERA) if value else DASH


# --- JSON ------------------------------------------------------------------------------------------------------------


def _stored_machine_json(database: Database, slug: str) -> dict[str, Any]:
    with database.read() as session:
        row = machines.machine(session, slug)
        return _machine_json(row, machines.devices(session, row))


def _machine_json(machine: Machine, machine_devices: Sequence[MachineDevice]) -> dict[str, Any]:
    return {
        "slug": machine.slug,
        "name": machine.name,
        "kind": machine.kind,
        "os": machine.os,
        "cpu": machine.cpu,
        "physical_cores": machine.physical_cores,
        "llc_bytes": machine.llc_bytes,
        "cpu_flops_per_s": machine.cpu_flops_per_s,
        "ram_bytes": machine.ram_bytes,
        "ram_kind": machine.ram_kind,
        "ram_data_rate_mt_per_s": machine.ram_data_rate_mt_per_s,
        "ram_bus_bits": machine.ram_bus_bits,
        "devices": [_device_json(device) for device in machine_devices],
    }


def _device_json(device: MachineDevice) -> dict[str, Any]:
    bandwidths = [asdict(stated) | {"at": stated.at.isoformat() if stated.at else None} for stated in device.bandwidths]
    return asdict(device) | {"bandwidth_bytes_per_s": device.bandwidth_bytes_per_s, "bandwidths": bandwidths}


def _probe_json(row: BandwidthProbe) -> dict[str, Any]:
    return {
        "best_bytes_per_s": row.best_bytes_per_s,
        "median_bytes_per_s": row.median_bytes_per_s,
        "threads": row.threads,
        "is_lower_bound": True,
        **row.record,
        "measured_at": row.finished_at.isoformat() if row.finished_at else None,
    }
