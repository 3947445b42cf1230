"""Facts about this machine that need no rights, no other programs and no time."""

import ipaddress
import os
import platform
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Host:
    """The name of this machine, its system, processor and memory."""

    name: str
    os: str
    cpu: str
    ram_bytes: int


def this_host() -> Host:
    """The name, system, processor and memory of this machine."""
    return Host(
        name=socket.gethostname().split(".")[0] or "this machine",
        os=_os_name(),
        cpu=_cpu_name(),
        ram_bytes=psutil.virtual_memory().total,
    )


def names_this_host(host: str) -> bool:
    """Whether a name or an address, as in a URL, is one of this machine's own. Makes no network request."""
    full_name = socket.gethostname().lower()
    name = full_name.split(".")[0]
    if host.lower() in (full_name, name, f"{name}.local"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name of something else
        return False
    own_addresses = (
        interface_address.address.partition("%")[0]  # without the zone of an IPv6 address
        for interface in psutil.net_if_addrs().values()
        for interface_address in interface
    )
    return address.is_loopback or str(address) in own_addresses


def physical_cores() -> int:
    """The processor's cores; its hardware threads where the system does not report cores."""
    return psutil.cpu_count(logical=False) or logical_cores()


def logical_cores() -> int:
    """The number of hardware threads that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def available_ram_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns the memory that may still be used, in bytes: what the system has available, within a container's
    limit."""
    available = psutil.virtual_memory().available
    files = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
    for limit_file, used_file in files:
        try:
            limit, used = (int((cgroup / name).read_text()) for name in (limit_file, used_file))
        except (OSError, ValueError):  # no such group, or "max"
            continue
        available = min(available, max(0, limit - used))
    return available


def _os_name() -> str:
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # no os-release: not Linux
        return f"{platform.system()} {platform.release()}"


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith(("model name", "hardware")):
                return line.partition(":")[2].strip()
    except OSError:  # another system than Linux
        pass
    return platform.processor() or platform.machine()
