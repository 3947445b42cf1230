"""How metrics changed over time."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from app import charts
from app.metrics import metrics
from app.roof import config_roofs
from app.store import configs, filters
from app.store.filters import Filter
from app.store.history import Period, history
from app.suites import USUAL
from app.web.deps import Reading
from app.web.history_view import Only, View, groupings, read_by, read_day, values_of
from app.web.paths import path_for
from app.web.render import engine_titles, render

SHORT_POINTS = 4
"""So few need no tall chart."""

router = APIRouter(include_in_schema=False)


@router.get("/history", name="history")
def show_history(
    request: Request,
    session: Reading,
    metric: str = "",
    by: str = "",
    machine: str = "",
    server: str = "",
    model: str = "",
    suite: str = "",
    config: str = "",
    label: str = "",
    only: Annotated[Sequence[str], Query()] = (),
    since: Annotated[str, Query(alias="from")] = "",
    until: Annotated[str, Query(alias="to")] = "",
) -> Response:
    """Always of one suite: speeds at different prompt lengths are different things. Empty choices mean all."""
    from app.compare.shifts import shifts  # loads numpy: not at start

    choices = filters.filter_choices(session)
    known = configs.describe(session)
    view = View(
        Filter(
            machine=machine or None,
            server=server or None,
            model=model or None,
            suite=suite or _usual(choices["suite"]),
            config=config or None,
            label=label or None,
        ),
        metric,
        read_by(by, known),
        tuple(Only.read(each) for each in only if each),
        Period(read_day(since), read_day(until)),
    )
    shown = view.metrics
    points, hidden = history(
        session,
        view.where,
        [each.key for each in shown],
        view.period,
        view.config_ids(known, engine_titles()),
    )
    path = path_for(request, "history")
    run_path = path_for(request, "run", public_id="0").removesuffix("0")  # once, not for thousands of points
    figure = charts.history(
        points,
        known,
        shown,
        run_link=lambda public_id: run_path + public_id,
        by=view.by,
        series_link=None if view.by == "label" else lambda value: f"{path}?{view.narrowed(value).query}",
        engine_titles=engine_titles(),
        roofs={
            config_id: roof.ceiling.tokens_per_s
            for (config_id, suite_key), roof in config_roofs(session).items()
            if suite_key == view.where.suite
        },
        shifts=shifts(points, len(shown)),
    )
    response = render(
        request,
        "history.html",
        figure=figure,
        view=view,
        hidden=hidden,
        choices=choices,
        metrics=metrics(),
        groupings=groupings(known),
        values=values_of(known, engine_titles()),
        is_short=len(points) <= SHORT_POINTS,
        is_filtered=bool(request.query_params),
    )
    # the address of what is shown, for whom scripts do the choosing
    response.headers["hx-push-url"] = f"{path}?{view.query}"
    return response


def _usual(suites: Sequence[tuple[str, str]]) -> str | None:
    keys = [key for key, _ in suites]
    return USUAL if USUAL in keys or not keys else keys[0]
