"""What devices are known to do: `devices.csv`, one line a device with its source, and a person's own devices.

Names are compared by their words: `RTX 3090`, `GeForce RTX 3090` and `NVIDIA GeForce RTX 3090` are one device, while
`RTX 4090 Laptop GPU` is not the RTX 4090 and `L40` is not the L40S. A name that fits several devices selects none: they
are candidates.
"""

import csv
import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from app.core.i18n import _
from app.hardware.profile import CATALOGUE, Accelerator

GIB = 1 << 30
BUILT_IN = Path(__file__).with_name("devices.csv")

# words that distinguish no devices; the RTX of the TITAN RTX does
_NOISE = re.compile(
    r"\b(?:nvidia|geforce|tesla|gtx|(?<!titan )rtx|amd|ati|radeon|rx|instinct|intel|arc|apple|graphics|gpu|core"
    r"|generation|radv)(?![a-z])"
)
# brands that share model numbers: an RX 580 is no GTX 580
_VENDORS = (
    ("nvidia", re.compile(r"\b(?:nvidia|geforce|quadro|tesla|gtx|rtx)(?![a-z])")),
    ("amd", re.compile(r"\b(?:amd|ati|radeon|rx|instinct)(?![a-z])")),
    ("intel", re.compile(r"\b(?:intel|arc)(?![a-z])")),
    ("apple", re.compile(r"\bapple(?![a-z])")),
)
_SERIES = re.compile(r"\b[gr]tx(?![a-z])")
# the chip, which Mesa and other drivers put behind the name of the card
_DRIVER_SUFFIX = re.compile(
    r"\s*\((?:radv|nvk|anv|amd open-source driver|llpc|nvgpu|dg2|bmg|lnl|mtl|arl|ptl|adl|rpl|tgl)\b[^)]*\)$", re.I
)
_MEMORY_SIZE = re.compile(r"\b(\d+)\s*(?:gb|gib)\b")
_MEMORY_TOLERANCE = 0.12  # what a driver reserves, and GB against GiB


@dataclass(frozen=True)
class CatalogueDevice:
    """One line of the catalogue."""

    name: str
    vendor: str
    kind: str
    """gpu; apu: shares the memory of its processor; ram: memory modules."""
    bandwidth_bytes_per_s: float
    source: str
    memory_bytes: int | None = None
    """The largest it is sold with."""
    compute_flops_per_s: float | None = None
    """Dense FP16 with FP32 accumulate."""
    fastest_flops_per_s: float | None = None
    compute_source: str = ""
    memory_kind: str = ""
    bus_bits: int | None = None
    data_rate_mt_per_s: float | None = None
    cpu_bandwidth_bytes_per_s: float | None = None
    """What the processor's cores reach, where that is less than the whole chip."""
    llc_bytes: int | None = None
    year: int | None = None
    aliases: tuple[str, ...] = ()
    is_own: bool = False
    """Added or corrected by a person."""

    @property
    def peak_flops(self) -> float | None:
        """The peak FLOP/s of the fastest usable path, else that with FP32 accumulate."""
        return self.fastest_flops_per_s or self.compute_flops_per_s

    @property
    def source_words(self) -> str:
        """The source in the reader's language; a person's own words stay as they are."""
        return self.source if self.is_own else _(self.source)

    def accelerator(self, count: int = 1) -> Accelerator:
        """Returns `count` of this device in the form in which a machine lists its accelerators."""
        return Accelerator(
            name=self.name,
            count=count,
            memory_bytes=self.memory_bytes if self.kind == "gpu" else None,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            compute_flops_per_s=self.compute_flops_per_s,
            fastest_flops_per_s=self.fastest_flops_per_s,
            llc_bytes=self.llc_bytes,
            source=CATALOGUE,
            note=self.source_words,
        )


@dataclass(frozen=True)
class DeviceMatch:
    """The result of looking up a name."""

    device: CatalogueDevice | None
    candidates: Sequence[CatalogueDevice] = ()
    """The devices that the name fits, when there are several."""


class Catalogue:
    """Devices by their names."""

    def __init__(self, devices: Iterable[CatalogueDevice]) -> None:
        self.devices: Sequence[CatalogueDevice] = tuple(devices)

    @cached_property
    def _words(self) -> list[tuple[CatalogueDevice, Counter[str]]]:
        return [(device, Counter(_words(name))) for device in self.devices for name in (device.name, *device.aliases)]

    def with_own(self, devices: Iterable[CatalogueDevice]) -> "Catalogue":
        """The catalogue with a person's own devices first; one replaces a listed device of its name."""
        first = [replace(device, is_own=True) for device in devices]
        names = {device.name.casefold() for device in first}
        return Catalogue([*first, *(device for device in self.devices if device.name.casefold() not in names)])

    def find(self, name: str, memory_bytes: int | None = None) -> DeviceMatch:
        """Finds the device that `name` means. The memory size distinguishes variants. The name of a processor may be
        followed by that of its graphics, and the name of a card by that of its chip."""
        match = DeviceMatch(None)
        for spelling in _spellings(name):
            match = self._find(spelling, memory_bytes)
            if match.device or match.candidates:
                return match
        return match

    def _find(self, name: str, memory_bytes: int | None) -> DeviceMatch:
        words = Counter(_words(name))
        if not words:
            return DeviceMatch(None)
        wider = [(device, full) for device, full in self._words if full >= words and _is_same_brand(name, device)]
        exact = _unique(device for device, full in wider if full == words)
        if not exact:
            return DeviceMatch(None, _unique(device for device, _words in wider))
        if not memory_bytes:
            spelled = [device for device in exact if _full_name(name) in _full_names(device)]
            if len(spelled) == 1:  # GH200 480GB: the size in a name is not always that of the card's own memory
                return DeviceMatch(spelled[0])
        size = memory_bytes or _named_memory(name)
        fitting = [device for device in exact if _has_memory(device, size)] if size else exact
        if len(fitting) == 1:
            return DeviceMatch(fitting[0])
        return DeviceMatch(None, fitting or exact)

    def similar(self, name: str) -> list[CatalogueDevice]:
        """Up to three devices whose names look like `name`, the likeliest first."""
        names = {" ".join(_words(name)): device for device in self.devices for name in (device.name, *device.aliases)}
        close = difflib.get_close_matches(" ".join(_words(name)), names, n=3)
        return _unique(names[similar_name] for similar_name in close)

    def search(self, text: str) -> Sequence[CatalogueDevice]:
        """Devices in whose vendor and names each word of `text` begins a word, for a list that a person reads."""
        starts = [re.compile(rf"(?<![a-z0-9]){re.escape(word)}") for word in text.casefold().split()]
        return [device for device in self.devices if all(start.search(_all_names(device)) for start in starts)]


@cache
def built_in() -> Catalogue:
    """The catalogue of `devices.csv`, without a person's own devices."""
    with BUILT_IN.open(encoding="utf-8", newline="") as file:
        return Catalogue(_parse_device(row) for row in csv.DictReader(file))


def _parse_device(row: Mapping[str, str]) -> CatalogueDevice:
    return CatalogueDevice(
        name=row["name"],
        vendor=row["vendor"],
        kind=row["kind"],
        bandwidth_bytes_per_s=float(row["bandwidth_gb_s"]) * 1e9,
        source=row["source"],
        memory_bytes=_parse_int(row["memory_gib"], GIB),
        compute_flops_per_s=_parse_float(row["fp16_tflops"], 1e12),
        fastest_flops_per_s=_parse_float(row["fastest_tflops"], 1e12),
        compute_source=row["compute_source"],
        memory_kind=row["memory_kind"],
        bus_bits=_parse_int(row["bus_bits"]),
        data_rate_mt_per_s=_parse_float(row["data_rate_mt_s"]),
        cpu_bandwidth_bytes_per_s=_parse_float(row["cpu_bandwidth_gb_s"], 1e9),
        llc_bytes=_parse_int(row["llc_mib"], 1 << 20),
        year=_parse_int(row["year"]),
        aliases=tuple(alias for part in row["aliases"].split(";") if (alias := part.strip())),
    )


def _parse_float(text: str, factor: float = 1.0) -> float | None:
    return float(text) * factor if text else None


def _parse_int(text: str, factor: int = 1) -> int | None:
    return round(float(text) * factor) if text else None


def _words(name: str) -> list[str]:
    """
    >>> _words("NVIDIA GeForce RTX3090 24GB"), _words("Intel(R) Arc(TM) A770 Graphics")
    (['3090'], ['a', '770'])
    """
    text = re.sub(r"\((?:r|tm|c)\)|[®™]|\bw/", " ", name.casefold())
    return re.findall(r"[a-z]+|\d+", _NOISE.sub(" ", _MEMORY_SIZE.sub(" ", text)))


def _spellings(name: str) -> list[str]:
    """
    >>> _spellings("AMD Ryzen AI 9 HX 370 w/ Radeon 890M")
    ['AMD Ryzen AI 9 HX 370 w/ Radeon 890M', 'AMD Ryzen AI 9 HX 370', 'Radeon 890M']
    >>> _spellings("AMD Radeon RX 7900 XTX (RADV NAVI31)")
    ['AMD Radeon RX 7900 XTX (RADV NAVI31)', 'AMD Radeon RX 7900 XTX']
    """
    parts = re.split(r"\s+w/\s*", name, maxsplit=1)
    shorter = [*parts, _DRIVER_SUFFIX.sub("", name)]
    return list(dict.fromkeys(spelling.strip() for spelling in (name, *shorter) if spelling.strip()))


def _is_same_brand(name: str, device: CatalogueDevice) -> bool:
    """Returns False when the name states another vendor, or GTX where the device is an RTX."""
    text = name.casefold()
    vendors = {vendor for vendor, pattern in _VENDORS if pattern.search(text)}
    if vendors and device.vendor and device.vendor not in ("generic", *vendors):
        return False
    series, of_device = set(_SERIES.findall(text)), set(_SERIES.findall(device.name.casefold()))
    return not series or not of_device or bool(series & of_device)


def _full_name(name: str) -> frozenset[str]:
    """Returns the words and sizes of a name."""
    return frozenset((*_words(name), *(f"{size} GB" for size in _MEMORY_SIZE.findall(name.casefold()))))


def _full_names(device: CatalogueDevice) -> list[frozenset[str]]:
    return [_full_name(name) for name in (device.name, *device.aliases)]


def is_same_name(first: str, second: str) -> bool:
    """Whether two names mean the same device.

    >>> is_same_name("RTX 3090", "NVIDIA GeForce RTX 3090"), is_same_name("RTX 4090", "RTX 4090 Laptop GPU")
    (True, False)
    """
    sizes = {_named_memory(first), _named_memory(second)} - {None}
    words = frozenset(_words(first)), frozenset(_words(second))
    return first.casefold() == second.casefold() or (bool(words[0]) and words[0] == words[1] and len(sizes) < 2)


def _all_names(device: CatalogueDevice) -> str:
    return " ".join((device.vendor, device.name, *device.aliases)).casefold()


def _named_memory(name: str) -> int | None:
    match = _MEMORY_SIZE.search(name.casefold())
    return int(match[1]) * GIB if match else None


def _has_memory(device: CatalogueDevice, memory_bytes: int) -> bool:
    if device.memory_bytes is None or device.kind != "gpu":
        return True
    return abs(memory_bytes / device.memory_bytes - 1) <= _MEMORY_TOLERANCE


def _unique(devices: Iterable[CatalogueDevice]) -> list[CatalogueDevice]:
    return list(dict.fromkeys(devices))
