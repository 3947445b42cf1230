"""The page of a model: its quantizations on each machine, with the answer in words first."""

from typing import NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app import charts
from app.charts import Figure
from app.charts.base import Annotation
from app.charts.context import context_figure
from app.core.errors import BadInput
from app.core.i18n import _, lower_first
from app.db.machines import all_machines
from app.metrics import HEADLINE_METRICS, metrics
from app.results.context_curves import context_verdict
from app.results.history.updates import Update, update_words
from app.results.leaderboard import LeaderboardView, measured_suites
from app.results.model import MachineSpeeds, ModelSpeeds, model_speeds, model_words
from app.results.run_filter import RunFilter
from app.web.deps import ReadSession
from app.web.paths import path_for
from app.web.templates import engine_titles, render

MOST_CHARTED = 4
"""The most machines with charts: those with the best results."""
_PARAMETERS = ("by",)
"""Parameters of the address besides the name and the filter."""

router = APIRouter(include_in_schema=False)


class MachineSection(NamedTuple):
    """A machine with its charts; None: there is nothing to draw."""

    speeds: MachineSpeeds
    contexts: Figure | None
    context_verdict: str
    """How decode falls with context, in words; empty where nothing tells."""
    builds: Figure | None


@router.get("/models/named", name="model_speeds")
def show_model(request: Request, session: ReadSession, name: str) -> Response:
    """What makes no sense in the address is reported and left out; the rest is shown."""
    where, problems = RunFilter.parse_leniently(request.query_params)
    parameters = {key: request.query_params.get(key) for key in _PARAMETERS}
    try:
        view = LeaderboardView.parse(parameters, where)
    except BadInput as error:
        view, problems = LeaderboardView(where), [*problems, str(error)]
    model = model_speeds(session, name, view)
    response = render(
        request,
        "model_speeds.html",
        status=BadInput.http_status if problems else 200,
        model=model,
        view=view,
        verdict=model_words(model),
        sections=[
            _section(request, model, machine, has_charts=place < MOST_CHARTED)
            for place, machine in enumerate(model.machines)
        ],
        columns=[metrics()[key] for key in dict.fromkeys((view.by, *reversed(HEADLINE_METRICS)))],
        suites=[(key, key) for key in measured_suites(session)],
        machines=[(machine.slug, machine.name) for machine in all_machines(session)],
        metrics=metrics(),
        problems=problems,
    )
    query = urlencode({"name": name, **view.active})
    response.headers["hx-push-url"] = f"{path_for(request, 'model_speeds')}?{query}"
    return response


def _section(request: Request, model: ModelSpeeds, machine: MachineSpeeds, *, has_charts: bool) -> MachineSection:
    if not has_charts:
        return MachineSection(machine, None, _context_words(machine), None)
    run_path = path_for(request, "run", public_id="0").removesuffix("0")
    compare_path = path_for(request, "compare")
    config_ids = {config_id for speed in machine.quantizations for config_id in speed.row.config_ids}

    def link(public_id: str) -> str:
        return run_path + public_id

    def mark(update: Update) -> Annotation:
        """An update in words, with a comparison of this model's runs on both sides of it."""
        shift = next(shift for shift in update.shifts if shift.metric.key == model.metric.key)
        change = next(change for change in update.shifted(shift) if config_ids.intersection(change.series.config_ids))
        query = urlencode([("run", change.before), ("run", change.after)])
        return Annotation(update_words(update, engine_titles()), links=((_("compare"), f"{compare_path}?{query}"),))

    looks = {
        config_id: place
        for place, speed in enumerate(machine.quantizations[: charts.MAX_SERIES])
        for config_id in speed.row.config_ids
    }
    curves = [curve for curve in machine.curves if curve.config_id in looks]
    return MachineSection(
        machine,
        context_figure(curves, lambda curve: link(curve.public_id), looks),
        _context_words(machine),
        charts.model_builds(machine.quantizations, model.metric, machine.updates, link, mark),
    )


def _context_words(machine: MachineSpeeds) -> str:
    """Returns how decode falls with context, and with which quantization; empty where nothing tells."""
    verdict = context_verdict(machine.curves)
    if len(machine.curves) != 1:
        return verdict
    return _("{name}: {sentence}", name=machine.curves[0].title, sentence=lower_first(verdict))
