"""A run as a terminal shows it: plain text from the run's JSON document."""

from collections.abc import Sequence
from typing import Any

from app.cli.verdicts import baseline_lines, previous_lines
from app.core.configuration import setting_title, show
from app.core.i18n import as_sentence
from app.core.samples import Workload
from app.core.units import DASH, format_number, plural, spread
from app.metrics import FLAGS, HEADLINE_METRICS, NULL_REASONS, further_metrics, metrics, preferred
from app.results.compare.words import unsound_run_words
from app.suites.points import point_title


def run_text(document: dict[str, Any]) -> str:
    run = document["run"]
    lines = [_title(run), *_config_lines(run)]
    for each in document["points"]:
        if len(document["points"]) > 1:
            lines.append(f"\nAbout {point_title(Workload(**each['point']))}")
        if not each["metrics"] and (reasons := {null["reason"] for null in each["nulls"]}) == {"exceeds_context"}:
            lines.append(f"Left out: {NULL_REASONS[reasons.pop()]}")
            continue
        keys = [*HEADLINE_METRICS, *(key for key in further_metrics() if _is_worth_saying(key, each))]
        width = max(len(metrics()[key].title) for key in keys)
        lines += [_metric_line(key, each, width) for key in keys]
        lines += [f"Warning: {warning}" for warning in [each["disagreement"]] if warning]
        lines += _roof_lines(each["ceiling"], width)
        lines += _limit_lines(each["limits"])
    lines += _serving_lines(document["serving"])
    lines += _change_lines(run)
    lines += baseline_lines(document["baseline"])
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


def _is_worth_saying(key: str, point: dict[str, Any]) -> bool:
    """Whether it has a value that the headline does not say already."""
    has_value = any(metric["key"] == key for metric in point["metrics"])
    return has_value and (point["point"]["concurrency"] > 1 or not metrics()[key].is_about_streams)


def _serving_lines(serving: dict[str, Any] | None) -> list[str]:
    if serving is None:
        return []
    slo = serving["slo"]
    limits = f"TTFT of {format_number(slo['ttft_ms'])} ms and TPOT of {format_number(slo['tpot_ms'])} ms"
    most = serving["largest_streams"]
    if most is None:
        fewest = plural(serving["points"][0]["streams"], "stream")
        return [f"\nWith {fewest} already, not every request kept within the limits: {limits}."]
    return [f"\nUp to {plural(most, 'stream')} every request kept within the limits: {limits}."]


def _title(run: dict[str, Any]) -> str:
    config = run["config"]
    parts = [f"Run {run['id']}", run["status"]]
    if config:
        parts.append(" ".join(filter(None, [config["model"], config["quantization"]])))
        parts.append(" ".join(filter(None, [config["engine"], config["engine_version"]])))
    return " · ".join(parts)


def _config_lines(run: dict[str, Any]) -> list[str]:
    config = run["config"]
    if not config:
        return []
    said = [f"{setting_title(key)} {show(value)}" for key, value in config["settings"].items()]
    said += [f"label {label}" for label in config["labels"]]
    return [f"Configuration: {', '.join(said)}"] if said else []


def _change_lines(run: dict[str, Any]) -> list[str]:
    """What is different from the server's previous configuration, and this run against it."""
    if not run["changes"]:
        return []
    lines = [f"Changed: {'; '.join(run['changes'])}"]
    previous = run["previous"]
    if previous is None:
        return lines
    return [*lines, *previous_lines(previous)]


def _metric_line(key: str, point: dict[str, Any], width: int) -> str:
    metric = metrics()[key]
    found = {each["source"]: each for each in point["metrics"] if each["key"] == key}
    shown = next((found[source] for source in preferred(key) if source in found), None)
    title = f"{metric.title:<{width}}"
    if shown is None:
        reason = next((each["reason"] for each in point["nulls"] if each["key"] == key), None)
        return f"{title} {DASH}  {NULL_REASONS.get(reason, '') if reason else ''}".rstrip()
    spread_text, _ = spread(shown["value"], shown["standard_deviation"], shown["low"], shown["high"])
    value = f"{format_number(shown['value']):>7} {metric.unit:<5} {spread_text:<8}"
    others = [f"{source} {format_number(each['value'])}" for source, each in found.items() if each is not shown]
    origin = "; ".join([f"{shown['source']}, {plural(shown['samples'], 'sample')}", *others])
    return f"{title} {value}  ({origin})"


def _roof_lines(ceiling: dict[str, Any] | None, width: int) -> list[str]:
    if ceiling is None:
        return []
    if "reason" in ceiling:
        return [f"{'Roof':<{width}} {DASH:>7}  {ceiling['reason']}"]
    reached = f"; reached {format_number(ceiling['mbu'] * 100)} %" if ceiling["mbu"] is not None else ""
    lines = [f"{'Roof':<{width}} {ceiling['decode_words']}{reached}"]
    if ceiling["certainty"] == "estimate":
        keys = ", ".join(ceiling["not_understood"][:8])
        lines.append(f"{'':<{width}} an estimate, no bound{f': {keys} not understood' if keys else ''}")
    doubts = ceiling["above"] or [ceiling["cache_guard"]]
    return lines + [f"{'':<{width}} {sentence}" for sentence in doubts if sentence]


def _limit_lines(limits: dict[str, Any] | None) -> list[str]:
    """What to change first comes first."""
    if limits is None:
        return []
    lines = [
        f"{'Limit' if n == 0 else '':<8} {each['of']}: {each['sentence']} {as_sentence(each['evidence'])} "
        f"{'Change this first: ' if n == 0 else ''}{each['remedy']}"
        for n, each in enumerate(limits["found"])
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
