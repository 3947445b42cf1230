"""How metrics changed over time. All state of the page is in its address."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from app.core.errors import BadInput
from app.db import configs, machines, saved_views
from app.db.tables import now
from app.metrics import metrics
from app.results.run_filter import RunFilter
from app.suites import DEFAULT_SUITE
from app.web.deps import ReadSession
from app.web.filter_choices import filter_choices
from app.web.history_content import HistoryContent, history_content
from app.web.history_view import (
    MAX_HIDDEN,
    PERIODS,
    FieldFilter,
    HistoryView,
    filterable_values,
    groupings,
    parse_grouping,
)
from app.web.paths import path_for
from app.web.templates import engine_titles, is_partial, render

router = APIRouter(include_in_schema=False)
Several = Annotated[Sequence[str], Query()]


@router.get("/history", name="history")
def show_history(
    request: Request,
    session: ReadSession,
    metric: str = "",
    by: str = "",
    period: str = "",
    axis: str = "",
    ceilings: str = "",
    only: Several = (),
    hide: Several = (),
) -> Response:
    """Shows the history of one suite, since speeds at different prompt lengths are not comparable."""
    choices = filter_choices(session)
    config_by_id = configs.describe(session)
    where, problems = RunFilter.parse_leniently(request.query_params)
    where = replace(where, suite=where.suite or _default_suite(choices["suite"]))
    all_machines = machines.all_machines(session)
    error, content = None, HistoryContent()
    try:
        if problems:
            raise BadInput(problems[0])
        narrowed = tuple(FieldFilter.read(text) for text in only if text)
        grouping = parse_grouping(by, config_by_id)
        view = HistoryView(where, metric, grouping, narrowed, period, axis, ceilings, tuple(hide[:MAX_HIDDEN]))
        content = history_content(request, session, view, config_by_id, all_machines)
    except BadInput as bad_input:
        view, error = HistoryView(where), bad_input
    response = render(
        request,
        "_history.html" if is_partial(request) else "history.html",
        status=error.http_status if error else 200,
        is_partial=is_partial(request),
        error=error,
        content=content,
        view=view,
        choices=choices,
        metrics=metrics(),
        groupings=groupings(config_by_id),
        periods=PERIODS,
        values=filterable_values(config_by_id, engine_titles()),
        machines=all_machines,
        saved_views=saved_views.views_of(session, "history"),
        today=now().date(),
        is_filtered=bool(request.query_params),
    )
    if not error:  # the address of the current view, for readers whose choices are made by scripts
        response.headers["hx-push-url"] = f"{path_for(request, 'history')}?{view.query}"
    return response


def _default_suite(suites: Sequence[tuple[str, str]]) -> str | None:
    keys = [key for key, _ in suites]
    return DEFAULT_SUITE if DEFAULT_SUITE in keys or not keys else keys[0]
