"""A leaderboard as the document "roofmark.best/1", and as CSV."""

from collections.abc import Sequence
from typing import Any

from app.core import csv_export
from app.results.leaderboard.board import Leaderboard
from app.results.leaderboard.rows import BuildChange, Row
from app.results.leaderboard.verdict import verdict_words
from app.stats.verdict import Ratio

SCHEMA = "roofmark.best/1"
COLUMNS = (
    "model", "quantization", "machine", "engine", "engine_version", "settings", "metric", "unit", "best", "best_run",
    "best_runs", "latest", "latest_run", "latest_at", "latest_over_best", "old_version", "new_version",
    "new_over_old", "is_certain", "runs",
)  # fmt: skip


def document(board: Leaderboard) -> dict[str, Any]:
    """Returns the JSON document; numbers are in the units of their metrics, ratios are over what is named last."""
    metric = board.view.metric
    return {
        "schema": SCHEMA,
        "view": board.view.active,
        "suite": board.suite,
        "metric": metric.key,
        "unit": metric.unit,
        "better": metric.better,
        "verdict": [str(sentence) for sentence in verdict_words(board)],
        "rows": [_row(row) for row in board.rows],
        "wrong_runs": list(board.wrong),
        "hidden_runs": board.hidden,
        "runs_of_other_versions": board.of_other_prompts,
    }


def _row(row: Row) -> dict[str, Any]:
    ratio = row.latest.against_best
    return {
        "model": row.model,
        "quantization": row.quantization or None,
        "machine": row.machine_slug,
        "engine": row.engine,
        "engine_version": row.engine_version,
        "settings": str(row.particulars),
        "runs_on": row.remote_host,
        "runs": row.runs,
        "best": {
            "run": row.best.public_id,
            "value": row.best.value,
            "runs": row.best.runs,
            "metrics": dict(row.best.figures),
        },
        "latest": {
            "run": row.latest.public_id,
            "at": row.latest.at.isoformat(),
            "value": row.latest.value,
            "over_best": _ratio(ratio) if ratio else None,
            "is_worse": row.latest.is_worse,
        },
        "change": _change(row.change) if row.change else None,
    }


def _ratio(ratio: Ratio) -> dict[str, Any]:
    return {"value": ratio.value, "low": ratio.low, "high": ratio.high, "verdict": ratio.verdict.value}


def _change(change: BuildChange) -> dict[str, Any]:
    low, high = change.change.interval
    return {
        "old_version": change.old_version,
        "new_version": change.new_version,
        "at": change.at.isoformat(),
        "before": change.before,
        "after": change.after,
        "ratio": {"value": change.change.ratio, "low": low, "high": high},
        "is_certain": change.is_certain,
    }


def csv(board: Leaderboard) -> str:
    """Returns the rows as CSV; numbers are not rounded."""
    return csv_export.csv_text(COLUMNS, [_cells(row, board) for row in board.rows])


def _cells(row: Row, board: Leaderboard) -> Sequence[csv_export.Cell]:
    metric, ratio = board.view.metric, row.latest.against_best
    return (
        *(row.model, row.quantization, row.machine, row.engine, row.engine_version, str(row.particulars)),
        *(metric.key, metric.unit, row.best.value, row.best.public_id, row.best.runs),
        *(row.latest.value, row.latest.public_id, row.latest.at.isoformat(), ratio.value if ratio else 1.0),
        *(_change_cells(row.change) if row.change else (None,) * 4),
        row.runs,
    )


def _change_cells(change: BuildChange) -> Sequence[csv_export.Cell]:
    return change.old_version, change.new_version, change.change.ratio, str(change.is_certain).lower()
