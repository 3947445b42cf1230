"""The calculator: what some hardware allows some model. Needs no run."""

from urllib.parse import urlencode

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.ceiling.types import KV_BITS, USUAL_BITS
from app.core.errors import BadInput
from app.db import devices, models
from app.web.calculator import EXAMPLE, calculate, packed
from app.web.deps import DatabaseDep, Form, ReadSession
from app.web.forms import Fields
from app.web.paths import path_for
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/ceiling", name="ceiling")
def show_ceiling(request: Request, session: ReadSession) -> Response:
    """All of its state is in the address; without any it shows an example."""
    form = Fields(request.query_params.multi_items())
    return _page(request, session, form if form.items() else EXAMPLE, not form.items())


@router.post("/ceiling", name="read_config")
def read_config(request: Request, database: DatabaseDep, form: Form) -> Response:
    """A pasted config.json becomes a part of the address."""
    try:
        link = packed(form.get("text"))
    except BadInput as error:
        with database.read() as session:
            return _page(request, session, form, False, error)
    kept = [(key, value) for key, value in form.items(without=("text", "config", *_MODEL)) if value.strip()]
    return RedirectResponse(f"{path_for(request, 'ceiling')}?{urlencode([*kept, ('config', link)])}", status_code=303)


_MODEL = ("model", "as_bits", "total", "active", "layers", "kv_heads", "head_dim")


def _page(
    request: Request, session: Session, form: Fields, is_example: bool, error: BadInput | None = None
) -> Response:
    from app import charts  # loads the figures: not at start

    known, measured = devices.known_devices(session), models.list_models(session)
    found = None
    if error is None:
        try:
            found = calculate(form, known, measured)
        except BadInput as problem:
            error = problem
    kv = form.get("kv").strip() or "f16"
    typed_instead = urlencode(form.items(without=("config", "model", "as_bits", "bits", "text")))
    return render(
        request,
        "ceiling.html",
        status=error.http_status if error else 200,
        form=form,
        found=found,
        figure=charts.against_context(found.curve) if found else None,
        error=error,
        is_example=is_example,
        device_names=known.names,
        models=[one for one in measured if one.geometry_record and one.geometry_record.geometry.weights],
        quantizations=list(USUAL_BITS),
        kv=kv,
        kv_types=list(dict.fromkeys((*KV_BITS, kv))),
        typed_instead=typed_instead,
        share_query=urlencode([("kind", "ceiling"), *((key, value) for key, value in form.items() if value.strip())]),
    )
