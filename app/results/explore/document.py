"""The marks of the explorer as JSON ("roofmark.explore/1") and CSV: the rows of its table, in the same order."""

from datetime import datetime
from typing import Any

from app.core.csv_export import csv_text
from app.results.explore.aggregate import ExploreResult
from app.results.explore.field import Field, FieldValue
from app.results.explore.query import VIEW_PARAMETERS
from app.results.run_filter import PARAMETERS

SCHEMA = "roofmark.explore/1"


def document(sheet: ExploreResult) -> dict[str, Any]:
    """`lowest` and `highest` are null where y is no number, `run` where a row stands for several observations."""
    return {
        "schema": SCHEMA,
        "view": {name: sheet.view.query.get(name) for name in (*VIEW_PARAMETERS, *PARAMETERS)},
        "fields": {
            "series": _field(sheet.series) if sheet.series else None,
            "x": _field(sheet.x),
            "y": _field(sheet.y),
        },
        "observation": sheet.noun,
        "rows": [
            {
                "series": _plain(mark.series),
                "x": _plain(mark.x),
                "y": _plain(mark.y),
                "lowest": mark.low,
                "highest": mark.high,
                "observations": mark.observations,
                "run": mark.public_id,
            }
            for mark in sheet.marks
        ],
        "matching_runs": sheet.matching_runs,
        "left_out": [
            {"count": each.number, "observation": each.noun, "what": each.lack.what, "reason": each.lack.reason}
            for each in sheet.left_out
        ],
        "mixed": [field.name for field in sheet.mixed],
    }


def csv(sheet: ExploreResult) -> str:
    columns = [sheet.x.name, sheet.y.name, "lowest", "highest", "observations", "run"]
    rows = [
        [_plain(mark.x), _plain(mark.y), mark.low, mark.high, mark.observations, mark.public_id] for mark in sheet.marks
    ]
    if sheet.series is not None:
        columns.insert(0, sheet.series.name)
        for row, mark in zip(rows, sheet.marks, strict=True):
            row.insert(0, _plain(mark.series))
    return csv_text(columns, rows)


def _field(field: Field) -> dict[str, str]:
    return {"name": field.name, "title": field.title, "unit": field.unit, "kind": field.kind}


def _plain(value: FieldValue | None) -> str | float | None:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
