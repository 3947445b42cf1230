"""How decode falls with context: one curve for each configuration, under its ceiling."""

from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.charts.context import context_figure
from app.core.errors import BadInput
from app.results import explore as explorer
from app.results.context_curves import MAX_CURVES, ContextCurve, context_curves, context_verdict
from app.results.explore import View
from app.results.fields.registry import DECODE
from app.results.run_filter import RunFilter
from app.web.deps import ReadSession
from app.web.explore_presets import preset_links
from app.web.filter_choices import filter_choices
from app.web.paths import path_for
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/explore/context", name="context")
def show_context(request: Request, session: ReadSession) -> Response:
    """What makes no sense in the address is reported and left out; the rest is shown."""
    run_filter, problems = RunFilter.parse_leniently(request.query_params)
    has_all_builds = request.query_params.get("builds") == "all"
    curves = context_curves(session, run_filter, has_all_builds)
    run_path = path_for(request, "run", public_id="0").removesuffix("0")

    def address(builds: str, run_filter: RunFilter = run_filter) -> str:
        query = run_filter.active | ({"builds": builds} if builds else {})
        return f"{path_for(request, 'context')}?{urlencode(query)}".removesuffix("?")

    def link(curve: ContextCurve) -> str:
        return run_path + curve.public_id

    response = render(
        request,
        "context.html",
        status=BadInput.http_status if problems else 200,
        curves=curves,
        is_cut=len(curves) == MAX_CURVES,
        verdict=context_verdict(curves),
        figure=context_figure(curves, link),
        link=link,
        where=run_filter,
        has_all_builds=has_all_builds,
        problems=problems,
        choices=filter_choices(session),
        presets=preset_links(
            request, explorer.presets(session), View("context_tokens", DECODE, "variant", where=run_filter), "context"
        ),
        address=address,
        unfiltered=address("", RunFilter()),
    )
    response.headers["hx-push-url"] = address("all" if has_all_builds else "")
    return response
