"""The form of a machine: what is stored or detected as typed texts, and typed texts as columns.

A figure that detection or the catalogue filled in keeps its source through the form, beside its text in a hidden field:
whoever types another figure has typed it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from app.core.errors import BadInput
from app.core.i18n import _, restored_text, stored_text
from app.core.units import GIGA, TERA
from app.db.machines import check_cpu_peak
from app.db.tables import Machine
from app.hardware import memory, this_host
from app.hardware.catalogue import Catalogue
from app.hardware.profile import CATALOGUE, SENSOR, TYPED, Accelerator
from app.web.forms import Fields, format_input, format_short, parse_int, parse_rounded, quantity

MEGA = 1e6
PREFIX = "accelerator_"
FIGURES = ("bandwidth", "memory", "compute", "fastest")
MOST_CARDS = 1024
MAX_NOTE_CHARS = 1000
FILLING = (SENSOR, CATALOGUE)
"""Sources that fill in a form; a measurement is never one of its fields."""


@dataclass(frozen=True)
class Row:
    """One accelerator as texts; each is a field of the form, `accelerator_name` and so on."""

    name: str = ""
    count: str = ""
    memory: str = ""
    bandwidth: str = ""
    compute: str = ""
    fastest: str = ""
    memory_exact: str = ""
    """The bytes that `memory` is short for."""
    cache: str = ""
    """In bytes: nobody types it."""
    source: str = ""
    note: str = ""
    """As `stored_text` gave it."""
    sourced: str = ""
    """The figures that came with the name `named`, in the order of FIGURES, divided by semicolons."""
    named: str = ""

    @property
    def is_empty(self) -> bool:
        return not any((self.name, self.memory, self.bandwidth, self.compute, self.fastest))

    @property
    def typed(self) -> dict[str, str]:
        """The figures that a person typed: all but those that were filled in and not changed since."""
        given = dict(zip(FIGURES, self.sourced.split(";"), strict=False))
        return {key: value for key in FIGURES if (value := getattr(self, key)) != given.get(key, "")}

    @property
    def is_sourced(self) -> bool:
        """Whether the bandwidth is what `source` gave."""
        return self.source in FILLING and "bandwidth" not in self.typed

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


def _row(card: Accelerator) -> Row:
    row = Row(
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
    return replace(row, sourced=";".join(getattr(row, key) for key in FIGURES))


def rows(form: Fields) -> list[Row]:
    """As the form has them: without empty ones, and without the one whose button was pressed."""
    names = [field.name for field in fields(Row)]
    kept = [n for n in range(len(form.all(f"{PREFIX}name"))) if form.get("remove") != str(n + 1)]
    found = [Row(**{name: form.nth(f"{PREFIX}{name}", n) for name in names}) for n in kept]
    return [row for row in found if not row.is_empty]


def completed_rows(form: Fields, catalogue: Catalogue) -> list[Row]:
    """With what the catalogue knows of a name that is new in its row, where nobody typed another figure."""
    return [_completed(row, catalogue) for row in rows(form)]


def _items(found: Iterable[Row]) -> list[tuple[str, str]]:
    return [(f"{PREFIX}{key}", value) for row in found for key, value in asdict(row).items()]


def _completed(row: Row, catalogue: Catalogue) -> Row:
    """Sensors know better than the catalogue, and a person than both."""
    if row.name == row.named or row.source == SENSOR:
        return row
    device = catalogue.find(row.name, _memory(row)).device or catalogue.find(row.name).device
    if device is not None:
        typed_figures = {key: value for key, value in row.typed.items() if value}
        return replace(_row(device.accelerator()), name=row.name, named=row.name, count=row.count, **typed_figures)
    if row.named:  # the figures of another device, kept under a name that nobody knows
        return replace(row, source="", note="", sourced="", named="")
    return row


def _memory(row: Row) -> int | None:
    """What was typed, to tell variants apart; what the catalogue filled in says nothing about another name."""
    try:
        value = quantity(row.typed.get("memory", ""), _("Memory"))
    except BadInput:  # the row itself is refused with a sentence elsewhere
        return None
    return int(value) if value else None


def candidates(row: Row, catalogue: Catalogue) -> Sequence[str]:
    """Names of devices that a row may mean, when it may mean several."""
    return [] if row.bandwidth else [device.name for device in catalogue.find(row.name, _memory(row)).candidates]


# --- out of the form -------------------------------------------------------------------------------------------------


def parse_form(form: Fields, catalogue: Catalogue) -> dict[str, Any]:
    """Columns of a machine. Raises BadInput."""
    cores = form.whole("cores", _("The number of cores"))
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
        "cpu_flops_per_s": check_cpu_peak(quantity(form.get("cpu_peak"), _("The processor's peak compute"), TERA)),
        "llc_bytes": parse_rounded(form.get("llc"), _("The last-level cache"), form.get("llc_exact"), MEGA),
        "ram_bytes": parse_rounded(form.get("ram"), _("Memory"), form.get("ram_exact")),
        **_ram(form),
        "accelerators": [_card(row) for row in completed_rows(form, catalogue)],
    }


def _ram(form: Fields) -> dict[str, Any]:
    """Speed and width, and the bandwidth as typed, as its source gave it, or as the two make it."""
    kind, rate = memory.parse_speed(form.text("ram_speed", _("The memory speed"), 40))
    bits = form.whole("ram_bus_bits", _("The width of the memory bus"))
    if bits is not None:
        memory.check_bus_bits(bits)
    text = form.get("ram_bandwidth").strip() or _arithmetic(rate, bits)
    bandwidth = quantity(text, _("Memory bandwidth"))
    source = form.get("ram_bandwidth_source")
    is_sourced = source in FILLING and text == form.get("ram_bandwidth_sourced")
    return {
        "ram_kind": kind or None,
        "ram_data_rate_mt_per_s": rate,
        "ram_bus_bits": bits,
        "ram_bandwidth_bytes_per_s": bandwidth,
        "ram_bandwidth_source": (source if is_sourced else TYPED) if bandwidth is not None else None,
    }


def _arithmetic(rate: float | None, bits: int | None) -> str:
    """The bandwidth that speed and width make, as typed; nothing where one is unknown."""
    return format_input(memory.bandwidth_bytes_per_s(rate, bits), GIGA) if rate and bits else ""


def _card(row: Row) -> dict[str, Any]:
    if not row.name:
        raise BadInput(_("An accelerator needs a name."))
    count = parse_int(row.count, _("How many of {name}", name=row.name))
    if count is not None and not 1 <= count <= MOST_CARDS:
        raise BadInput(
            _("How many of {name} must be between 1 and {most_cards:,}.", name=row.name, most_cards=MOST_CARDS)
        )
    bandwidth = quantity(row.bandwidth, _("Bandwidth of {name}", name=row.name))
    return asdict(
        Accelerator(
            name=row.name[:120],
            count=count or 1,
            memory_bytes=parse_rounded(row.memory, _("Memory of {name}", name=row.name), row.memory_exact),
            bandwidth_bytes_per_s=bandwidth,
            compute_flops_per_s=quantity(row.compute, _("Compute of {name}", name=row.name), TERA),
            fastest_flops_per_s=quantity(row.fastest, _("Fastest compute of {name}", name=row.name), TERA),
            llc_bytes=parse_rounded(row.cache, _("Cache of {name}", name=row.name), row.cache, factor=1),
            source=row.source if row.is_sourced else TYPED,
            note=row.note_words if row.is_sourced else "",
        )
    )
