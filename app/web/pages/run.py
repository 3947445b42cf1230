"""One run: its triple, its samples, how it was measured, and what was different before."""

from collections import Counter
from collections.abc import Sequence

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app import charts
from app.core.errors import BadInput
from app.core.i18n import _
from app.core.samples import Sample, Workload
from app.db import devices, measurements, runs, samples
from app.db.annotations import REASONS
from app.db.tables import ENDED_STATES, Machine, Model, Run
from app.metrics import FLAGS, MetricResult, metrics
from app.metrics.token_counts import token_counts_of
from app.results import hardware
from app.results.ceiling import (
    PointCeiling,
    RunCeiling,
    Unknown,
    context_of,
    flag_above_ceiling,
    insight,
    limits_of_run,
    run_ceiling,
)
from app.results.compare.baseline import verdicts_of_run
from app.results.previous import previous
from app.web import calculator
from app.web.again import again_fields
from app.web.deps import ReadSession, WriteSession
from app.web.paths import path_for
from app.web.progress import progress_of
from app.web.result import results, sample_lines
from app.web.server_metrics_panel import counted_panel
from app.web.serving import serving_section
from app.web.templates import engine_titles, render

router = APIRouter(include_in_schema=False)


@router.get("/runs/{public_id}", name="run")
def show_run(request: Request, session: ReadSession, public_id: str, point: str | None = None) -> Response:
    """`point` chooses whose charts are shown, by its key; the suite's main point without it."""
    run = runs.run(session, public_id)
    assert run.id is not None
    machine, server, config, model = run.machine, run.server, run.config, run.model
    taken = samples.samples_of(session, run.id)
    measured = measurements.measurements_of(session, run.id)
    held = hardware.hardware_of(session, run)
    roof = run_ceiling(session, run, config, model, held, measured) if measured else None
    taken = flag_above_ceiling(taken, roof)
    found = results(measured, taken)
    shown = _chosen(point, [each.point for each in found], run)
    at_point = [sample for sample in taken if sample.point == shown]
    typical = charts.typical_sample(at_point)
    top = roof.at(shown) if isinstance(roof, RunCeiling) else None
    explained = insight(session, run, config, roof, top) if isinstance(roof, RunCeiling) and config and top else None
    before = previous(session, run, engine_titles())
    verdicts = verdicts_of_run(session, run, before.run if before else None)
    return render(
        request,
        "run.html",
        run=run,
        machine=machine,
        server=server,
        config=config,
        model=model,
        progress=None if run.status in ENDED_STATES else progress_of(session, run),
        results=found,
        further=[each for each in found if each.further],
        has_result=bool(found) and (run.status == "done" or any(each.value is not None for each in measured)),
        main=next((each for each in found if each.point.key == run.main_point_key), found[0] if found else None),
        shown=shown,
        roof=roof,
        hardware=held,
        insight=explained,
        roof_figure=charts.against_context(explained.curve, charts.reached(explained)) if explained else None,
        depth=None if isinstance(roof, RunCeiling) else charts.without_ceiling(_decodes(measured, taken)),
        calculation=_calculation(session, model, machine, roof, top),
        roofline=charts.run_roofline(roof.placement, top) if isinstance(roof, RunCeiling) and top else None,
        samples=sample_lines(taken),
        flags=_flags(taken),
        timeline=charts.timeline(at_point),
        gaps=charts.gaps(typical) if typical else None,
        sensors=charts.sensors_of(_with_sensors(typical, at_point)) if typical else None,
        no_sensors=charts.absence(run.evidence.get("no_sensors")),
        limits=limits_of_run(taken, shown, roof, run.evidence, config.engine if config else "") if shown else None,
        serving=serving_section(taken, request.query_params),
        previous=before,
        against_previous=verdicts.previous,
        standing=verdicts.standing,
        metrics=metrics(),
        reasons=[_(reason) for reason in REASONS],
        again=again_fields(run, server, config),
        most_runs=runs.MAX_QUEUED_AT_ONCE,
        counted=counted_panel(run.evidence.get("server", []), taken),
        checks=run.evidence.get("checks", []),
        unsound=verdicts.unsound,
        too_long=[(Workload.from_key(each["point"]), each["reason"]) for each in run.evidence.get("left_out", [])],
    )


@router.post("/runs/{public_id}/hardware", name="refreeze_hardware")
def refreeze_hardware(request: Request, session: WriteSession, public_id: str) -> Response:
    """Takes what is known of the machine today for what the run was measured on: a person's word for it."""
    hardware.refreeze(session, runs.run(session, public_id))
    return RedirectResponse(path_for(request, "run", public_id=public_id) + "#roof-title", status_code=303)


def _calculation(
    session: Session, model: Model | None, machine: Machine, roof: RunCeiling | Unknown | None, top: PointCeiling | None
) -> str:
    if not isinstance(roof, RunCeiling) or top is None or model is None or model.id is None:
        return ""
    return calculator.of_run(model.id, machine.name, devices.devices_of(session, machine), roof.placement, top)


def _decodes(measured: Sequence[MetricResult], samples: Sequence[Sample]) -> list[charts.Reached]:
    """How fast a lone stream was at each point."""

    def context(point: Workload) -> int:
        return context_of(point, token_counts_of([sample for sample in samples if sample.point == point]))

    alone = [each for each in measured if each.metric == "decode_tokens_per_s" and each.point.concurrency == 1]
    return [
        charts.Reached(context(each.point), each.value) for each in alone if each.is_shown and each.value is not None
    ]


def _with_sensors(sample: Sample, at_point: Sequence[Sample]) -> Sample:
    """The first stream of its round keeps what the sensors said."""
    together = (each for each in at_point if (each.round, each.stream) == (sample.round, 0) and not each.is_warmup)
    return next(together, sample) if sample.point.concurrency > 1 else sample


def _chosen(wanted: str | None, points: Sequence[Workload], run: Run) -> Workload | None:
    by_key = {point.key: point for point in points}
    if wanted is not None and wanted not in by_key:
        raise BadInput(_("This run has no point {wanted!r}.", wanted=wanted))
    return by_key.get(wanted or run.main_point_key) or (points[0] if points else None)


def _flags(taken: Sequence[Sample]) -> list[tuple[str, str, str, int]]:
    """Each flag there is: its name, sentence, advice and on how many samples."""
    counts = Counter(flag for sample in taken for flag in sample.flags)
    return [(key, _(flag.sentence), _(flag.advice), counts[key]) for key, flag in FLAGS.items() if counts[key]]
