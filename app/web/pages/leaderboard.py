"""Models as a leaderboard: as a page, as CSV and as JSON. All state is in the address."""

from urllib.parse import urlencode

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import Response

from app.charts import year_sparkline
from app.core.errors import BadInput
from app.db.saved_views import views_of
from app.metrics import metrics
from app.results import leaderboard as best
from app.results.leaderboard import GROUPINGS, SORTS, VIEW_PARAMETERS, LeaderboardView, verdict_words
from app.results.run_filter import PARAMETERS, RunFilter
from app.schemas.best import BestDocument
from app.web.deps import ReadSession, declare_query
from app.web.document_response import DocumentResponse
from app.web.errors import error_responses
from app.web.filter_choices import filter_choices
from app.web.paths import path_for
from app.web.templates import engine_titles, render

MAX_ROWS = 200
"""The most rows of the page; CSV and JSON have all."""

router = APIRouter()


@router.get("/models", name="models", include_in_schema=False)
def show_leaderboard(request: Request, session: ReadSession) -> Response:
    """What makes no sense in the address is reported and left out; the rest is shown."""
    where, problems = RunFilter.parse_leniently(request.query_params)
    try:
        view = LeaderboardView.parse(dict(request.query_params), where)
    except BadInput as error:
        view, problems = LeaderboardView(where), [*problems, str(error)]
    board = best.leaderboard(session, view)
    path = path_for(request, "models")

    def url(**changed: str) -> str:
        """The address of this leaderboard with other parameters; empty ones are left out."""
        query = {name: value for name, value in {**view.active, **changed}.items() if value}
        return f"{path}?{urlencode(query)}" if query else path

    response = render(
        request,
        "leaderboard.html",
        saved_views=views_of(session, "models"),
        status=BadInput.http_status if problems else 200,
        board=board,
        view=view,
        groups=board.groups(engine_titles()),
        most_rows=MAX_ROWS,
        verdict=verdict_words(board),
        problems=problems,
        choices=filter_choices(session),
        metrics=metrics(),
        sorts=SORTS,
        groupings=GROUPINGS,
        url=url,
        query=urlencode(view.active),
        year_sparkline=year_sparkline,
    )
    response.headers["hx-push-url"] = url()
    return response


@router.get("/models.csv", name="models_csv", include_in_schema=False)
def leaderboard_csv(request: Request, session: ReadSession) -> Response:
    headers = {"content-disposition": 'attachment; filename="roofmark-best.csv"'}
    return Response(best.csv(_leaderboard(request, session)), media_type="text/csv", headers=headers)


@router.get(
    "/api/v1/best",
    name="api_best",
    summary="Best results per model",
    tags=["models"],
    response_model=BestDocument,
    responses=error_responses(401, 403, 422),
    dependencies=[declare_query(VIEW_PARAMETERS, PARAMETERS)],
)
def get_best(request: Request, session: ReadSession) -> Response:
    """The best of each model, quantization and machine at one suite, with its latest result, filtered as on the page
    Models; `by` is a metric such as decode, prefill or ttft."""
    return DocumentResponse(best.document(_leaderboard(request, session)))


def _leaderboard(request: Request, session: Session) -> best.Leaderboard:
    return best.leaderboard(session, LeaderboardView.parse(dict(request.query_params)))
