"""Comparisons and verdicts as plain text for a terminal."""

from collections.abc import Mapping
from typing import Any

from app.core.i18n import upper_first
from app.core.units import change_interval, format_under, pair_parts
from app.metrics import metrics
from app.results.compare.differences import verdict_subject_text
from app.results.compare.result import (
    Cell,
    Comparison,
    MetricRow,
    Pair,
    PointRows,
    Subject,
    pair_scatter_words,
    scatter_words,
    settle_words,
    unsound_words,
)
from app.results.compare.words import best_words, incomparable_words, ratio_words, sign, verdict_words
from app.stats.runs import RunScatter
from app.stats.verdict import Ratio, Verdict
from app.suites import point_title

BAR_WIDTH = 20
"""The length of the longest bar, in characters."""


def comparison_text(comparison: Comparison) -> str:
    """Formats what forbids a comparison, the subjects, the verdicts, what differs, and the figures of each point."""
    lines = [*incomparable_words(comparison), " · ".join(comparison.shared)]
    width = max(len(subject.name) for subject in comparison.subjects)
    lines += [_subject_line(subject, width) for subject in comparison.subjects]
    if best := best_words(comparison):
        lines.append(f"\n{best}")
    lines += [_pair_line(comparison, pair) for pair in comparison.pairs]
    if comparison.differences:
        lines.append("\nWhat differs")
        title_width = max(len(difference.title) for difference in comparison.differences)
        lines += [
            f"  {difference.title:<{title_width}}  {' | '.join(difference.values)}"
            for difference in comparison.differences
        ]
    for point_rows in comparison.points:
        lines += _point_lines(comparison, point_rows)
    return "\n".join(filter(None, lines))


def _subject_line(subject: Subject, width: int) -> str:
    name = f"run {subject.public_id}" if len(subject.runs) == 1 else f"{len(subject.runs)} runs"
    when = (subject.started_at or "")[:16].replace("T", " ")
    heading = f"{subject.letter}  {subject.name:<{width}}  {' · '.join(filter(None, [subject.title, name, when]))}"
    return f"{heading}\n   {subject.reason_not_comparable or subject.data_source}"


def _pair_line(comparison: Comparison, pair: Pair) -> str:
    who = comparison.against_base(pair.place)
    if pair.reason_not_comparable:
        return f"\n{who}: no verdict. {pair.reason_not_comparable}"
    lines = [
        f"\n{who}: {sign(pair.verdict)} {pair.verdict}. {upper_first(pair.words)}.",
        unsound_words(pair.unsound) or settle_words(comparison.main_ratios(pair.place)),
        verdict_subject_text(pair.differing_settings, pair.unknown_settings),
        pair_scatter_words(comparison, pair.place),
    ]
    return "\n   ".join(filter(None, lines))


def _point_lines(comparison: Comparison, point_rows: PointRows) -> list[str]:
    lines = [f"\nAbout {point_title(point_rows.point)}"]
    return lines + [line for row in point_rows.all_rows for line in _row_lines(comparison, row)]


def _row_lines(comparison: Comparison, row: MetricRow) -> list[str]:
    source = f" ({row.source})" if row.source else ""
    lines = [f"  {row.title} {row.unit}{source}"]
    width = max(len(subject.name) for subject in comparison.subjects)
    for place, (subject, cell) in enumerate(zip(comparison.subjects, row.cells, strict=True)):
        bar = "█" * round(BAR_WIDTH * row.share_of_largest(place))
        best = "best" if row.best == place else ""
        figures = f"{format_under(cell.value, row.unit):>7} {bar:<{BAR_WIDTH}} {best:<4}"
        lines.append(f"    {subject.name:<{width}} {figures}  {_cell_words(row.metric, cell)}".rstrip())
    return lines


def _cell_words(metric: str, cell: Cell) -> str:
    if cell.value is None:
        return cell.reason
    if cell.ratio is None:
        return cell.reason_not_comparable
    return _change(metric, cell.ratio)


def _change(metric: str, ratio: Ratio) -> str:
    """Formats a change with its sign and its interval."""
    return f"{sign(ratio.verdict)} {ratio_words(metric, ratio)} ({change_interval(ratio.low, ratio.high)})"


def baseline_lines(standing: Mapping[str, Any] | None) -> list[str]:
    """Says how a run compares with its baseline; `standing` is `baseline` of the run's document."""
    if standing is None:
        return []
    if standing["is_baseline"]:
        return ["This run is a baseline: later runs are compared with it."]
    return _main_verdict_lines(f"Against the baseline, run {standing['baseline_id']}", standing)


def previous_lines(previous: Mapping[str, Any]) -> list[str]:
    """Says how a run compares with the one before it; `previous` is that of the run's document."""
    return _main_verdict_lines(
        f"Against run {previous['id']}, the newest of the nearest earlier configuration", previous
    )


def _main_verdict_lines(title: str, main: Mapping[str, Any]) -> list[str]:
    """Lists the verdict, both figures and the ratio of each metric, and how much runs differ by themselves."""
    if main["verdict"] is None:
        return [f"{title}: no verdict. {main['reason']}"]
    ratios = {key: Ratio(**{**ratio, "verdict": Verdict(ratio["verdict"])}) for key, ratio in main["ratios"].items()}
    lines = [f"{title}: {sign(main['verdict'])} {main['verdict']}. {upper_first(verdict_words(ratios))}."]
    for key, ratio in ratios.items():
        values, metric = main["values"][key], metrics()[key]
        before, after, unit = pair_parts(values["base"], values["other"], metric.unit)
        figures = f"{before} → {after} {unit}"
        lines.append(f"  {metric.title:<8} {figures}, {_change(key, ratio)}")
    scatters = {key: RunScatter(**scatter) for key, scatter in main["scatters"].items()}
    sentences = [unsound_words(main["unsound"]) or settle_words(ratios.values()), scatter_words(scatters)]
    return lines + [f"  {sentence}" for sentence in sentences if sentence]
