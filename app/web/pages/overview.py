"""The overview: the latest result, what got worse lately, what is running, and ways to the answers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.charts import year_sparkline
from app.core.i18n import _
from app.db import runs, servers
from app.db.devices import local_name
from app.db.saved_views import pinned_views
from app.db.tables import now
from app.results import hardware
from app.results.history.lately import RecentChange, recent_changes
from app.results.latest import LatestResult, latest_result
from app.results.leaderboard import LeaderboardView, leaderboard
from app.results.previous import previous
from app.results.run_filter import RunFilter
from app.results.run_list import list_runs
from app.suites import DEFAULT_SUITE
from app.web.deps import ReadSession
from app.web.paths import path_for
from app.web.progress import Progress, progress_now
from app.web.templates import engine_titles, is_partial, render

MOST_CHANGES = 5
MOST_QUEUED = 3
MOST_BEST = 10

router = APIRouter(include_in_schema=False)


@router.get("/", name="overview")
def show_overview(request: Request, session: ReadSession) -> Response:
    counts = runs.counts_by_status(session)
    if not counts:
        return _welcome(request, session)
    latest = latest_result(session, engine_titles())
    board = leaderboard(session, LeaderboardView()) if latest else None
    changes = recent_changes(session, now(), engine_titles()) if latest else []
    return render(
        request,
        "overview.html",
        latest=latest,
        changes=changes[:MOST_CHANGES],
        n_worse=sum(change.is_worse and change.kind != "wrong" for change in changes),
        n_wrong=sum(change.kind == "wrong" for change in changes),
        n_more_changes=max(0, len(changes) - MOST_CHANGES),
        counts=counts,
        n_runs=sum(counts.values()),
        pinned=pinned_views(session),
        board=board,
        best=board.rows[:MOST_BEST] if board else [],
        year_sparkline=year_sparkline,
        answers=_answers(request, session, latest, changes),
        **_running(session, counts),
    )


@router.get("/running", name="running")
def show_running(request: Request, session: ReadSession, run: str = "") -> Response:
    """The part of the overview that is loaded again while something runs: little, since it must not disturb what is
    measured. When another run than `run` is running, the whole page is loaded again."""
    context = _running(session, runs.counts_by_status(session))
    if not is_partial(request):
        return RedirectResponse(path_for(request, "overview"), status_code=303)
    response = render(request, "_running.html", **context)
    if run != _running_id(context["progresses"]):
        response.headers["hx-refresh"] = "true"
    return response


def _running(session: Session, counts: Mapping[str, int]) -> dict[str, Any]:
    waiting = RunFilter(status="queued")
    queue = list_runs(session, waiting, descending=False, per_page=MOST_QUEUED) if counts.get("queued") else None
    progresses = progress_now(session) if counts.get("running") else []
    return {
        "progresses": progresses,
        "running_id": _running_id(progresses),
        "queued": queue[0] if queue else [],
        "n_queued": queue[1] if queue else 0,
    }


def _running_id(progresses: Sequence[Progress]) -> str:
    return progresses[0].public_id if progresses else ""


class Answer(NamedTuple):
    """A question that a notebook answers, and the page that does."""

    question: str
    path: str


def _answers(
    request: Request, session: Session, latest: LatestResult | None, changes: Sequence[RecentChange]
) -> list[Answer]:
    wrong = next((change.after for change in changes if change.kind == "wrong"), None)
    earlier = previous(session, latest.run, engine_titles()) if latest else None
    pair = [("run", earlier.public_id), ("run", latest.run.public_id)] if latest and earlier and earlier.run else []
    model = f"?{urlencode({'name': latest.run.model.name})}" if latest and latest.run.model else ""
    return [
        Answer(_("Which quantization is fastest?"), f"{path_for(request, 'model_speeds')}{model}"),
        Answer(_("What is the best per model?"), path_for(request, "models")),
        Answer(_("Did an update slow me down?"), path_for(request, "history")),
        Answer(_("What did my last change do?"), f"{path_for(request, 'compare')}?{urlencode(pair)}"),
        Answer(_("How does decode fall with context?"), path_for(request, "context")),
        Answer(_("Is a run wrong?"), path_for(request, "run", public_id=wrong) if wrong else path_for(request, "runs")),
        Answer(_("Does it fit into memory?"), _memory_path(request, latest)),
    ]


def _memory_path(request: Request, latest: LatestResult | None) -> str:
    """Returns the address that says whether the newest model fits: the calculator with its device; the run itself where
    several devices hold it, or an unknown one."""
    if latest is None or (run := latest.run).model is None or run.config is None:
        return path_for(request, "ceiling")
    model, settings = run.model, run.config.settings
    cards = [device for device in hardware.thaw_devices(run.hardware or []) if device.kind == "accelerator"]
    if len(cards) != 1 or cards[0].count != 1 or not cards[0].bandwidths:
        return f"{path_for(request, 'run', public_id=run.public_id)}#ceiling-title"
    kv = dict.fromkeys(str(settings[key]) for key in ("kv_type_k", "kv_type_v") if settings.get(key))
    query = {"model": model.id, "device": local_name(cards[0].name, run.machine.name)}
    return f"{path_for(request, 'ceiling')}?{urlencode(query | ({'kv': '/'.join(kv)} if kv else {}))}"


def _welcome(request: Request, session: Session) -> Response:
    """The overview of an empty notebook. It looks for servers of this machine after it has loaded: that takes up to a
    second."""
    return render(request, "welcome.html", servers=servers.list_servers(session), suite=DEFAULT_SUITE)
