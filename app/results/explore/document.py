"""Writes an ExploreResult as JSON ("roofmark.explore/1") and CSV: the rows of its table, in the same order."""

from datetime import datetime
from typing import Any

from app.core.csv_export import csv_text
from app.results.explore.aggregate import ExploreResult
from app.results.explore.query import MARKS, VIEW_PARAMETERS
from app.results.explore.words import left_out
from app.results.fields.field import Field, FieldValue
from app.results.run_filter import PARAMETERS

SCHEMA = "roofmark.explore/1"


def document(result: ExploreResult) -> dict[str, Any]:
    """Returns the JSON document; `lowest` and `highest` are null when y is no number, `run` when a row is of several
    runs."""
    return {
        "schema": SCHEMA,
        "view": {name: result.view.query.get(name) for name in (*VIEW_PARAMETERS, *PARAMETERS)},
        "fields": {
            "series": _field(result.series) if result.series else None,
            "x": _field(result.x),
            "y": _field(result.y),
        },
        "lines": {"split_by": list(result.parts), "differ_in": list(result.differing)},
        "mark": None if result.is_single else result.view.mark or MARKS[0],
        "observation": result.noun,
        "rows": [
            {
                "series": _json_value(data_point.series),
                "parts": dict(zip(result.parts, map(_json_value, data_point.parts), strict=True)),
                "x": _json_value(data_point.x),
                "y": _json_value(data_point.y),
                "lowest": data_point.low,
                "highest": data_point.high,
                "observations": data_point.observations,
                "run": data_point.public_id,
            }
            for data_point in result.data_points
        ],
        "matching_runs": result.matching_runs,
        "left_out": [
            {"count": count, "observation": noun, "what": exclusion.what, "reason": exclusion.reason}
            for count, noun, exclusion in result.exclusions
        ],
        "narrowed": [
            {
                "parts": list(narrowing.parts),
                "count": narrowing.observations,
                "only_value": _json_value(narrowing.only_value),
                "text": omission.text,
            }
            for narrowing, omission in zip(result.narrowings, left_out(result), strict=True)
        ],
        "mixed": [field.key for field in result.heterogeneous],
    }


def csv(result: ExploreResult) -> str:
    columns = [result.x.key, result.y.key, "lowest", "highest", "observations", "run"]
    rows = [
        [_json_value(point.x), _json_value(point.y), point.low, point.high, point.observations, point.public_id]
        for point in result.data_points
    ]
    columns[:0] = [*([result.series.key] if result.series else []), *(f"line.{key}" for key in result.parts)]
    for row, data_point in zip(rows, result.data_points, strict=True):
        row[:0] = map(_json_value, data_point.line if result.series else data_point.parts)
    return csv_text(columns, rows)


def _field(field: Field) -> dict[str, str]:
    return {"name": field.key, "title": field.title, "unit": field.unit, "kind": field.kind}


def _json_value(value: FieldValue | None) -> str | float | None:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
