from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.errors import BadInput, Conflict, RoofmarkError
from app.db import bandwidth, devices, machines, servers
from app.db.tables import Machine
from app.hardware.detect import detect
from app.measure import bandwidth_process
from app.results.ceiling import config_ceilings, machine_uses
from app.results.run_filter import RunFilter
from app.results.run_list import latest_per_config
from app.web import flash, machine_form
from app.web.deps import DatabaseDep, Form, ReadSession, SettingsDep, WriteSession
from app.web.forms import Fields
from app.web.paths import path_for
from app.web.templates import is_partial, render

LATEST_RESULTS = 10

router = APIRouter(include_in_schema=False)


@router.get("/machines", name="machines")
def list_machines(request: Request, session: ReadSession) -> Response:
    active = machines.list_machines(session)
    return render(
        request,
        "machines.html",
        machines=active,
        archived=machines.list_machines(session, archived=True),
        server_counts=servers.counts_by_machine(session),
        is_here_known=any(machines.is_local_machine(machine) for machine in active),
    )


@router.get("/machines/new", name="new_machine")
def new_machine(request: Request, database: DatabaseDep, here: bool = False) -> Response:
    """Shows the form; with `here`, it is filled in with what detection finds on this machine."""
    return _detected(request, database) if here else _form(request, database, Fields())


@router.post("/machines", name="add_machine")
def add_machine(request: Request, database: DatabaseDep, form: Form) -> Response:
    try:
        with database.write() as session:
            added = machines.add_machine(session, **machine_form.parse_form(form, devices.load_catalogue(session)))
    except (BadInput, Conflict) as error:
        return _form(request, database, form, error=error)
    return _to(request, added)


@router.post("/machines/accelerators", name="accelerators")
def change_accelerators(request: Request, database: DatabaseDep, form: Form) -> Response:
    """Shows the form with one row more or less, or filled in from the catalogue; nothing is stored."""
    with database.read() as session:
        slug = form.get("slug")
        machine = machines.machine(session, slug) if slug else None
    return _form(request, database, form, machine=machine)


@router.get("/machines/{slug}", name="machine")
def show_machine(
    request: Request, session: ReadSession, database: DatabaseDep, settings: SettingsDep, slug: str
) -> Response:
    machine = machines.machine(session, slug)
    return render(
        request,
        "machine.html",
        machine=machine,
        devices=machines.devices(session, machine),
        is_here=machines.is_local_machine(machine),
        probe=bandwidth_process.latest_probe(database, settings, machine),
        measured=bandwidth.effective_probe(session, machine),
        servers=servers.list_servers(session, machine_id=machine.id),
        archived_servers=servers.list_servers(session, archived=True, machine_id=machine.id),
        rows=latest_per_config(session, RunFilter(machine=slug))[:LATEST_RESULTS],
        ceilings=config_ceilings(session, machine.id),
        uses=machine_uses(session, machine),
    )


@router.get("/machines/{slug}/edit", name="edit_machine")
def edit_machine(request: Request, database: DatabaseDep, slug: str, detect: bool = False) -> Response:
    """Shows the form; with `detect`, it is filled in with what detection finds on this machine, and saving stores
    that."""
    with database.read() as session:
        machine = machines.machine(session, slug)
    if detect and machines.is_local_machine(machine):
        return _detected(request, database, machine)
    return _form(
        request, database, machine_form.initial_form(machine, machines.is_local_machine(machine)), machine=machine
    )


@router.post("/machines/{slug}", name="save_machine")
def save_machine(request: Request, database: DatabaseDep, form: Form, slug: str) -> Response:
    try:
        with database.write() as session:
            machine = machines.machine(session, slug)
            values = machine_form.parse_form(form, devices.load_catalogue(session))
            return _to(request, machines.edit_machine(session, slug, **values))
    except (BadInput, Conflict) as error:
        return _form(request, database, form, machine=machine, error=error)


@router.post("/machines/{slug}/archive", name="archive_machine")
def archive_machine(request: Request, session: WriteSession, slug: str) -> Response:
    machines.archive_machine(session, slug)
    return flash.redirect_with_flash(request, path_for(request, "machine", slug=slug), "archive_machine", slug)


@router.post("/machines/{slug}/restore", name="restore_machine")
def restore_machine(request: Request, session: WriteSession, slug: str) -> Response:
    return _to(request, machines.archive_machine(session, slug, archived=False))


@router.post("/machines/{slug}/bandwidth", name="measure_bandwidth")
def measure_bandwidth(request: Request, database: DatabaseDep, settings: SettingsDep, slug: str) -> Response:
    """Starts the process that measures; the web process only watches it. A part of a page shows its progress."""
    bandwidth_process.start(database, settings, slug)
    with database.read() as session:
        machine = machines.machine(session, slug)
    if not is_partial(request):
        return _to(request, machine)
    probe = bandwidth_process.latest_probe(database, settings, machine)
    return render(request, "_bandwidth.html", machine=machine, probe=probe)


@router.get("/machines/{slug}/bandwidth", name="bandwidth")
def show_bandwidth(request: Request, database: DatabaseDep, settings: SettingsDep, slug: str) -> Response:
    """Shows the progress of a measurement; when it has ended, the whole page is loaded again."""
    with database.read() as session:
        machine = machines.machine(session, slug)
    if not is_partial(request):
        return _to(request, machine)
    probe = bandwidth_process.latest_probe(database, settings, machine)
    answer = render(request, "_bandwidth.html", machine=machine, probe=probe)
    if probe is None or probe.status != "running":
        answer.headers["HX-Refresh"] = "true"
    return answer


def _to(request: Request, machine: Machine) -> Response:
    return RedirectResponse(path_for(request, "machine", slug=machine.slug), status_code=303)


# --- the form --------------------------------------------------------------------------------------------------------


def _form(
    request: Request,
    database: DatabaseDep,
    form: Fields,
    *,
    machine: Machine | None = None,
    error: RoofmarkError | None = None,
    unknowns: object = (),
) -> Response:
    with database.read() as session:
        catalogue = devices.load_catalogue(session)
    rows = machine_form.completed_rows(form, catalogue)
    return render(
        request,
        "_accelerators.html" if is_partial(request) else "machine_form.html",
        status=error.http_status if error else 200,
        form=form,
        accelerators=[(row, machine_form.candidates(row, catalogue)) for row in rows]
        + [(machine_form.AcceleratorRow(), [])],
        device_names=[device.name for device in catalogue.devices if device.kind != "ram"],
        machine=machine,
        error=error,
        unknowns=unknowns,
    )


def _detected(request: Request, database: DatabaseDep, machine: Machine | None = None) -> Response:
    with database.read() as session:
        profile = detect(devices.load_catalogue(session))
    fields = machines.detected_fields(profile, machine)
    shown = Machine(**{**(machine.model_dump() if machine else {"slug": "", "name": profile.host.name}), **fields})
    form = machine_form.initial_form(shown, is_here=True)
    return _form(request, database, form, machine=machine, unknowns=profile.unknowns)
