"""The sensor readings during one sample, on the time axis of its tokens."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from app.charts.base import MAX_SERIES, Figure, LegendEntry, Table, axis, hover_template, stacked, y_name
from app.core.i18n import N_, _, as_sentence, joined
from app.core.samples import Sample
from app.core.units import format_number, plural
from app.metrics.sensors import card_title, throttle_words

GB = 1e9
PANELS = (
    (N_("Power W"), "power_w", 1.0),
    (N_("Temperature °C"), "temperature_c", 1.0),
    (N_("Clock MHz"), "clock_mhz", 1.0),
    (N_("Memory clock MHz"), "memory_clock_mhz", 1.0),
    (N_("GPU memory used GB"), "memory_used_bytes", GB),
    (N_("Load %"), "load_percent", 1.0),
    (N_("Memory of the server GB"), "server_memory_bytes", GB),
    (N_("RAM available GB"), "ram_available_bytes", GB),
    (N_("Swap used GB"), "swap_used_bytes", GB),
)
"""Title with unit, the ending of the quantity's name, and the divisor."""
SELDOM = frozenset({"swap_used_bytes"})
"""Quantities that are drawn only when they are not zero throughout."""
ABSENCES = {
    "off": N_("The machine's sensors were not read: the setting is off."),
    "elsewhere": N_("No sensors were read: by its settings, the server is not on the machine that Roofmark runs on."),
    "silent": N_("The machine's sensors were not read: the process that reads them returned nothing."),
    "short": N_("The samples were too short for the machine's sensors, which are read twice a second."),
}
"""The reason why there is no figure, by `Run.evidence["no_sensors"]`."""
_Panel = tuple[str, float, list[tuple[str, str]]]
"""A title, a divisor, and the panel's lines: the device of each, and its quantity's name."""
_NAME = re.compile(r"(?:(gpu\d+)\.|(cpu)_|)(.+)")


def sensors_of(sample: Sample) -> Figure | None:
    """Draws one panel for each quantity that was read, with a line for each card and the processor. None with fewer
    than two readings."""
    at_ms: list[int] = sample.sensors.get("at_ms", [])
    values: dict[str, list[float | None]] = sample.sensors.get("values", {})
    panels = [(_(title), divisor, lines) for title, ends, divisor in PANELS if (lines := _lines(values, ends))]
    if len(at_ms) < 2 or not panels:
        return None
    owners = list(dict.fromkeys(owner for _, _, lines in panels for owner, _ in lines))
    series = {owner: place if place < MAX_SERIES else None for place, owner in enumerate(owners)}
    traces = [
        _trace(place, series[owner], f"{owner}: {title}", at_ms, [_divided(v, divisor) for v in values[name]])
        for place, (title, divisor, lines) in enumerate(panels)
        for owner, name in lines
    ]
    throttles = sample.sensors.get("throttles", [])
    throttle_text = joined(*map(throttle_words, throttles), by=", ")
    throttle_sentence = _("Throttled: {throttles}.", throttles=throttle_text) if throttles else ""
    return Figure(
        data=traces,
        layout={
            **stacked([title for title, _, _ in panels], axis(_("Time since the request was sent, ms"))),
            "hovermode": "closest",
        },
        summary=joined(
            _(
                "{readings} of the machine's sensors during sample {ordinal}.",
                readings=plural(len(at_ms), "reading"),
                ordinal=sample.ordinal + 1,
            ),
            as_sentence(joined(*_extents(panels, values), by="; ")),
            throttle_sentence,
        ),
        table=Table(
            columns=(_("Quantity"), _("Mean"), _("Lowest"), _("Highest")),
            rows=tuple(
                _row(f"{owner}: {title}", [_divided(value, divisor) for value in values[name]])
                for title, divisor, lines in panels
                for owner, name in lines
            ),
            texts=1,
        ),
        legend=tuple(LegendEntry(series[owner], owner) for owner in owners),
    )


def _extents(panels: Sequence[_Panel], values: dict[str, list[float | None]]) -> Iterator[str]:
    """Returns the extent of each panel's lines together: `Power W: 60.0 to 304`."""
    for title, divisor, lines in panels:
        scaled = [value / divisor for _owner, name in lines for value in values[name] if value is not None]
        low, high = format_number(min(scaled)), format_number(max(scaled))
        extent = low if low == high else _("{low} to {high}", low=low, high=high)
        yield _("{title}: {extent}", title=title, extent=extent)


def absence(key: str | None) -> str:
    """Returns the sentence shown in the place of a figure; empty when the reason is unknown, as for an old run."""
    return _(ABSENCES[key]) if key in ABSENCES else ""


def _lines(values: dict[str, list[float | None]], ends: str) -> list[tuple[str, str]]:
    """Returns the device of each line, and its quantity's name."""
    lines = []
    for name in values:
        match = _NAME.fullmatch(name)
        has_reading = any(value if ends in SELDOM else value is not None for value in values[name])
        if match and match[3] == ends and has_reading:
            lines.append((_title(match[1] or match[2]), name))
    return lines


def _title(prefix: str | None) -> str:
    if prefix is None:
        return _("Machine")
    return _("Processor") if prefix == "cpu" else card_title(prefix)


def _divided(value: float | None, divisor: float) -> float | None:
    return None if value is None else round(value / divisor, 3)


def _trace(
    panel: int, series: int | None, name: str, at_ms: Sequence[int], values: Sequence[float | None]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "meta": {"series": series},
        "x": list(at_ms),
        "y": list(values),
        "yaxis": y_name(panel),
        "hovertemplate": hover_template(joined(name, _(" %{y:,.3~r}, after %{x:,} ms"), by="")),
        "showlegend": False,
    }


def _row(name: str, values: Sequence[float | None]) -> tuple[str, ...]:
    readings = [value for value in values if value is not None]
    return (
        name,
        format_number(sum(readings) / len(readings)),
        format_number(min(readings)),
        format_number(max(readings)),
    )
