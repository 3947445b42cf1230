"""Runs and configurations compared, chosen by the address; and pinning the baseline of later runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app import charts
from app.db import baselines
from app.db.runs import MAX_QUEUED_AT_ONCE, runs_by_id
from app.db.saved_views import views_of
from app.db.tables import now
from app.metrics.base import SOURCES
from app.results.compare import Comparison, compare
from app.results.compare.observations import CONFIG, FEWEST, MOST, WORDS
from app.results.compare.result import Subject, order_by, pair_scatter_words
from app.results.compare.words import best_words, incomparable_words
from app.results.run_filter import RunFilter
from app.results.run_list import list_runs
from app.suites import point_title
from app.web.deps import FilterDep, ReadSession, WriteSession
from app.web.paths import path_for
from app.web.rerun import settling_runs
from app.web.templates import engine_titles, render

MAX_OFFERED = 20

router = APIRouter(include_in_schema=False)


@router.get("/compare", name="compare")
def show_comparison(
    request: Request,
    session: ReadSession,
    where: FilterDep,
    run: Annotated[list[str], Query(default_factory=list)],
    pick: bool = False,
    base: str | None = None,
    sort: str = "",
) -> Response:
    """The first run is the base. With fewer than two runs, or with `pick`, the page offers runs to choose from; its
    form sends `base`, the base chosen before, or an empty one: then the oldest run becomes the base. `sort` is the
    key of a metric: the results with its best values come first."""
    names = list(dict.fromkeys(name.strip() for name in run if name.strip()))
    if pick or len(names) < FEWEST:
        return _picker(request, session, names, where, is_choosing=pick)
    if base is not None:
        return RedirectResponse(_address(request, *_by_age(session, names, base)), status_code=303)
    return _comparison(request, session, names, compare(session, names, engine_titles()), sort)


def _address(request: Request, *names: str) -> str:
    return f"{path_for(request, 'compare')}?{urlencode([('run', name) for name in names])}"


def _by_age(session: Session, names: Sequence[str], base: str) -> list[str]:
    """`base` first, then the oldest first, so that later runs are compared with earlier ones."""
    ids = {name: name.removeprefix(CONFIG) for name in names}
    runs = runs_by_id(session, set(ids.values()) - set(WORDS))
    queued_at = {name: runs[public_id].queued_at for name, public_id in ids.items() if public_id in runs}
    return sorted(names, key=lambda name: (name != base, queued_at.get(name, now())))


def _comparison(
    request: Request, session: Session, names: Sequence[str], comparison: Comparison, sort: str
) -> Response:
    # words of the address stay words: `latest` is another run tomorrow
    named_subjects = list(zip(names, comparison.subjects, strict=True))
    run_counts = Counter(map(_configuration, comparison.subjects))
    url = partial(_address, request)
    moves = [
        {
            "as_base": url(name, *(key for key in names if key != name)) if place else None,
            "without": url(*(key for key in names if key != name)) if len(names) > FEWEST else None,
            "whole": url(*(f"{CONFIG}{subject.public_id}" if key == name else key for key in names))
            if not subject.key.startswith(CONFIG) and subject.fingerprint and run_counts[_configuration(subject)] == 1
            else None,
            "alone": url(*(subject.public_id if key == name else key for key in names))
            if subject.key.startswith(CONFIG)
            else None,
        }
        for place, (name, subject) in enumerate(named_subjects)
    ]
    return render(
        request,
        "compare.html",
        saved_views=views_of(session, "compare"),
        comparison=comparison,
        moves=moves,
        incomparable=incomparable_words(comparison),
        best=best_words(comparison),
        order=order_by(comparison, sort),
        sort=sort,
        sort_links=_sort_links(url(*names), comparison),
        as_chosen=f"{url(*names)}#figures",
        swapped=url(*reversed(names)) if len(names) == FEWEST else None,
        more=f"{url(*names)}&pick=true" if len(names) < MOST else None,
        api=f"{path_for(request, 'api_compare')}?{urlencode([('run', name) for name in names])}",
        share_query=urlencode([("kind", "comparison"), *(("run", name) for name in names)]),
        sources=SOURCES,
        main_ratios={pair.place: comparison.main_ratios(pair.place) for pair in comparison.pairs},
        settling=settling_runs(session, comparison),
        wholes={pair.place: _config_comparison(request, comparison, pair.place) for pair in comparison.pairs},
        most_runs=MAX_QUEUED_AT_ONCE,
        scatters={pair.place: pair_scatter_words(comparison, pair.place) for pair in comparison.pairs},
        forest=charts.forest(comparison),
        pauses=charts.pauses(comparison),
        curves=charts.curves(comparison),
        unmatched=_unmatched_points(comparison),
        series=[charts.series_of(place) for place in range(len(comparison.subjects))],
    )


def _sort_links(address: str, comparison: Comparison) -> dict[str, str]:
    """The addresses of the same page sorted by a metric of the main point; none for two results."""
    main = next((point for point in comparison.points if point.point == comparison.main), None)
    if main is None or len(comparison.subjects) <= FEWEST:
        return {}
    return {row.metric: f"{address}&sort={row.metric}#figures" for row in main.all_rows}


def _config_comparison(request: Request, comparison: Comparison, place: int) -> str | None:
    """The address that compares all runs of both configurations; None where that would be the same comparison."""
    base, subject = comparison.subjects[0], comparison.subjects[place]
    if _configuration(base) == _configuration(subject) or not (base.fingerprint and subject.fingerprint):
        return None
    if all(subject.key.startswith(CONFIG) for subject in (base, subject)):
        return None
    return _address(request, *(f"{CONFIG}{subject.public_id}" for subject in (base, subject)))


def _configuration(subject: Subject) -> tuple[str | None, ...]:
    return subject.fingerprint, subject.server, subject.suite_key


def _unmatched_points(comparison: Comparison) -> list[str]:
    """Points measured by one subject only, in words."""
    phrases = []
    for place, subject in enumerate(comparison.subjects):
        points = [
            point_title(point.point)
            for point in comparison.points
            if point.n_measured == 1 and point.rows[0].cells[place].value is not None
        ]
        if points:
            phrases.append(f"{subject.name} at {' · '.join(points)}")
    return phrases


def _picker(
    request: Request, session: Session, names: Sequence[str], where: RunFilter, *, is_choosing: bool
) -> Response:
    can_be_compared = replace(where, status="done", hidden="without")
    rows, total = list_runs(session, can_be_compared, page=1, per_page=MAX_OFFERED)
    ids = {name: name.removeprefix(CONFIG) for name in names if name.removeprefix(CONFIG) not in WORDS}
    chosen = runs_by_id(session, set(ids.values())) if ids else {}
    return render(
        request,
        "compare_pick.html",
        rows=[row for row in rows if row.public_id not in names],
        total=total,
        where=where,
        chosen=[(name, chosen.get(ids.get(name, ""))) for name in names],
        is_short=bool(names) and not is_choosing,
        most=MOST,
    )


@router.post("/runs/{public_id}/baseline", name="pin_baseline")
def pin_baseline(request: Request, session: WriteSession, public_id: str) -> Response:
    baselines.pin(session, public_id)
    return RedirectResponse(path_for(request, "run", public_id=public_id), status_code=303)


@router.post("/runs/{public_id}/baseline/remove", name="unpin_baseline")
def unpin_baseline(request: Request, session: WriteSession, public_id: str) -> Response:
    baselines.unpin(session, public_id)
    return RedirectResponse(path_for(request, "run", public_id=public_id), status_code=303)
