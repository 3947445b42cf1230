import typer

from app.cli.common import log_to_file, notice_dead_workers, open_database, print_json
from app.cli.text import run_text
from app.document import run_document, runs_document
from app.settings import Settings
from app.store.listing import Filter, Row, list_runs
from app.units import ago, number


def show(public_id: str, as_json: bool) -> None:
    settings = Settings()
    log_to_file(settings)
    database = open_database(settings)
    notice_dead_workers(database, settings)
    with database.read() as session:
        document = run_document(session, public_id)
    if as_json:
        print_json(document)
    else:
        typer.echo(run_text(document))


def list_them(where: Filter, sort: str, descending: bool, page: int, per_page: int, as_json: bool) -> None:
    settings = Settings()
    log_to_file(settings)
    database = open_database(settings)
    notice_dead_workers(database, settings)
    with database.read() as session:
        rows, total = list_runs(session, where, sort, descending, page, per_page)
    if as_json:
        print_json(runs_document(rows, total, page, per_page))
    elif not rows:
        typer.echo("No runs yet: measure a server with `roofmark run --url 127.0.0.1:8080`.", err=True)
    else:
        typer.echo(_table(rows))


def _table(rows: list[Row]) -> str:
    head = ("Run", "When", "State", "Model", "Server", "Suite", "TTFT ms", "Prefill tok/s", "Decode tok/s")
    body = [
        (
            row.public_id,
            ago(row.started_at or row.queued_at),
            row.status,
            " ".join(filter(None, [row.model, row.quantization])),
            row.server,
            row.suite_key,
            number(row.ttft.value),
            number(row.prefill.value),
            number(row.decode.value),
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
    numeric = len(head) - 3
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column >= numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [head, *body]
    )
