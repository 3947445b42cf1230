"""A run as plain text for a terminal, made from the run's JSON document."""

from collections.abc import Sequence
from typing import Any

from app import engines
from app.cli.verdicts import baseline_lines, previous_lines
from app.core.config_settings import format_setting, setting_title
from app.core.i18n import as_sentence, enumerated
from app.core.samples import Workload
from app.core.units import DASH, format_number, format_under, plural, quantity_parts, spread
from app.core.unknown_settings import unknown_text
from app.metrics import FLAGS, HEADLINE_METRICS, NULL_REASONS, further_metrics, metrics, preferred
from app.results.compare.result import unsound_run_words
from app.suites import point_title


def run_text(document: dict[str, Any]) -> str:
    """Formats a run document ("roofmark.run/3"): figures, ceiling, limits, changes, verdicts, warnings."""
    run = document["run"]
    lines = [_title(run), *_config_lines(run)]
    for point in document["points"]:
        if len(document["points"]) > 1:
            lines.append(f"\nAbout {point_title(Workload(**point['point']))}")
        lines += _point_lines(point)
    lines += _serving_lines(document["serving"])
    lines += _change_lines(run)
    lines += baseline_lines(document["baseline"])
    if wrong := run["wrong"]:
        causes = f" Likely cause: {enumerated(wrong['causes'])}." if wrong["causes"] else ""
        lines.append(f"Warning: {wrong['sentence']}{causes}")
    lines += [f"Warning: {warning}" for warning in [unsound_run_words(run["unsound"]), *run["warnings"]] if warning]
    lines += _flag_lines(document["samples"])
    if run["error"]:
        lines.append(f"Error: {run['error']}")
    if run["hidden"]:
        lines.append(f"Hidden from statistics: {run['hidden']['reason']}")
    if run["labels"]:
        lines.append(f"Labels: {', '.join(run['labels'])}")
    if run["note"]:
        lines.append(f"Note: {run['note']}")
    return "\n".join(lines)


def _point_lines(point: dict[str, Any]) -> list[str]:
    if not point["metrics"] and (reasons := {null["reason"] for null in point["nulls"]}) == {"exceeds_context"}:
        return [f"Left out: {NULL_REASONS[reasons.pop()]}"]
    keys = [*HEADLINE_METRICS, *(key for key in further_metrics() if _is_shown(key, point))]
    width = max(len(metrics()[key].title) for key in keys)
    lines = [_metric_line(key, point, width) for key in keys]
    lines += [f"Warning: {warning}" for warning in [point["disagreement"]] if warning]
    return [*lines, *_ceiling_lines(point["ceiling"], width), *_limit_lines(point["limits"])]


def _is_shown(key: str, point: dict[str, Any]) -> bool:
    """Decides whether a further metric has a value that the headline does not show already."""
    has_value = any(metric["key"] == key for metric in point["metrics"])
    return has_value and (point["point"]["concurrency"] > 1 or not metrics()[key].is_about_streams)


def _serving_lines(serving: dict[str, Any] | None) -> list[str]:
    if serving is None:
        return []
    slo = serving["slo"]
    limits = f"TTFT of {format_number(slo['ttft_ms'])} ms and TPOT of {format_number(slo['tpot_ms'])} ms"
    largest_streams = serving["largest_streams"]
    if largest_streams is None:
        fewest = plural(serving["points"][0]["streams"], "stream")
        return [f"\nWith {fewest} already, not every request kept within the limits: {limits}."]
    return [f"\nUp to {plural(largest_streams, 'stream')} every request kept within the limits: {limits}."]


def _title(run: dict[str, Any]) -> str:
    config = run["config"]
    parts = [f"Run {run['id']}", run["status"]]
    if config:
        parts.append(" ".join(filter(None, [config["model"], config["quantization"]])))
        parts.append(" ".join(filter(None, [_engine_title(config["engine"]), config["engine_version"]])))
    return " · ".join(parts)


def _engine_title(key: str | None) -> str | None:
    return engines.titles().get(key, key) if key else key


def _config_lines(run: dict[str, Any]) -> list[str]:
    config = run["config"]
    if not config:
        return []
    settings = [f"{setting_title(key)} {format_setting(value)}" for key, value in config["settings"].items()]
    labels = [f"label {label}" for label in config["labels"]]
    return [f"Configuration: {', '.join([*settings, *labels])}"] if settings or labels else []


def _change_lines(run: dict[str, Any]) -> list[str]:
    """Says what changed since the nearest earlier configuration, and how this run compares with it."""
    if run["changes"] is None:
        return []
    changes = "; ".join(run["changes"]) or "no difference is known"
    lines = list(filter(None, [f"Changed: {changes}", unknown_text(run["unknown_settings"])]))
    previous = run["previous"]
    if previous is None:
        return lines
    return [*lines, *previous_lines(previous)]


def _metric_line(key: str, point: dict[str, Any], width: int) -> str:
    metric = metrics()[key]
    by_source = {row["source"]: row for row in point["metrics"] if row["key"] == key}
    shown = next((by_source[source] for source in preferred(key) if source in by_source), None)
    title = f"{metric.title:<{width}}"
    if shown is None:
        reason = next((null["reason"] for null in point["nulls"] if null["key"] == key), None)
        return f"{title} {DASH}  {NULL_REASONS.get(reason, '') if reason else ''}".rstrip()
    spread_text, _ = spread(shown["value"], shown["standard_deviation"], shown["low"], shown["high"], metric.unit)
    figure, unit = quantity_parts(shown["value"], metric.unit)
    value = f"{figure:>7} {unit:<5} {spread_text:<8}"
    other_sources = [
        f"{source} {format_under(row['value'], metric.unit)}" for source, row in by_source.items() if row is not shown
    ]
    origin = "; ".join([f"{shown['source']}, {plural(shown['samples'], 'sample')}", *other_sources])
    return f"{title} {value}  ({origin})"


def _ceiling_lines(ceiling: dict[str, Any] | None, width: int) -> list[str]:
    if ceiling is None:
        return []
    if "reason" in ceiling:
        return [f"{'Ceiling':<{width}} {DASH:>7}  {ceiling['reason']}"]
    reached = f"; reached {format_number(ceiling['mbu'] * 100)} %" if ceiling["mbu"] is not None else ""
    lines = [f"{'Ceiling':<{width}} {ceiling['decode_words']}{reached}"]
    if ceiling["certainty"] == "estimate":
        keys = ", ".join(ceiling["not_understood"][:8])
        lines.append(f"{'':<{width}} an estimate, no bound{f': {keys} not understood' if keys else ''}")
    doubts = ceiling["above"] or [ceiling["cache_guard"]]
    return lines + [f"{'':<{width}} {sentence}" for sentence in doubts if sentence]


def _limit_lines(limits: dict[str, Any] | None) -> list[str]:
    """Lists what limits the point, beginning with what to change first; then what is unknown."""
    if limits is None:
        return []
    lines = [
        f"{'Limit' if n == 0 else '':<8} {limit['of']}: {limit['sentence']} {as_sentence(limit['evidence'])} "
        f"{'Change this first: ' if n == 0 else ''}{limit['remedy']}"
        for n, limit in enumerate(limits["found"])
    ]
    return lines + [f"{'Unknown' if n == 0 else '':<8} {sentence}" for n, sentence in enumerate(limits["unknown"])]


def _flag_lines(samples: Sequence[dict[str, Any]]) -> list[str]:
    measured = [sample for sample in samples if not sample["warmup"]]
    counts: dict[str, int] = {}
    for sample in measured:
        for flag in sample["flags"]:
            counts[flag] = counts.get(flag, 0) + 1
    return [
        f"{FLAGS[flag].title.capitalize()} ({count} of {plural(len(measured), 'sample')}): "
        f"{FLAGS[flag].sentence} {FLAGS[flag].advice}"
        for flag, count in counts.items()
        if flag in FLAGS
    ]
