"""How TTFT, prefill and decode changed over time."""

from collections.abc import Sequence
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app import charts
from app.roof import config_roofs
from app.store import configs, filters, listing, measurements
from app.store.filters import Filter
from app.suites import USUAL
from app.web.deps import Reading
from app.web.paths import path_for
from app.web.render import engine_titles, render

FEW_POINTS = 40
"""So many have room for their 95 % intervals."""
SHORT_POINTS = 4
"""So few need no tall chart."""

router = APIRouter(include_in_schema=False)


@router.get("/history", name="history")
def show_history(
    request: Request,
    session: Reading,
    machine: str | None = None,
    server: str | None = None,
    model: str | None = None,
    suite: str | None = None,
    config: str | None = None,
) -> Response:
    """Always of one suite: speeds at different prompt lengths are different things. Empty choices mean all."""
    choices = filters.filter_choices(session)
    chosen = suite or _usual(choices["suite"])
    where = Filter("done", machine or None, server or None, model or None, chosen, config or None)
    path = path_for(request, "history")
    run_path = path_for(request, "run", public_id="0").removesuffix("0")  # once, not for thousands of points
    points = listing.history(session, where)
    few = {point.public_id for point in points} if len(points) <= FEW_POINTS else set()
    figure = charts.history(
        points,
        configs.describe(session),
        run_link=lambda public_id: run_path + public_id,
        config_link=lambda fingerprint: f"{path}?{urlencode({'suite': chosen, 'config': fingerprint})}",
        engine_titles=engine_titles(),
        intervals=measurements.shown_intervals(session, few) if few else {},
        roofs={
            config_id: roof.ceiling.tokens_per_s
            for (config_id, suite_key), roof in config_roofs(session).items()
            if suite_key == chosen
        },
    )
    response = render(
        request,
        "history.html",
        figure=figure,
        choices={name: choices[name] for name in ("machine", "server", "model", "suite")},
        chosen={"machine": machine, "server": server, "model": model, "suite": chosen},
        config=config,
        is_short=len(points) <= SHORT_POINTS,
        is_filtered=bool(machine or server or model or suite or config),
    )
    # the address of what is shown, for whom scripts do the choosing
    response.headers["hx-push-url"] = f"{path}?{urlencode({k: v for k, v in where.active.items() if k != 'status'})}"
    return response


def _usual(suites: Sequence[tuple[str, str]]) -> str:
    keys = [key for key, _ in suites]
    return USUAL if USUAL in keys or not keys else keys[0]
