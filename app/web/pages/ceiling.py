"""The calculator of ceilings: a device and a model, without a run."""

from urllib.parse import urlencode

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app import charts
from app.ceiling.number_formats import KV_BITS, USUAL_BITS
from app.ceiling.prediction import Case, Prediction
from app.core.errors import BadInput
from app.db import devices, machines, models
from app.db.devices import device_name
from app.db.tables import Machine
from app.results.ceiling import predictions_on
from app.web.calculator import EXAMPLE, MAIN_CONTEXT, Calculation, calculate, pack_config, verdict_words
from app.web.deps import DatabaseDep, Form, ReadSession
from app.web.forms import Fields
from app.web.paths import path_for
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/ceiling", name="ceiling")
def show_ceiling(request: Request, session: ReadSession) -> Response:
    """The calculator with its state from the address; an empty address shows an example."""
    form = Fields(request.query_params.multi_items())
    return _page(request, session, form if form.items() else EXAMPLE, not form.items())


@router.post("/ceiling", name="read_config")
def read_config(request: Request, database: DatabaseDep, form: Form) -> Response:
    """Redirects to the address that contains the pasted config.json."""
    try:
        link = pack_config(form.get("text"))
    except BadInput as error:
        with database.read() as session:
            return _page(request, session, form, False, error)
    parameters = [(key, value) for key, value in form.items(without=("text", "config", *_MODEL)) if value.strip()]
    return RedirectResponse(
        f"{path_for(request, 'ceiling')}?{urlencode([*parameters, ('config', link)])}", status_code=303
    )


def _predictions(session: Session, calculation: Calculation) -> list[Prediction]:
    """What was measured on the device of a machine predicts at each context; empty for another device, and for several
    streams."""
    device, reports = calculation.known_device, calculation.reports
    steps = [report.step for report in reports if report.step is not None and report.step.batch == 1]
    if device.machine_id is None or len(steps) < len(reports):
        return []
    model, quantization = calculation.model
    layers = calculation.known_geometry.geometry.blocks or 0
    cases = [Case(step.n_bytes, layers, device.device.bandwidth_bytes_per_s, model, quantization) for step in steps]
    return predictions_on(session, device.machine_id, device_name(device.name), cases)


_MODEL = ("model", "as_bits", "total", "active", "layers", "kv_heads", "head_dim")


def _unmeasured(session: Session) -> Machine | None:
    """This machine while the bandwidth of its memory is unknown."""
    machine = machines.local_machine(session)
    return machine if machine and not machines.devices(session, machine)[0].bandwidths else None


def _page(
    request: Request, session: Session, form: Fields, is_example: bool, error: BadInput | None = None
) -> Response:
    known_devices, measured = devices.known_devices(session), models.list_models(session)
    calculation = None
    if error is None:
        try:
            calculation = calculate(form, known_devices, measured)
        except BadInput as problem:
            error = problem
    kv = form.get("kv").strip() or "f16"
    typed_instead = urlencode(form.items(without=("config", "model", "as_bits", "bits", "text")))
    return render(
        request,
        "ceiling.html",
        status=error.http_status if error else 200,
        form=form,
        calculation=calculation,
        verdict=verdict_words(calculation) if calculation else [],
        main_context=MAIN_CONTEXT,
        unmeasured=_unmeasured(session) if calculation and calculation.no_decode else None,
        predictions=_predictions(session, calculation) if calculation else [],
        figure=charts.against_context(calculation.curve) if calculation else None,
        error=error,
        is_example=is_example,
        device_names=known_devices.names,
        models=[model for model in measured if model.geometry_record and model.geometry_record.geometry.weights],
        quantizations=list(USUAL_BITS),
        kv=kv,
        kv_types=list(dict.fromkeys((*KV_BITS, kv))),
        typed_instead=typed_instead,
        share_query=urlencode([("kind", "ceiling"), *((key, value) for key, value in form.items() if value.strip())]),
    )
