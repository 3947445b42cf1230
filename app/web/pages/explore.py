"""Any field of the runs against any other, as a page, as CSV and as JSON."""

from dataclasses import replace
from urllib.parse import urlencode

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.charts import explore as charts
from app.core.errors import BadInput
from app.results import explore as explorer
from app.results.explore import DataPoint, Exploration, View
from app.results.explore.query import OWN
from app.results.run_filter import FIELDS
from app.schemas.explorer import ExplorerDocument
from app.web.deps import ReadSession, declare_query
from app.web.errors import error_responses
from app.web.filter_choices import filter_choices
from app.web.paths import path_for
from app.web.templates import engine_titles, render

router = APIRouter()


@router.get("/explore", name="explore", include_in_schema=False)
def show_explorer(request: Request, session: ReadSession) -> Response:
    """What makes no sense in the address is said and left out; the rest is shown."""
    found = _explored(request, session)
    sheet = found.sheet
    here, run_path = path_for(request, "explore"), path_for(request, "run", public_id="0").removesuffix("0")

    def address(view: View) -> str:
        return f"{here}?{urlencode(view.query)}"

    each = address(replace(sheet.view, raw=True, at=None, among=None))

    def link(mark: DataPoint) -> str:
        """To its run, or to the runs that it stands for."""
        if mark.public_id is not None:
            return run_path + mark.public_id
        narrowed = {"at": explorer.key(mark.x)}
        if sheet.series is not None:
            narrowed["among"] = explorer.key(mark.series)
        return f"{each}&{urlencode(narrowed)}"

    figure = charts.figure(sheet, link)
    response = render(
        request,
        "explore.html",
        status=BadInput.http_status if found.problems else 200,
        # not the sheet with its hundred thousand marks: what a template holds stays until its cycles are collected
        x=sheet.x,
        y=sheet.y,
        series=sheet.series,
        view=sheet.view,
        figure=figure,
        chart_class=charts.chart_class(figure) if figure else "",
        problems=found.problems,
        presets=found.presets,
        groups=explorer.grouped(found.fields.values()),
        choices=filter_choices(session),
        sources=explorer.SOURCES,
        address=address,
        query=urlencode(sheet.view.query),
        notes=charts.notes(sheet),
        nothing=charts.nothing(sheet),
    )
    response.headers["hx-push-url"] = address(sheet.view)
    return response


@router.get("/explore.csv", name="explore_csv", include_in_schema=False)
def explore_csv(request: Request, session: ReadSession) -> Response:
    text = explorer.csv(_sound(_explored(request, session)).sheet)
    return Response(text, media_type="text/csv", headers=_file("explore.csv"))


@router.get("/explore.json", name="explore_json", include_in_schema=False, response_model=ExplorerDocument)
@router.get(
    "/api/v1/explore",
    name="api_explore",
    summary="Explore fields of runs",
    tags=["explore"],
    response_model=ExplorerDocument,
    responses=error_responses(401, 403, 422),
    dependencies=[declare_query(OWN, FIELDS)],
)
def explore_json(request: Request, session: ReadSession) -> Response:
    """Parameters are those of the page: `x`, `y`, `series`, `source`, filters and `raw=on`."""
    return JSONResponse(explorer.document(_sound(_explored(request, session)).sheet))


def _explored(request: Request, session: Session) -> Exploration:
    return explorer.explore(session, dict(request.query_params), engine_titles())


def _sound(found: Exploration) -> Exploration:
    """A program is told what a person would see. Raises BadInput."""
    if found.problems:
        raise BadInput(found.problems[0])
    return found


def _file(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="roofmark-{name}"'}
