"""Progress of a run: as a fragment, as a stream of fragments with what is arriving, and the button that cancels it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from app.core.i18n import N_, _, joined
from app.core.samples import Workload
from app.core.units import format_duration, format_number, plural
from app.db import runs
from app.db.database import Database
from app.db.tables import ENDED_STATES, Run
from app.measure import workers
from app.measure.job import DONE_MARK, FAILED_MARK, FLAGGED_MARK, PLANNED_MARK
from app.measure.live import LiveReader
from app.metrics import HEADLINE_METRICS
from app.suites import brief_title
from app.web.deps import ReadSession, RunnerDep
from app.web.paths import path_for
from app.web.templates import is_partial, render, render_text

POLL_S = 0.5
KEEP_ALIVE_S = 15.0

router = APIRouter(include_in_schema=False)


DOT_STATES = {
    DONE_MARK: N_("done"),
    FLAGGED_MARK: N_("flagged"),
    FAILED_MARK: N_("failed"),
    PLANNED_MARK: N_("planned"),
}
MAX_FIRST_TEXT_CHARS = 4000
"""Of an answer that is arriving already when a page begins to watch: its end."""


@dataclass(frozen=True)
class Dot:
    """One sample: `done`, `flagged`, `failed`, `running` or `planned`."""

    state: str
    is_warmup: bool


@dataclass(frozen=True)
class DotRow:
    """The samples of one point."""

    title: str
    """Empty where the run has only one point."""
    dots: Sequence[Dot]


@dataclass(frozen=True)
class Progress:
    """The state of a run. Times in seconds; None where unknown."""

    public_id: str
    status: str
    phase: str
    steps: str
    """The sample being measured, warm-ups counted separately; empty before it is known."""
    has_config: bool
    samples_done: int
    samples_planned: int
    last: dict[str, float | None]
    """The headline metrics of the last sample, by key; empty before the first sample."""
    elapsed_s: float | None
    remaining_s: float | None
    is_cancelling: bool
    error: str | None
    rows: Sequence[DotRow] = ()
    """The samples, by point; empty before it is known which points fit."""
    batch_waiting: int = 0
    """How many runs wait that were queued together with this one, itself included."""

    @property
    def is_over(self) -> bool:
        return self.status in ENDED_STATES


def progress_of(session: Session, run: Run) -> Progress:
    progress, is_running = run.progress, run.status == "running"
    end = run.finished_at or datetime.now(UTC)
    last = progress.get("last") or {}
    return Progress(
        public_id=run.public_id,
        status=run.status,
        phase=runs.wait_reason(session, run) if run.status == "queued" else progress.get("phase", _("Starting.")),
        steps=_steps(run, progress),
        has_config=run.config_id is not None,
        samples_done=run.samples_done,
        samples_planned=run.samples_planned,
        last={key: last.get(key) for key in HEADLINE_METRICS} if last else {},
        elapsed_s=(end - run.started_at).total_seconds() if run.started_at else None,
        remaining_s=_remaining_s(progress) if is_running else None,
        is_cancelling=run.cancel_requested_at is not None and is_running,
        error=run.error,
        rows=_dot_rows(progress.get("marks", ()), is_running=is_running),
        batch_waiting=len(runs.waiting_in_batch(session, run.plan.get("batch"))),
    )


def _dot_rows(marks: Sequence[Sequence[str]], *, is_running: bool) -> Sequence[DotRow]:
    """The dots of the worker's marks (`sample_marks`); while it runs, the first round of those planned is running."""
    rows: list[DotRow] = []
    for key, warmups, repetitions in marks:
        point, letters = Workload.from_key(key), warmups + repetitions
        states = [DOT_STATES.get(letter, "planned") for letter in letters]
        if is_running and PLANNED_MARK in letters:
            start = letters.index(PLANNED_MARK)
            states[start : start + point.concurrency] = ["running"] * len(states[start : start + point.concurrency])
            is_running = False
        dots = [Dot(state, place < len(warmups)) for place, state in enumerate(states)]
        rows.append(DotRow(brief_title(point) if len(marks) > 1 else "", dots))
    return rows


def progress_now(session: Session) -> list[Progress]:
    """Returns the progress of every running run."""
    return [progress_of(session, run) for run in runs.running(session)]


def _steps(run: Run, progress: Mapping[str, Any]) -> str:
    """The worker's step while it measures; else the number of finished samples."""
    if not run.samples_planned:
        return ""
    is_measuring = run.status == "running" and run.samples_done < run.samples_planned
    count_text = _(
        "{samples_done} of {samples} taken",
        samples_done=run.samples_done,
        samples=plural(run.samples_planned, "sample"),
    )
    return progress.get("step") or count_text if is_measuring else count_text


def _remaining_s(progress: Mapping[str, Any]) -> float | None:
    """The worker's estimate, less the time since it was made."""
    remaining_s: float | None = progress.get("remaining_s")
    return None if remaining_s is None else max(0.0, remaining_s - (time.time() - progress["at"]))


@router.get("/runs/{public_id}/progress", name="run_progress")
def show_progress(request: Request, session: ReadSession, public_id: str) -> Response:
    """The fragment, for pages that poll and readers without JavaScript. After the end, htmx reloads the page."""
    progress = progress_of(session, runs.run(session, public_id))
    response = render(request, "_progress.html", progress=progress)
    if progress.is_over and is_partial(request):  # the rest of the page is outdated
        response.headers["hx-refresh"] = "true"
    return response


@router.get("/runs/{public_id}/events", name="run_events")
async def stream_progress(request: Request, public_id: str) -> Response:
    database: Database = request.app.state.database
    first = await run_in_threadpool(_snapshot, database, public_id)  # an unknown run is a 404, not a stream
    return StreamingResponse(
        _events(request, database, first),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


async def _events(request: Request, database: Database, progress: Progress) -> AsyncIterator[str]:
    """A fragment at once and after each change, and what is arriving as `live` events; one `frozen` event with the
    configuration, one `done` at the end."""
    sent, sent_live, silent_s, is_frozen = "", "", 0.0, False
    reader = LiveReader(workers.live_path(request.app.state.settings, progress.public_id))
    while True:
        text = render_text(request, "_progress.html", {"progress": progress})
        live = await run_in_threadpool(_live, reader)
        if text != sent:
            yield _message(text)
            sent, silent_s = text, 0.0
        elif silent_s >= KEEP_ALIVE_S:
            yield ": still here\n\n"
            silent_s = 0.0
        if live not in ("", sent_live):
            yield _message(live, event="live")
            sent_live = live
        if progress.has_config and not is_frozen and not progress.is_over:
            yield _message(progress.public_id, event="frozen")
            is_frozen = True
        if progress.is_over:
            yield _message(progress.status, event="done")
            return
        await asyncio.sleep(POLL_S)
        if request.app.state.stopping.is_set():  # the browser comes back when the server does
            return
        silent_s += POLL_S
        progress = await run_in_threadpool(_snapshot, database, progress.public_id)


def _snapshot(database: Database, public_id: str) -> Progress:
    with database.read() as session:
        return progress_of(session, runs.run(session, public_id))


def _live(reader: LiveReader) -> str:
    """What has arrived since the last look, as JSON for static/js/live.js; empty where nothing can be seen."""
    state = reader.look()
    if state is None:
        return ""
    about, planned = state.about, state.about.output_tokens * state.about.streams
    if state.tokens:
        words = _("{n:,} of {tokens} so far", n=state.tokens, tokens=plural(planned, "token"))
    else:
        words = _(
            "Prompt of about {tokens} sent {time} ago; no token yet.",
            tokens=plural(about.prompt_tokens, "token"),
            time=format_duration(state.waited_s),
        )
    if about.streams > 1:
        words = joined(words, _("All {n:,} streams together; the text is that of one.", n=about.streams))
    rate = state.tokens_per_s
    return json.dumps(
        {
            "is_new": state.is_new_round,
            "text": state.text[-MAX_FIRST_TEXT_CHARS:] if state.is_new_round else state.text,
            "words": words,
            "rate": rate,
            "rate_words": _("{rate} tok/s", rate=format_number(rate)) if rate is not None else "",
        }
    )


def _message(data: str, event: str | None = None) -> str:
    lines = [f"event: {event}"] if event else []
    return "\n".join([*lines, *(f"data: {line}" for line in data.splitlines()), "", ""])


@router.post("/runs/{public_id}/cancel", name="cancel_run")
def cancel_run(request: Request, runner: RunnerDep, public_id: str) -> Response:
    runner.cancel(public_id)
    return RedirectResponse(path_for(request, "run", public_id=public_id), status_code=303)


@router.post("/runs/{public_id}/cancel-batch", name="cancel_batch")
def cancel_batch(request: Request, runner: RunnerDep, public_id: str) -> Response:
    """Cancels what waits of the runs that were queued together with this one; one that is being measured goes on."""
    runner.cancel_batch(public_id)
    return RedirectResponse(path_for(request, "run", public_id=public_id), status_code=303)
