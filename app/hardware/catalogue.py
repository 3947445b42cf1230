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

# words that tell no two devices apart; the RTX of the TITAN RTX does
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
_SIZE = re.compile(r"\b(\d+)\s*(?:gb|gib)\b")
_MEMORY_TOLERANCE = 0.12  # what a driver keeps for itself, and GB against GiB


@dataclass(frozen=True)
class Device:
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
    """What the processor's cores reach where that is less than the whole."""
    llc_bytes: int | None = None
    year: int | None = None
    aliases: tuple[str, ...] = ()
    is_own: bool = False
    """Added or corrected by a person."""

    @property
    def peak_flops(self) -> float | None:
        """Of the fastest usable path, else with FP32 accumulate."""
        return self.fastest_flops_per_s or self.compute_flops_per_s

    @property
    def source_words(self) -> str:
        """In the reader's language; what a person wrote stays as it is."""
        return self.source if self.is_own else _(self.source)

    def accelerator(self, count: int = 1) -> Accelerator:
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
class Match:
    device: Device | None
    candidates: Sequence[Device] = ()
    """Several that the name fits, when it is not one."""


class Catalogue:
    def __init__(self, devices: Iterable[Device]) -> None:
        self.devices: Sequence[Device] = tuple(devices)

    @cached_property
    def _words(self) -> list[tuple[Device, Counter[str]]]:
        return [(device, Counter(_words(name))) for device in self.devices for name in (device.name, *device.aliases)]

    def with_own(self, own: Iterable[Device]) -> "Catalogue":
        """A person's device stands before everything else, and in the place of one of its name."""
        first = [replace(device, is_own=True) for device in own]
        names = {device.name.casefold() for device in first}
        return Catalogue([*first, *(device for device in self.devices if device.name.casefold() not in names)])

    def find(self, name: str, memory_bytes: int | None = None) -> Match:
        """The device that `name` means. Its memory tells variants apart; a processor's name may be followed by that of
        its graphics, and a card's by that of its chip."""
        match = Match(None)
        for spelling in _spellings(name):
            match = self._find(spelling, memory_bytes)
            if match.device or match.candidates:
                return match
        return match

    def _find(self, name: str, memory_bytes: int | None) -> Match:
        words = Counter(_words(name))
        if not words:
            return Match(None)
        wider = [(device, own) for device, own in self._words if own >= words and _is_same_brand(name, device)]
        exact = _unique(device for device, own in wider if own == words)
        if not exact:
            return Match(None, _unique(device for device, _words in wider))
        if not memory_bytes:
            spelled = [device for device in exact if _full_name(name) in _full_names(device)]
            if len(spelled) == 1:  # GH200 480GB: the size in a name is not always that of the card's own memory
                return Match(spelled[0])
        size = memory_bytes or _named_memory(name)
        fitting = [device for device in exact if _has_memory(device, size)] if size else exact
        if len(fitting) == 1:
            return Match(fitting[0])
        return Match(None, fitting or exact)

    def similar(self, name: str) -> list[Device]:
        """Up to three devices whose names look like `name`, the likeliest first."""
        names = {" ".join(_words(known)): device for device in self.devices for known in (device.name, *device.aliases)}
        close = difflib.get_close_matches(" ".join(_words(name)), names, n=3)
        return _unique(names[each] for each in close)

    def search(self, text: str) -> Sequence[Device]:
        """Devices in whose vendor and names each word of `text` begins a word, for a list that a person reads."""
        starts = [re.compile(rf"(?<![a-z0-9]){re.escape(word)}") for word in text.casefold().split()]
        return [device for device in self.devices if all(start.search(_all_names(device)) for start in starts)]


@cache
def built_in() -> Catalogue:
    with BUILT_IN.open(encoding="utf-8", newline="") as file:
        return Catalogue(_device(row) for row in csv.DictReader(file))


def _device(row: Mapping[str, str]) -> Device:
    return Device(
        name=row["name"],
        vendor=row["vendor"],
        kind=row["kind"],
        bandwidth_bytes_per_s=float(row["bandwidth_gb_s"]) * 1e9,
        source=row["source"],
        memory_bytes=_whole(row["memory_gib"], GIB),
        compute_flops_per_s=_scaled(row["fp16_tflops"], 1e12),
        fastest_flops_per_s=_scaled(row["fastest_tflops"], 1e12),
        compute_source=row["compute_source"],
        memory_kind=row["memory_kind"],
        bus_bits=_whole(row["bus_bits"]),
        data_rate_mt_per_s=_scaled(row["data_rate_mt_s"]),
        cpu_bandwidth_bytes_per_s=_scaled(row["cpu_bandwidth_gb_s"], 1e9),
        llc_bytes=_whole(row["llc_mib"], 1 << 20),
        year=_whole(row["year"]),
        aliases=tuple(alias for part in row["aliases"].split(";") if (alias := part.strip())),
    )


def _scaled(text: str, factor: float = 1.0) -> float | None:
    return float(text) * factor if text else None


def _whole(text: str, factor: int = 1) -> int | None:
    return round(float(text) * factor) if text else None


def _words(name: str) -> list[str]:
    """
    >>> _words("NVIDIA GeForce RTX3090 24GB"), _words("Intel(R) Arc(TM) A770 Graphics")
    (['3090'], ['a', '770'])
    """
    text = re.sub(r"\((?:r|tm|c)\)|[®™]|\bw/", " ", name.casefold())
    return re.findall(r"[a-z]+|\d+", _NOISE.sub(" ", _SIZE.sub(" ", text)))


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


def _is_same_brand(name: str, device: Device) -> bool:
    """False where the name states another vendor, or GTX where the device is an RTX."""
    text = name.casefold()
    vendors = {vendor for vendor, pattern in _VENDORS if pattern.search(text)}
    if vendors and device.vendor and device.vendor not in ("generic", *vendors):
        return False
    series, of_device = set(_SERIES.findall(text)), set(_SERIES.findall(device.name.casefold()))
    return not series or not of_device or bool(series & of_device)


def _full_name(name: str) -> frozenset[str]:
    """Its words and sizes."""
    return frozenset((*_words(name), *(f"{size} GB" for size in _SIZE.findall(name.casefold()))))


def _full_names(device: Device) -> list[frozenset[str]]:
    return [_full_name(name) for name in (device.name, *device.aliases)]


def is_same_name(one: str, other: str) -> bool:
    """
    >>> is_same_name("RTX 3090", "NVIDIA GeForce RTX 3090"), is_same_name("RTX 4090", "RTX 4090 Laptop GPU")
    (True, False)
    """
    sizes = {_named_memory(one), _named_memory(other)} - {None}
    words = frozenset(_words(one)), frozenset(_words(other))
    return one.casefold() == other.casefold() or (bool(words[0]) and words[0] == words[1] and len(sizes) < 2)


def _all_names(device: Device) -> str:
    return " ".join((device.vendor, device.name, *device.aliases)).casefold()


def _named_memory(name: str) -> int | None:
    found = _SIZE.search(name.casefold())
    return int(found[1]) * GIB if found else None


def _has_memory(device: Device, memory_bytes: int) -> bool:
    if device.memory_bytes is None or device.kind != "gpu":
        return True
    return abs(memory_bytes / device.memory_bytes - 1) <= _MEMORY_TOLERANCE


def _unique(devices: Iterable[Device]) -> list[Device]:
    return list(dict.fromkeys(devices))
