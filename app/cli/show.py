"""`roofmark show` and `roofmark runs`."""

from textwrap import shorten

from app.cli.common import open_runs, print_json, say
from app.cli.text import run_text
from app.core.config_settings import remote_host
from app.core.units import format_age, format_number
from app.metrics import HEADLINE_METRICS, metrics
from app.results.compare import observations
from app.results.run_filter import RunFilter
from app.results.run_list import RunRow, list_runs
from app.schemas.run_document import run_document, runs_document


def print_run(name: str, as_json: bool) -> None:
    """Prints a run, named by its ID or as `latest`, `previous` or `baseline`. Raises NotFound."""
    with open_runs().read() as session:
        document = run_document(session, observations.resolve_run_id(session, name))
    if as_json:
        print_json(document)
    else:
        say(run_text(document))


def print_runs(run_filter: RunFilter, sort: str, descending: bool, page: int, per_page: int, as_json: bool) -> None:
    """Prints one page of the runs that the filter matches. Raises BadInput for an unknown sort key."""
    with open_runs().read() as session:
        keys = tuple(metrics()) if as_json else HEADLINE_METRICS
        rows, total = list_runs(session, run_filter, sort, descending, page, per_page, keys)
    if as_json:
        print_json(runs_document(rows, total, page, per_page))
    elif not rows:
        say(_empty_list(total, run_filter), err=True)
    else:
        say(_table(rows))


def _empty_list(total: int, run_filter: RunFilter) -> str:
    if total:
        return "This page of the list is empty."
    if run_filter != RunFilter():
        return "No run matches these filters."
    return "No runs yet: measure a server with `roofmark run --url 127.0.0.1:8080`."


_NUMERIC = ("TTFT ms", "Prefill tok/s", "Decode tok/s")
LONGEST_NOTE = 40


def _suite(row: RunRow) -> str:
    """Names the suite; if it has several points, also the one that the numbers are of."""
    points_measured, points_in_suite = row.points
    if points_in_suite == 1:
        return row.suite_key
    partial = f", {points_measured} of {points_in_suite} points" if points_measured < points_in_suite else ""
    return f"{row.suite_key} at {row.main_prompt_tokens:,}{partial}"


def _elsewhere(row: RunRow) -> str:
    host = remote_host(row.settings)
    return f"runs at {host}, not here" if host else ""


def _remarks(row: RunRow) -> str:
    hidden = f"hidden: {row.hidden_reason}" if row.hidden_at else ""
    return " · ".join(filter(None, [hidden, *row.run_labels, row.note]))


def _table(rows: list[RunRow]) -> str:
    head = ("Run", "When", "State", "Model", "Configuration", "Server", "Suite", *_NUMERIC, "Note")
    body = [
        (
            row.public_id,
            format_age(row.started_at or row.queued_at),
            row.status,
            " ".join(filter(None, [row.model, row.quantization])),
            " · ".join(filter(None, [row.engine, row.engine_version, _elsewhere(row), row.particulars])),
            row.server,
            _suite(row),
            *(format_number(row.metrics[key].value) for key in HEADLINE_METRICS),
            shorten(_remarks(row), LONGEST_NOTE, placeholder=" …"),
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if title in _NUMERIC else cell.ljust(width)
            for title, cell, width in zip(head, line, widths, strict=True)
        ).rstrip()
        for line in [head, *body]
    )
