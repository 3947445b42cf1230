"""Models: the bytes each reads per token, their source, and the form to add model details."""

from typing import NamedTuple

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.ceiling.bytes_per_step import kv_bytes_per_token, step
from app.ceiling.geometry import Geometry, Part, Source
from app.ceiling.number_formats import USUAL_BITS
from app.ceiling.report import Report, report
from app.core.errors import BadInput
from app.core.i18n import _
from app.db import models
from app.db.devices import KnownDevice, known_devices
from app.db.models import KnownModel
from app.hardware.host import this_host
from app.web.deps import DatabaseDep, Form, ReadSession, RowId, WriteSession
from app.web.forms import Fields, format_input
from app.web.model_form import parse_form
from app.web.paths import local_path, path_for
from app.web.templates import render

router = APIRouter(include_in_schema=False)

LONG_CONTEXT = 8_192


class ModelRow(NamedTuple):
    """A model of the list with the bytes read per token; None is unknown."""

    model: KnownModel
    weight_bytes: int | None
    kv_bytes: int | None


class WeightRole(NamedTuple):
    """Weights with the same use in a decode step."""

    title: str
    part: Part
    share: float
    """The share of them that one token reads, 0 to 1."""

    @property
    def read_bytes(self) -> int:
        return round(self.part.n_bytes * self.share)


class DeviceCeiling(NamedTuple):
    """The model's ceilings on a device of a machine, with an empty and with a long context."""

    known_device: KnownDevice
    empty: Report
    long: Report
    does_not_fit: bool


@router.get("/models/weights", name="model_weights")
def list_models(request: Request, session: ReadSession) -> Response:
    return render(request, "model_weights.html", rows=[_model_row(model) for model in models.list_models(session)])


@router.get("/models/{model_id}", name="model")
def show_model(request: Request, session: ReadSession, model_id: RowId, back: str = "") -> Response:
    """The model's page; `back` is the page to return to after its details are saved."""
    return _page(request, session, model_id, back)


@router.post("/models/{model_id}", name="state_model")
def state_model(request: Request, database: DatabaseDep, form: Form, model_id: RowId) -> Response:
    back = form.get("back")
    try:
        geometry, fields = parse_form(form)
        with database.write() as session:
            models.set_stated_geometry(session, model_id, geometry, fields)
    except BadInput as error:
        with database.read() as session:
            return _page(request, session, model_id, back, form, error)
    return RedirectResponse(local_path(back) or path_for(request, "model", model_id=model_id), status_code=303)


@router.post("/models/{model_id}/take-back", name="take_back_model")
def take_back_model(request: Request, session: WriteSession, model_id: RowId) -> Response:
    models.clear_stated_geometry(session, model_id)
    return RedirectResponse(path_for(request, "model", model_id=model_id), status_code=303)


def _page(
    request: Request,
    session: Session,
    model_id: RowId,
    back: str,
    form: Fields | None = None,
    error: BadInput | None = None,
) -> Response:
    model = models.model(session, model_id)
    geometry = (
        model.geometry_record.geometry if model.geometry_record and model.geometry_record.geometry.weights else None
    )
    return render(
        request,
        "model.html",
        status=error.http_status if error else 200,
        model=model,
        geometry=geometry,
        row=_model_row(model),
        roles=_weight_roles(geometry) if geometry else [],
        device_ceilings=_device_ceilings(session, geometry) if geometry else [],
        long_context=LONG_CONTEXT,
        form=form or _form(model),
        error=error,
        back=local_path(back) or "",
        quantizations=list(USUAL_BITS),
        host=this_host().name,
    )


def _model_row(model: KnownModel) -> ModelRow:
    geometry = model.geometry_record.geometry if model.geometry_record else None
    read = step(geometry) if geometry else None
    return ModelRow(model, read.weight_bytes if read else None, kv_bytes_per_token(geometry) if geometry else None)


def _weight_roles(geometry: Geometry) -> list[WeightRole]:
    weights = geometry.weights
    assert weights is not None, "asked for known weights only"
    dense = _("Active") if geometry.source is Source.TYPED else _("Attention, FFN, norms and routers")
    roles = [
        WeightRole(dense, weights.dense, 1.0),
        WeightRole(_("Routed experts"), weights.routed, geometry.expert_share),
        WeightRole(_("Output head"), weights.head, 1.0),
        WeightRole(_("Lookup tables, or used by other tokens"), weights.unread, 0.0),
    ]
    return [role for role in roles if role.part.n_bytes]


def _device_ceilings(session: Session, geometry: Geometry) -> list[DeviceCeiling]:
    """A model that does not fit a device has the ceiling of the best split between it and the machine's memory."""
    ceilings = []
    for device in known_devices(session).local:
        layout = device.layout()
        empty, long = (report(geometry, device.device, context, layout=layout) for context in (0, LONG_CONTEXT))
        ceilings.append(DeviceCeiling(device, empty, long, bool(empty.step and layout.overflow(geometry, empty.step))))
    return ceilings


def _form(model: KnownModel) -> Fields:
    """The details stated before; else the figures that the server reports."""
    if model.stated:
        return Fields(model.stated.form.items())
    parameters, size_bytes = model.parameters, model.size_bytes
    bits = f"{size_bytes * 8 / parameters:.3g}" if parameters and size_bytes else ""
    if not bits and model.quantization.upper() in USUAL_BITS:
        bits = model.quantization
    return Fields([("total", format_input(parameters)), ("bits", bits)])
