"""Any field of the runs against any other, as a page, as CSV and as JSON."""

from dataclasses import replace
from urllib.parse import urlencode

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import Response

from app.charts import explore as charts
from app.core.errors import BadInput
from app.db.saved_views import views_of
from app.results import explore as explorer
from app.results.explore import DataPoint, Exploration, View
from app.results.explore.parts import mixed_words
from app.results.explore.query import VIEW_PARAMETERS
from app.results.fields.registry import grouped
from app.results.run_filter import PARAMETERS
from app.schemas.explorer import ExplorerDocument
from app.web.deps import ReadSession, declare_query
from app.web.document_response import DocumentResponse
from app.web.errors import error_responses
from app.web.explore_presets import preset_links
from app.web.filter_choices import filter_choices
from app.web.paths import path_for
from app.web.templates import engine_titles, render

router = APIRouter()


@router.get("/explore", name="explore", include_in_schema=False)
def show_explorer(request: Request, session: ReadSession) -> Response:
    """What makes no sense in the address is reported and left out; the rest is shown."""
    exploration = _explore(request, session)
    result = exploration.result
    page_path, run_path = path_for(request, "explore"), path_for(request, "run", public_id="0").removesuffix("0")

    def address(view: View) -> str:
        return f"{page_path}?{urlencode(view.query)}"

    single_runs = address(replace(result.view, raw=True, at=None, among=None))

    def link(data_point: DataPoint) -> str:
        """The address of its run, or of the runs that it stands for."""
        if data_point.public_id is not None:
            return run_path + data_point.public_id
        narrowed = {"at": explorer.value_key(data_point.x)}
        if result.series is not None or result.parts:
            narrowed["among"] = explorer.line_key(data_point.line)
        return f"{single_runs}&{urlencode(narrowed)}"

    figure = charts.figure(result, link)
    response = render(
        request,
        "explore.html",
        saved_views=views_of(session, "explore"),
        status=BadInput.http_status if exploration.problems else 200,
        # not the result with its hundred thousand points: a template's values live until their cycles are collected
        x=result.x,
        y=result.y,
        series=result.series,
        view=result.view,
        figure=figure,
        chart_class=charts.chart_class(figure) if figure else "",
        problems=exploration.problems,
        presets=preset_links(request, exploration.presets, result.view, "explore"),
        groups=grouped(exploration.fields.values()),
        choices=filter_choices(session),
        sources=explorer.SOURCES,
        address=address,
        query=urlencode(result.view.query),
        verdict=explorer.verdict(result),
        left_out=explorer.left_out(result),
        mixed=mixed_words(result.view),
        marks=explorer.MARKS,
        notes=explorer.notes(result),
        empty_text=explorer.empty_text(result),
    )
    response.headers["hx-push-url"] = address(result.view)
    return response


@router.get("/explore.csv", name="explore_csv", include_in_schema=False)
def explore_csv(request: Request, session: ReadSession) -> Response:
    text = explorer.csv(_without_problems(_explore(request, session)).result)
    return Response(text, media_type="text/csv", headers=_attachment("explore.csv"))


@router.get("/explore.json", name="explore_json", include_in_schema=False, response_model=ExplorerDocument)
@router.get(
    "/api/v1/explore",
    name="api_explore",
    summary="Explore fields of runs",
    tags=["explore"],
    response_model=ExplorerDocument,
    responses=error_responses(401, 403, 422),
    dependencies=[declare_query(VIEW_PARAMETERS, PARAMETERS)],
)
def explore_json(request: Request, session: ReadSession) -> Response:
    """Parameters are those of the page: `x`, `y`, `series`, `source`, `mark`, filters and `raw=on`.

    No row mixes machines, hardware, engine versions, models, settings or prompt lengths unless `mix` names them."""
    return DocumentResponse(explorer.document(_without_problems(_explore(request, session)).result))


def _explore(request: Request, session: Session) -> Exploration:
    return explorer.explore(session, dict(request.query_params), engine_titles())


def _without_problems(exploration: Exploration) -> Exploration:
    """For programs, which see no notes beside a chart. Raises BadInput for the first problem."""
    if exploration.problems:
        raise BadInput(exploration.problems[0])
    return exploration


def _attachment(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="roofmark-{name}"'}
