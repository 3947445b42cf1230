"""Comparisons as a terminal shows them."""

from collections.abc import Mapping
from typing import Any

from app.core.units import change_interval, format_number, format_percent
from app.metrics import metrics
from app.results.compare.eligibility import about_words
from app.results.compare.result import Cell, Comparison, MetricRow, Pair, PointRows, Subject
from app.results.compare.words import pair_scatter_words, scatter_words, settle_words, unsound_words
from app.stats.runs import RunScatter
from app.stats.verdict import Ratio, Verdict
from app.suites.points import point_title

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
    return f"{said}\n   {subject.reason_not_comparable or subject.data_source}"


def _pair_line(found: Comparison, pair: Pair) -> str:
    base, other = found.subjects[0].letter, found.subjects[pair.place].letter
    if pair.reason_not_comparable:
        return f"\n{other} against {base}: no verdict. {pair.reason_not_comparable}"
    lines = [
        f"\n{other} against {base}: {SIGNS.get(pair.verdict or '', '')} {pair.verdict}.",
        unsound_words(pair.unsound) or settle_words(found.main_ratios(pair.place)),
        about_words(pair.differing_settings, pair.unknown_settings),
        pair_scatter_words(found, pair.place),
    ]
    return "\n   ".join(filter(None, lines))


def _point_lines(found: Comparison, at: PointRows) -> list[str]:
    return [f"\nAbout {point_title(at.point)}", *(line for row in at.all_rows for line in _row_lines(found, row))]


def _row_lines(found: Comparison, row: MetricRow) -> list[str]:
    source = f" ({row.source})" if row.source else ""
    lines = [f"  {row.title} {row.unit}{source}"]
    for subject, cell in zip(found.subjects, row.cells, strict=True):
        told = _cell_words(cell)
        lines.append(f"    {subject.letter} {format_number(cell.value):>7}  {told}".rstrip())
    return lines


def _cell_words(cell: Cell) -> str:
    if cell.value is None:
        return cell.reason
    if cell.ratio is None:
        return cell.reason_not_comparable
    return ratio_words(cell.ratio)


def ratio_words(ratio: Ratio) -> str:
    change = f"{format_percent(ratio.value - 1)} ({change_interval(ratio.low, ratio.high)})"
    return f"{change} {SIGNS[ratio.verdict]} {ratio.verdict}"


def baseline_lines(standing: Mapping[str, Any] | None) -> list[str]:
    """Of a run's document."""
    if standing is None:
        return []
    if standing["is_baseline"]:
        return ["Baseline: this run is one; later runs are compared with it."]
    return _main_verdict_lines(f"Against the baseline, run {standing['baseline_id']}", standing)


def previous_lines(previous: Mapping[str, Any]) -> list[str]:
    """Of a run's document."""
    return _main_verdict_lines(f"Against run {previous['id']}, the newest before that change", previous)


def _main_verdict_lines(title: str, main: Mapping[str, Any]) -> list[str]:
    """Of a document's `baseline` or `previous`: both figures of each metric, the ratio, and what it rests on."""
    if main["verdict"] is None:
        return [f"{title}: no verdict. {main['reason']}"]
    ratios = {key: Ratio(**{**ratio, "verdict": Verdict(ratio["verdict"])}) for key, ratio in main["ratios"].items()}
    lines = [f"{title}: {SIGNS[main['verdict']]} {main['verdict']}"]
    for key, ratio in ratios.items():
        values, metric = main["values"][key], metrics()[key]
        figures = f"{format_number(values['base'])} → {format_number(values['other'])} {metric.unit}"
        lines.append(f"  {metric.title:<8} {figures}, {ratio_words(ratio)}")
    scatters = {key: RunScatter(**scatter) for key, scatter in main["scatters"].items()}
    sentences = [unsound_words(main["unsound"]) or settle_words(ratios.values()), scatter_words(scatters)]
    return lines + [f"  {sentence}" for sentence in sentences if sentence]
