from textwrap import shorten

from app.cli.common import open_runs, print_json, say
from app.cli.text import run_text
from app.core.configuration import runs_elsewhere
from app.core.units import format_age, format_number
from app.metrics import HEADLINE_METRICS, metrics
from app.results.compare import compare_refs
from app.results.run_filter import RunFilter
from app.results.run_list import RunRow, list_runs
from app.schemas.run_document import run_document, runs_document


def show(name: str, as_json: bool) -> None:
    with open_runs().read() as session:
        document = run_document(session, compare_refs.resolve_run_id(session, name))
    if as_json:
        print_json(document)
    else:
        say(run_text(document))


def list_them(where: RunFilter, sort: str, descending: bool, page: int, per_page: int, as_json: bool) -> None:
    with open_runs().read() as session:
        keys = tuple(metrics()) if as_json else HEADLINE_METRICS
        rows, total = list_runs(session, where, sort, descending, page, per_page, keys)
    if as_json:
        print_json(runs_document(rows, total, page, per_page))
    elif not rows:
        say("No runs yet: measure a server with `roofmark run --url 127.0.0.1:8080`.", err=True)
    else:
        say(_table(rows))


_NUMERIC = ("TTFT ms", "Prefill tok/s", "Decode tok/s")
LONGEST_NOTE = 40


def _suite(row: RunRow) -> str:
    """With the point that the numbers are of, where a suite has several."""
    played, there = row.points
    if there == 1:
        return row.suite_key
    some = f", {played} of {there} points" if played < there else ""
    return f"{row.suite_key} at {row.main_prompt_tokens:,}{some}"


def _elsewhere(row: RunRow) -> str:
    host = runs_elsewhere(row.settings)
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
