"""Public figures: numbers and generated texts, without links and hidden data of points."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.charts import Figure, LegendEntry, Table
from app.core.units import read_number

_TRACE = (
    "type",
    "mode",
    "name",
    "x",
    "y",
    "text",
    "textposition",
    "hovertemplate",
    "width",
    "error_x",
    "error_y",
    "orientation",
    "showlegend",
    "xaxis",
    "yaxis",
)
_META = ("series", "role")
_LAYOUT = ("hovermode", "shapes", "bargap", "barmode")
_AXIS = (
    "title",
    "type",
    "range",
    "rangemode",
    "domain",
    "anchor",
    "matches",
    "dtick",
    "nticks",
    "tickvals",
    "ticktext",
    "tickformat",
    "showticklabels",
    "showgrid",
    "zeroline",
    "automargin",
)
_ANNOTATION = ("x", "y", "xref", "yref", "xanchor", "yanchor", "xshift", "yshift", "text", "showarrow")


def public_figure(figure: Figure) -> Figure:
    """The public part of a figure whose names, ticks and hover texts contain anonymized words only."""
    return Figure(
        data=[_trace(trace) for trace in figure.data],
        layout=_layout(figure.layout),
        summary=figure.summary,
        table=Table(figure.table.columns, figure.table.rows, caption=figure.table.caption, texts=figure.table.texts),
        legend=tuple(LegendEntry(key.series, key.title, mode=key.mode) for key in figure.legend),
        marks=figure.marks,
    )


def _trace(trace: Mapping[str, Any]) -> dict[str, Any]:
    public_trace = _some(trace, _TRACE)
    if trace.get("meta"):
        public_trace["meta"] = _some(trace["meta"], _META)
    if _are_numbers(trace.get("hovertext")):
        public_trace["hovertext"] = trace["hovertext"]
    return public_trace


def _layout(layout: Mapping[str, Any]) -> dict[str, Any]:
    public_layout = _some(layout, _LAYOUT)
    for name, value in layout.items():
        if name.startswith(("xaxis", "yaxis")):
            public_layout[name] = _some(value, _AXIS)
    public_layout["annotations"] = [_some(annotation, _ANNOTATION) for annotation in layout.get("annotations", [])]
    return public_layout


def _some(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _are_numbers(texts: Any) -> bool:
    try:
        return isinstance(texts, list) and all(read_number(text) is not None for text in texts)
    except (ValueError, AttributeError):  # then they are categories
        return False
