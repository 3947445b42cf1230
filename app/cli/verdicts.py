"""Comparisons as a terminal shows them."""

from collections.abc import Mapping
from typing import Any

from app.compare.comparable import about_words
from app.compare.result import Cell, Comparison, Pair, PointRows, Row, Subject
from app.metrics import metrics
from app.suites.points import point_title
from app.units import DASH, change_interval, number, percent

SIGNS = {"better": "▲", "worse": "▼", "same": "=", "inconclusive": "?", "mixed": "◆"}


def comparison_text(found: Comparison) -> str:
    lines = [_subject_line(subject) for subject in found.subjects]
    if found.differences:
        lines.append("\nWhat differs")
        width = max(len(each.title) for each in found.differences)
        lines += [f"  {each.title:<{width}}  {' | '.join(each.values)}" for each in found.differences]
    lines += [_pair_line(found, pair) for pair in found.pairs]
    for each in found.points:
        lines += _point_lines(found, each)
    return "\n".join(lines)


def _subject_line(subject: Subject) -> str:
    engine = " ".join(filter(None, [subject.engine, subject.engine_version]))
    when = (subject.started_at or "")[:16].replace("T", " ")
    name = f"run {subject.public_id}" if len(subject.runs) == 1 else f"{len(subject.runs)} runs"
    said = "  ".join([subject.letter, " · ".join(filter(None, [subject.title, engine, name, when]))])
    return f"{said}\n   {subject.refusal or subject.basis}"


def _pair_line(found: Comparison, pair: Pair) -> str:
    base, other = found.subjects[0].letter, found.subjects[pair.place].letter
    if pair.refusal:
        return f"\n{other} against {base}: no verdict. {pair.refusal}"
    sign = SIGNS.get(pair.verdict or "", "")
    return f"\n{other} against {base}: {sign} {pair.verdict}. {about_words(pair.about)}"


def _point_lines(found: Comparison, at: PointRows) -> list[str]:
    return [f"\nAbout {point_title(at.point)}", *(line for row in at.rows for line in _row_lines(found, row))]


def _row_lines(found: Comparison, row: Row) -> list[str]:
    source = f" ({row.source})" if row.source else ""
    lines = [f"  {row.title} {row.unit}{source}"]
    for subject, cell in zip(found.subjects, row.cells, strict=True):
        told = _cell_words(cell)
        lines.append(f"    {subject.letter} {number(cell.value):>7}  {told}".rstrip())
    return lines


def _cell_words(cell: Cell) -> str:
    if cell.value is None:
        return cell.reason
    if cell.ratio is None or cell.ratio.value is None:
        return cell.refusal or (cell.ratio.remark if cell.ratio else "")
    return f"{ratio_words(cell.ratio.value, cell.ratio.low, cell.ratio.high, cell.ratio.verdict)}  {cell.ratio.remark}"


def ratio_words(value: float, low: float | None, high: float | None, verdict: str | None) -> str:
    interval = f" ({change_interval(low, high)})" if low is not None and high is not None else ""
    return f"{percent(value - 1)}{interval} {SIGNS.get(verdict or '', '')} {verdict or DASH}"


def baseline_lines(standing: Mapping[str, Any] | None) -> list[str]:
    """Of a run's document."""
    if standing is None:
        return []
    if standing["is_baseline"]:
        return ["Baseline: this run is one; later runs are compared with it."]
    if standing["verdict"] is None:
        return [f"Baseline {standing['baseline_id']}: no verdict. {standing['reason']}"]
    lines = [f"Baseline: {SIGNS[standing['verdict']]} {standing['verdict']}, against run {standing['baseline_id']}"]
    for key, ratio in standing["ratios"].items():
        if ratio and ratio["value"] is not None:
            said = ratio_words(ratio["value"], ratio["low"], ratio["high"], ratio["verdict"])
            lines.append(f"  {metrics()[key].title:<8} {said}")
    return lines
