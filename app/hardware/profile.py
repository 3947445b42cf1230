"""The result of detection as data, in bytes and seconds. None means unknown, and an `UnknownItem` gives the reason."""

from dataclasses import dataclass, field

from app.core.i18n import N_
from app.hardware.host import Host
from app.hardware.memory import bandwidth_bytes_per_s

MEASURED, SENSOR, CATALOGUE, TYPED = N_("measured"), N_("sensor"), N_("catalogue"), N_("typed")
"""Where a bandwidth comes from, the best first."""


@dataclass(frozen=True)
class Accelerator:
    """`count` equal GPUs; the other figures are those of one."""

    name: str
    count: int = 1
    memory_bytes: int | None = None
    """None for memory that is shared with the processor."""
    bandwidth_bytes_per_s: float | None = None
    compute_flops_per_s: float | None = None
    """Dense FP16 with FP32 accumulate."""
    fastest_flops_per_s: float | None = None
    """The fastest usable path: FP16 accumulate or int8."""
    llc_bytes: int | None = None
    source: str = ""
    """Where the bandwidth comes from: sensor, catalogue or typed."""
    note: str = ""
    """Who states the figure."""


@dataclass(frozen=True)
class Ram:
    """The memory modules as the board reports them."""

    kind: str = ""
    data_rate_mt_per_s: float | None = None
    bus_bits: int | None = None

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """The theoretical bandwidth of the modules; None where speed or width is unknown."""
        if self.data_rate_mt_per_s is None or self.bus_bits is None:
            return None
        return bandwidth_bytes_per_s(self.data_rate_mt_per_s, self.bus_bits)


@dataclass(frozen=True)
class UnknownItem:
    """What could not be detected, and the reason."""

    what: str
    reason: str


@dataclass(frozen=True)
class Profile:
    """The hardware of this machine."""

    host: Host
    physical_cores: int | None = None
    logical_cores: int | None = None
    llc_bytes: int | None = None
    ram: Ram = field(default_factory=Ram)
    ram_bandwidth_bytes_per_s: float | None = None
    ram_bandwidth_source: str | None = None
    accelerators: tuple[Accelerator, ...] = ()
    unknowns: tuple[UnknownItem, ...] = ()
