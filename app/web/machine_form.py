"""The form of a machine: from stored or detected columns to texts, and back.

Hidden fields keep the source of figures that detection or the catalogue filled in; a changed figure counts as typed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from app.core.errors import BadInput
from app.core.i18n import _, restored_text, stored_text
from app.core.units import GIGA, TERA
from app.db.machines import check_cpu_peak
from app.db.tables import Machine
from app.hardware import memory
from app.hardware.catalogue import Catalogue
from app.hardware.host import this_host
from app.hardware.profile import CATALOGUE, SENSOR, TYPED, Accelerator
from app.web.forms import Fields, format_input, format_short, parse_int, parse_quantity, parse_rounded

MEGA = 1e6
PREFIX = "accelerator_"
FIGURE_FIELDS = ("bandwidth", "memory", "compute", "fastest")
MAX_ACCELERATORS = 1024
MAX_NOTE_CHARS = 1000
FILLING_SOURCES = (SENSOR, CATALOGUE)
"""Sources that fill in a form; measured figures are not part of it."""


@dataclass(frozen=True)
class AcceleratorRow:
    """One accelerator as texts of the form's fields `accelerator_name` and so on."""

    name: str = ""
    count: str = ""
    memory: str = ""
    bandwidth: str = ""
    compute: str = ""
    fastest: str = ""
    memory_exact: str = ""
    """The exact bytes of the rounded `memory`."""
    cache: str = ""
    """Bytes, from the catalogue; a hidden field."""
    source: str = ""
    note: str = ""
    """As `stored_text` gave it."""
    sourced: str = ""
    """The figures filled in for the name `named`, in the order of FIGURES, divided by semicolons."""
    named: str = ""

    @property
    def is_empty(self) -> bool:
        return not any((self.name, self.memory, self.bandwidth, self.compute, self.fastest))

    @property
    def typed(self) -> dict[str, str]:
        """The figures that a person typed: those that differ from what was filled in."""
        sourced_figures = dict(zip(FIGURE_FIELDS, self.sourced.split(";"), strict=False))
        return {key: value for key in FIGURE_FIELDS if (value := getattr(self, key)) != sourced_figures.get(key, "")}

    @property
    def is_sourced(self) -> bool:
        """Whether the bandwidth is still that of `source`."""
        return self.source in FILLING_SOURCES and "bandwidth" not in self.typed

    @property
    def note_words(self) -> str:
        return restored_text(self.note[:MAX_NOTE_CHARS])


# --- into the form ---------------------------------------------------------------------------------------------------


def initial_form(machine: Machine, is_here: bool) -> Fields:
    bandwidth = format_input(machine.ram_bandwidth_bytes_per_s, GIGA)
    rate = machine.ram_data_rate_mt_per_s
    items = [
        ("name", machine.name),
        ("kind", machine.kind),
        ("here", "yes" if is_here else ""),
        ("os", machine.os),
        ("cpu", machine.cpu),
        ("cores", str(machine.physical_cores or "")),
        ("cpu_peak", format_input(machine.cpu_flops_per_s, TERA)),
        ("llc", format_short(machine.llc_bytes, MEGA)),
        ("llc_exact", str(machine.llc_bytes or "")),
        ("ram", format_short(machine.ram_bytes)),
        ("ram_exact", str(machine.ram_bytes or "")),
        ("ram_speed", "-".join(filter(None, [machine.ram_kind, f"{rate:g}" if rate else ""]))),
        ("ram_bus_bits", str(machine.ram_bus_bits or "")),
        ("ram_bandwidth", "" if bandwidth == _arithmetic(rate, machine.ram_bus_bits) else bandwidth),
        ("ram_bandwidth_source", machine.ram_bandwidth_source or ""),
        ("ram_bandwidth_sourced", bandwidth),
        ("notes", machine.notes),
    ]
    names = {field.name for field in fields(Accelerator)}
    cards = [
        Accelerator(**{key: value for key, value in card.items() if key in names}) for card in machine.accelerators
    ]
    return Fields(items + _items(_row(card) for card in cards))


def _row(card: Accelerator) -> AcceleratorRow:
    row = AcceleratorRow(
        name=card.name,
        count=str(card.count),
        memory=format_short(card.memory_bytes),
        memory_exact=str(card.memory_bytes or ""),
        bandwidth=format_input(card.bandwidth_bytes_per_s, GIGA),
        compute=format_input(card.compute_flops_per_s, TERA),
        fastest=format_input(card.fastest_flops_per_s, TERA),
        cache=str(card.llc_bytes or ""),
        source=card.source,
        note=stored_text(card.note),
        named=card.name,
    )
    return replace(row, sourced=";".join(getattr(row, key) for key in FIGURE_FIELDS))


def accelerator_rows(form: Fields) -> list[AcceleratorRow]:
    """The rows of the form, without empty ones and the one whose Remove button was pressed."""
    names = [field.name for field in fields(AcceleratorRow)]
    indices = [n for n in range(len(form.all(f"{PREFIX}name"))) if form.get("remove") != str(n + 1)]
    rows = [AcceleratorRow(**{name: form.nth(f"{PREFIX}{name}", n) for name in names}) for n in indices]
    return [row for row in rows if not row.is_empty]


def completed_rows(form: Fields, catalogue: Catalogue) -> list[AcceleratorRow]:
    """The rows of the form, with the catalogue's figures for changed names where no figure was typed."""
    return [_completed(row, catalogue) for row in accelerator_rows(form)]


def _items(rows: Iterable[AcceleratorRow]) -> list[tuple[str, str]]:
    return [(f"{PREFIX}{key}", value) for row in rows for key, value in asdict(row).items()]


def _completed(row: AcceleratorRow, catalogue: Catalogue) -> AcceleratorRow:
    """Typed figures take precedence over sensors, and those over the catalogue."""
    if row.name == row.named or row.source == SENSOR:
        return row
    device = catalogue.find(row.name, _memory(row)).device or catalogue.find(row.name).device
    if device is not None:
        typed_figures = {key: value for key, value in row.typed.items() if value}
        return replace(_row(device.accelerator()), name=row.name, named=row.name, count=row.count, **typed_figures)
    if row.named:  # the figures are of the device named before
        return replace(row, source="", note="", sourced="", named="")
    return row


def _memory(row: AcceleratorRow) -> int | None:
    """The typed memory in bytes, which distinguishes variants of a device; None where it was filled in."""
    try:
        value = parse_quantity(row.typed.get("memory", ""), _("Memory"))
    except BadInput:  # parsing the row reports it
        return None
    return int(value) if value else None


def candidates(row: AcceleratorRow, catalogue: Catalogue) -> Sequence[str]:
    """Names of devices that match a row without a bandwidth; empty where the match is unique."""
    return [] if row.bandwidth else [device.name for device in catalogue.find(row.name, _memory(row)).candidates]


# --- out of the form -------------------------------------------------------------------------------------------------


def parse_form(form: Fields, catalogue: Catalogue) -> dict[str, Any]:
    """Columns of a machine. Raises BadInput."""
    cores = form.integer("cores", _("The number of cores"))
    if cores is not None and not 1 <= cores <= 100_000:
        raise BadInput(_("The number of cores must be between 1 and 100,000."))
    return {
        "name": form.required("name", _("The name"), 120),
        "kind": form.text("kind", _("The kind"), 40),
        "os": form.text("os", _("The operating system"), 120),
        "cpu": form.text("cpu", _("The processor"), 120),
        "notes": form.text("notes", _("The notes"), 10_000),
        "hostname": this_host().name if form.get("here") else None,
        "physical_cores": cores,
        "cpu_flops_per_s": check_cpu_peak(
            parse_quantity(form.get("cpu_peak"), _("The processor's peak compute"), TERA)
        ),
        "llc_bytes": parse_rounded(form.get("llc"), _("The last-level cache"), form.get("llc_exact"), MEGA),
        "ram_bytes": parse_rounded(form.get("ram"), _("Memory"), form.get("ram_exact")),
        **_ram(form),
        "accelerators": [_accelerator(row) for row in completed_rows(form, catalogue)],
    }


def _ram(form: Fields) -> dict[str, Any]:
    """Columns of the memory's speed, width and bandwidth; the bandwidth is typed, filled in, or speed times width."""
    kind, rate = memory.parse_speed(form.text("ram_speed", _("The memory speed"), 40))
    bits = form.integer("ram_bus_bits", _("The width of the memory bus"))
    if bits is not None:
        memory.check_bus_bits(bits)
    text = form.get("ram_bandwidth").strip() or _arithmetic(rate, bits)
    bandwidth = parse_quantity(text, _("Memory bandwidth"))
    source = form.get("ram_bandwidth_source")
    is_sourced = source in FILLING_SOURCES and text == form.get("ram_bandwidth_sourced")
    return {
        "ram_kind": kind or None,
        "ram_data_rate_mt_per_s": rate,
        "ram_bus_bits": bits,
        "ram_bandwidth_bytes_per_s": bandwidth,
        "ram_bandwidth_source": (source if is_sourced else TYPED) if bandwidth is not None else None,
    }


def _arithmetic(rate: float | None, bits: int | None) -> str:
    """Speed times width as text in GB/s; empty where one is unknown."""
    return format_input(memory.bandwidth_bytes_per_s(rate, bits), GIGA) if rate and bits else ""


def _accelerator(row: AcceleratorRow) -> dict[str, Any]:
    if not row.name:
        raise BadInput(_("An accelerator needs a name."))
    count = parse_int(row.count, _("How many of {name}", name=row.name))
    if count is not None and not 1 <= count <= MAX_ACCELERATORS:
        raise BadInput(
            _("How many of {name} must be between 1 and {most_cards:,}.", name=row.name, most_cards=MAX_ACCELERATORS)
        )
    bandwidth = parse_quantity(row.bandwidth, _("Bandwidth of {name}", name=row.name))
    return asdict(
        Accelerator(
            name=row.name[:120],
            count=count or 1,
            memory_bytes=parse_rounded(row.memory, _("Memory of {name}", name=row.name), row.memory_exact),
            bandwidth_bytes_per_s=bandwidth,
            compute_flops_per_s=parse_quantity(row.compute, _("Compute of {name}", name=row.name), TERA),
            fastest_flops_per_s=parse_quantity(row.fastest, _("Fastest compute of {name}", name=row.name), TERA),
            llc_bytes=parse_rounded(row.cache, _("Cache of {name}", name=row.name), row.cache, factor=1),
            source=row.source if row.is_sourced else TYPED,
            note=row.note_words if row.is_sourced else "",
        )
    )
