"""The catalogue of devices: search, add, correct."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.errors import BadInput
from app.core.i18n import N_, _
from app.core.units import GIGA, TERA
from app.db import devices
from app.hardware.catalogue import CatalogueDevice
from app.web.deps import DatabaseDep, Form, WriteSession
from app.web.forms import Fields, format_input, parse_quantity, parse_rounded
from app.web.paths import path_for
from app.web.templates import render

KINDS = {
    "gpu": N_("GPU with its own memory"),
    "apu": N_("shares the processor's memory"),
    "ram": N_("memory modules"),
}

MOST_LISTED = 40
"""The longest list that is sent; a search finds the others."""

router = APIRouter(include_in_schema=False)


@router.get("/machines/devices", name="devices")
def list_devices(request: Request, database: DatabaseDep, q: str = "", correct: str = "") -> Response:
    """Devices that match `q`; `correct` is the name of a device whose figures fill in the form."""
    with database.read() as session:
        catalogue = devices.load_catalogue(session).devices
    device_to_correct = next((device for device in catalogue if device.name == correct), None)
    return _page(request, database, _fields(device_to_correct) if device_to_correct else Fields(), q)


@router.post("/machines/devices", name="save_device")
def save_device(request: Request, database: DatabaseDep, form: Form) -> Response:
    try:
        values = _values(form)
        with database.write() as session:
            devices.save_device(session, **values)
    except BadInput as error:
        return _page(request, database, form, "", error)
    return RedirectResponse(path_for(request, "devices"), status_code=303)


@router.post("/machines/devices/remove", name="remove_device")
def remove_device(request: Request, session: WriteSession, form: Form) -> Response:
    devices.remove_device(session, form.get("name"))
    return RedirectResponse(path_for(request, "devices"), status_code=303)


def _page(request: Request, database: DatabaseDep, form: Fields, text: str, error: BadInput | None = None) -> Response:
    with database.read() as session:
        matches = devices.load_catalogue(session).search(text)
    return render(
        request,
        "devices.html",
        status=error.http_status if error else 200,
        devices=sorted(matches, key=lambda device: not device.is_own)[:MOST_LISTED],
        total=len(matches),
        form=form,
        kinds=KINDS,
        q=text,
        error=error,
    )


def _fields(device: CatalogueDevice) -> Fields:
    return Fields(
        [
            ("name", device.name),
            ("kind", device.kind),
            ("memory", format_input(device.memory_bytes, GIGA)),
            ("bandwidth", format_input(device.bandwidth_bytes_per_s, GIGA)),
            ("compute", format_input(device.compute_flops_per_s, TERA)),
            ("fastest", format_input(device.fastest_flops_per_s, TERA)),
            ("source", device.source),
        ]
    )


def _values(form: Fields) -> dict[str, Any]:
    """Columns of a device. Raises BadInput."""
    bandwidth = parse_quantity(form.get("bandwidth"), _("The bandwidth"))
    if bandwidth is None:
        raise BadInput(_("The bandwidth is missing."))
    kind = form.get("kind", "gpu")
    if kind not in KINDS:
        raise BadInput(_("The kind must be one of {kinds}.", kinds=", ".join(KINDS)))
    compute = parse_quantity(form.get("compute"), _("FP16 compute"), TERA)
    fastest = parse_quantity(form.get("fastest"), _("The fastest compute"), TERA)
    if compute is not None and fastest is not None and fastest < compute:
        raise BadInput(_("The fastest compute is below that of FP16: FP16 itself is then the fastest."))
    return {
        "name": form.required("name", _("The name"), 120),
        "kind": kind,
        "memory_bytes": parse_rounded(form.get("memory"), _("The memory"), exact=""),
        "bandwidth_bytes_per_s": bandwidth,
        "compute_flops_per_s": compute,
        "fastest_flops_per_s": fastest,
        "source": form.text("source", _("The source"), 300),
    }
