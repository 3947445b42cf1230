"""How metrics changed over time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import Response

from app import charts
from app.core.errors import BadInput
from app.db import configs
from app.db.configs import ConfigDescription
from app.metrics import metrics
from app.results import hardware
from app.results.ceiling import config_ceilings
from app.results.history.series import history
from app.results.run_filter import RunFilter
from app.suites import DEFAULT_SUITE
from app.web.deps import ReadSession
from app.web.filter_choices import filter_choices
from app.web.history_view import FieldFilter, HistoryView, filterable_values, groupings, parse_grouping
from app.web.paths import path_for
from app.web.templates import engine_titles, is_partial, render

router = APIRouter(include_in_schema=False)


@router.get("/history", name="history")
def show_history(
    request: Request,
    session: ReadSession,
    metric: str = "",
    by: str = "",
    only: Annotated[Sequence[str], Query()] = (),
) -> Response:
    """The history of one suite, since speeds at different prompt lengths are not comparable."""
    choices = filter_choices(session)
    config_by_id = configs.describe(session)
    where, problems = RunFilter.parse_leniently(request.query_params)
    where = replace(where, suite=where.suite or _default_suite(choices["suite"]))
    error, figure, hidden = None, None, 0
    try:
        if problems:
            raise BadInput(problems[0])
        narrowed = tuple(FieldFilter.read(text) for text in only if text)
        view = HistoryView(where, metric, parse_grouping(by, config_by_id), narrowed)
        figure, hidden = _history_figure(request, session, view, config_by_id)
    except BadInput as bad_input:
        view, error = HistoryView(where), bad_input
    response = render(
        request,
        "_history.html" if is_partial(request) else "history.html",
        status=error.http_status if error else 200,
        error=error,
        figure=figure,
        view=view,
        hidden=hidden,
        choices=choices,
        metrics=metrics(),
        groupings=groupings(config_by_id),
        values=filterable_values(config_by_id, engine_titles()),
        is_filtered=bool(request.query_params),
    )
    if not error:  # the address of what is shown, for whom scripts do the choosing
        response.headers["hx-push-url"] = f"{path_for(request, 'history')}?{view.query}"
    return response


def _history_figure(
    request: Request, session: Session, view: HistoryView, config_by_id: Mapping[int, ConfigDescription]
) -> tuple[charts.Figure | None, int]:
    """The figure, None without data, and the number of hidden runs it leaves out."""
    from app.results.history.level_shifts import drifts, shifts  # loads numpy: not at start

    shown = view.metrics
    ids = view.config_ids(config_by_id, engine_titles())
    points, hidden = history(session, view.where, [metric.key for metric in shown], ids)
    path = path_for(request, "history")
    run_path = path_for(request, "run", public_id="0").removesuffix("0")  # once, not for thousands of points
    changes = hardware.timelines(session).all_changes()
    figure = charts.history(
        points,
        config_by_id,
        shown,
        run_link=lambda public_id: run_path + public_id,
        by=view.by,
        series_link=None if view.by == "label" else lambda value: f"{path}?{view.narrowed(value).query}",
        engine_titles=engine_titles(),
        roofs={
            config_id: config_ceiling.ceiling.tokens_per_s
            for (config_id, suite_key), config_ceiling in config_ceilings(session).items()
            if suite_key == view.where.suite
        },
        shifts=shifts(points, len(shown), changes),
        drifts=drifts(points, len(shown), changes),
        hardware=changes,
    )
    return figure, hidden


def _default_suite(suites: Sequence[tuple[str, str]]) -> str | None:
    keys = [key for key, _ in suites]
    return DEFAULT_SUITE if DEFAULT_SUITE in keys or not keys else keys[0]
