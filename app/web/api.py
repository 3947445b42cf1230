"""The JSON API. The documents and the errors are described by the models of app/schemas."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from app.db import annotations, removal
from app.metrics import metrics
from app.results.compare import compare, to_json
from app.results.run_filter import PARAMETERS
from app.results.run_list import list_runs
from app.results.wrong_runs import wrong_runs
from app.schemas.comparison import ComparisonDocument
from app.schemas.run import QueuedRunDocument, RunDocument, RunsDocument
from app.schemas.run_document import run_document, runs_document
from app.suites import DEFAULT_SUITE
from app.web.deps import DatabaseDep, FilterDep, ReadSession, RunnerDep, WriteSession, declare_query
from app.web.document_response import DocumentResponse
from app.web.errors import error_responses
from app.web.paths import path_for
from app.web.templates import engine_titles

MAX_PER_PAGE = 500


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PydanticCustomError("invalid_character", "contains an invalid character") from error
    return text


Text = Annotated[str, AfterValidator(_without_surrogates)]
"""JSON can contain one half of a surrogate pair, which cannot be stored."""

router = APIRouter(prefix="/api/v1", tags=["runs"], responses=error_responses(401, 403, 422))


class NewRun(BaseModel):
    """What to measure. Counts default to the suite's, the model to the server's."""

    model_config = ConfigDict(extra="forbid")

    server: Text
    suite: Text = DEFAULT_SUITE
    repetitions: int | None = None
    warmups: int | None = None
    model: Text | None = None
    note: Text = ""
    runs: int = Field(1, description="Number of runs, measured one after another.")


class RunChange(BaseModel):
    """Changes of a run; a missing field stays as it is."""

    model_config = ConfigDict(extra="forbid")

    note: Text | None = None
    labels: list[Text] | None = None
    hidden: Text | None = Field(
        None, description="The reason to hide the run from statistics; an empty one shows it again."
    )


@router.get(
    "/runs", name="api_runs", summary="List runs", response_model=RunsDocument, dependencies=[declare_query(PARAMETERS)]
)
def get_runs(
    session: ReadSession,
    where: FilterDep,
    sort: str = "queued",
    descending: bool = True,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    per_page: Annotated[int, Query(ge=1, le=MAX_PER_PAGE)] = 50,
) -> Response:
    """A page of the list of runs, filtered as on the page Runs."""
    rows, total = list_runs(session, where, sort, descending, page, per_page, tuple(metrics()), has_particulars=False)
    wrong = wrong_runs(session, [row.public_id for row in rows])
    return DocumentResponse(runs_document(rows, total, page, per_page, wrong))


@router.get(
    "/runs/{public_id}",
    name="api_run",
    summary="Read a run",
    response_model=RunDocument,
    responses=error_responses(404),
)
def get_run(session: ReadSession, public_id: str) -> Response:
    """One run with its results."""
    return DocumentResponse(run_document(session, public_id))


@router.get(
    "/compare",
    name="api_compare",
    summary="Compare runs",
    response_model=ComparisonDocument,
    responses=error_responses(404, 409),
)
def get_comparison(
    session: ReadSession,
    run: Annotated[list[str], Query(default_factory=list)],
    metric: Annotated[list[str], Query(default_factory=list)],
    same_within: Annotated[float | None, Query(gt=0, lt=1)] = None,
) -> Response:
    """Compares runs with the first of them. A name is a run's id, `latest`, `baseline`, or `config:` and an id."""
    comparison = compare(session, run, engine_titles(), tuple(dict.fromkeys(metric)), limit=same_within)
    return DocumentResponse(to_json(comparison))


@router.post(
    "/runs",
    name="api_new_run",
    summary="Queue runs",
    status_code=201,
    response_model=QueuedRunDocument,
    responses=error_responses(404, 409, 502),
)
def post_run(request: Request, database: DatabaseDep, runner: RunnerDep, new_run: NewRun) -> Response:
    """Queues one run or several; the response is the document of the first."""
    public_ids = runner.queue(
        new_run.server,
        new_run.suite,
        new_run.runs,
        repetitions=new_run.repetitions,
        warmups=new_run.warmups,
        model=new_run.model,
        note=new_run.note,
    )
    with database.read() as session:
        document = {**run_document(session, public_ids[0]), "queued": public_ids}
    location = path_for(request, "api_run", public_id=public_ids[0])
    return DocumentResponse(document, status_code=201, headers={"location": location})


@router.patch(
    "/runs/{public_id}",
    name="api_change_run",
    summary="Change a run",
    response_model=RunDocument,
    responses=error_responses(404),
)
def change_run(session: WriteSession, public_id: str, change: RunChange) -> Response:
    """Changes the note or the labels of a run, hides it from statistics, or shows it again."""
    if change.note is not None:
        annotations.edit_note(session, public_id, change.note)
    if change.labels is not None:
        annotations.set_labels(session, public_id, change.labels)
    if change.hidden:
        annotations.hide(session, public_id, change.hidden)
    elif change.hidden is not None:
        annotations.unhide(session, public_id)
    session.flush()
    return DocumentResponse(run_document(session, public_id))


@router.delete(
    "/runs/{public_id}",
    name="api_delete_run",
    summary="Delete a run",
    status_code=204,
    responses=error_responses(404, 409),
)
def delete_run(session: WriteSession, public_id: str) -> None:
    """Deletes a run that has ended, with its samples."""
    removal.delete_run(session, public_id)


@router.post(
    "/runs/{public_id}/cancel",
    name="api_cancel_run",
    summary="Cancel a run",
    response_model=RunDocument,
    responses=error_responses(404, 409),
)
def cancel_run(database: DatabaseDep, runner: RunnerDep, public_id: str) -> Response:
    """Cancels a run that waits or is being measured; finished samples stay."""
    runner.cancel(public_id)
    with database.read() as session:
        return DocumentResponse(run_document(session, public_id))
