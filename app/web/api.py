"""The JSON API. Errors are `{"error": {"message": sentence}}`; see app/document.py for the documents."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.db import annotations, removal
from app.metrics import HEADLINE_METRICS
from app.results.compare import compare, to_json
from app.results.run_list import list_runs
from app.schemas.run_document import run_document, runs_document
from app.suites import USUAL
from app.web.deps import DatabaseDep, FilterDep, ReadSession, RunnerDep, WriteSession
from app.web.paths import path_for
from app.web.templates import engine_titles

LARGEST_PAGE = 500


def _whole_characters(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds a broken character") from error
    return text


Text = Annotated[str, AfterValidator(_whole_characters)]
"""JSON can spell half a character, which nothing can store."""

router = APIRouter(prefix="/api/v1", tags=["runs"])


class NewRun(BaseModel):
    """What to measure; counts and model are the suite's and the server's own unless given."""

    model_config = ConfigDict(extra="forbid")

    server: Text
    suite: Text = USUAL
    repetitions: int | None = None
    warmups: int | None = None
    model: Text | None = None
    note: Text = ""
    runs: int = 1
    """How many of the same are measured one after another."""


class RunChange(BaseModel):
    """What a person may change of a run; what is not named stays."""

    model_config = ConfigDict(extra="forbid")

    note: Text | None = None
    labels: list[Text] | None = None
    hidden: Text | None = None
    """Why it is left out of statistics; an empty reason takes it back in."""


@router.get("/runs", name="api_runs")
def get_runs(
    session: ReadSession,
    where: FilterDep,
    sort: str = "queued",
    descending: bool = True,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    per_page: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 50,
) -> dict[str, Any]:
    rows, total = list_runs(session, where, sort, descending, page, per_page)
    return runs_document(rows, total, page, per_page)


@router.get("/runs/{public_id}", name="api_run")
def get_run(session: ReadSession, public_id: str) -> dict[str, Any]:
    return run_document(session, public_id)


@router.get("/compare", name="api_compare")
def get_comparison(
    session: ReadSession,
    run: Annotated[list[str], Query(default_factory=list)],
    metric: Annotated[list[str], Query(default_factory=list)],
    same_within: Annotated[float | None, Query(gt=0, lt=1)] = None,
) -> dict[str, Any]:
    """The first run is the base; names as `roofmark compare` takes them."""
    return to_json(
        compare(session, run, engine_titles(), tuple(dict.fromkeys(metric)) or HEADLINE_METRICS, limit=same_within)
    )


@router.post("/runs", name="api_new_run", status_code=201)
def post_run(request: Request, database: DatabaseDep, runner: RunnerDep, new_run: NewRun) -> Response:
    """The document is that of the first run; `queued` names all of them."""
    public_ids = runner.queue_several(
        new_run.server,
        new_run.suite,
        new_run.runs,
        repetitions=new_run.repetitions,
        warmups=new_run.warmups,
        model=new_run.model,
        note=new_run.note,
    )
    location = {"location": path_for(request, "api_run", public_id=public_ids[0])}
    with database.read() as session:
        document = {**run_document(session, public_ids[0]), "queued": public_ids}
    return JSONResponse(document, status_code=201, headers=location)


@router.patch("/runs/{public_id}", name="api_change_run")
def change_run(session: WriteSession, public_id: str, change: RunChange) -> dict[str, Any]:
    if change.note is not None:
        annotations.edit_note(session, public_id, change.note)
    if change.labels is not None:
        annotations.set_labels(session, public_id, change.labels)
    if change.hidden:
        annotations.hide(session, public_id, change.hidden)
    elif change.hidden is not None:
        annotations.unhide(session, public_id)
    session.flush()
    return run_document(session, public_id)


@router.delete("/runs/{public_id}", name="api_delete_run", status_code=204)
def delete_run(session: WriteSession, public_id: str) -> None:
    removal.delete_run(session, public_id)


@router.post("/runs/{public_id}/cancel", name="api_cancel_run")
def cancel_run(database: DatabaseDep, runner: RunnerDep, public_id: str) -> dict[str, Any]:
    runner.cancel(public_id)
    with database.read() as session:
        return run_document(session, public_id)
