from typing import Any

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.errors import BadInput
from app.models import Machine
from app.store import machines, servers
from app.store.listing import Filter, latest_per_config
from app.web.deps import Form, Reading, Writing
from app.web.forms import GIGA, Fields, quantity, typed, whole
from app.web.render import path_for, render

TERA = 1e12

router = APIRouter(include_in_schema=False)


@router.get("/machines", name="machines")
def list_machines(request: Request, session: Reading) -> Response:
    counts = servers.counts_by_machine(session)
    return render(
        request,
        "machines.html",
        machines=machines.list_machines(session),
        archived=machines.list_machines(session, archived=True),
        server_counts=counts,
    )


@router.get("/machines/new", name="new_machine")
def new_machine(request: Request, here: bool = False) -> Response:
    return _form(request, _this_machine() if here else Fields())


@router.post("/machines", name="add_machine")
def add_machine(request: Request, session: Writing, form: Form) -> Response:
    try:
        values = _values(form)
    except BadInput as error:
        return _form(request, form, error=error)
    return _to(request, machines.add_machine(session, **values))


@router.get("/machines/{slug}", name="machine")
def show_machine(request: Request, session: Reading, slug: str) -> Response:
    machine = machines.machine(session, slug)
    return render(
        request,
        "machine.html",
        machine=machine,
        servers=servers.list_servers(session, machine_id=machine.id),
        archived_servers=servers.list_servers(session, archived=True, machine_id=machine.id),
        rows=latest_per_config(session, Filter(machine=slug)),
    )


@router.get("/machines/{slug}/edit", name="edit_machine")
def edit_machine(request: Request, session: Reading, slug: str) -> Response:
    machine = machines.machine(session, slug)
    return _form(request, _fields(machine), machine=machine)


@router.post("/machines/{slug}", name="save_machine")
def save_machine(request: Request, session: Writing, form: Form, slug: str) -> Response:
    machine = machines.machine(session, slug)
    try:
        values = _values(form, machine)
    except BadInput as error:
        return _form(request, form, machine=machine, error=error)
    return _to(request, machines.edit_machine(session, slug, **values))


@router.post("/machines/{slug}/archive", name="archive_machine")
def archive_machine(request: Request, session: Writing, slug: str) -> Response:
    return _to(request, machines.archive_machine(session, slug))


@router.post("/machines/{slug}/restore", name="restore_machine")
def restore_machine(request: Request, session: Writing, slug: str) -> Response:
    return _to(request, machines.archive_machine(session, slug, archived=False))


def ensure_this_machine(session: Session) -> Machine:
    """The machine that Roofmark runs on, added as it is unless one of its name is there."""
    values = _values(_this_machine())
    known = next((each for each in machines.list_machines(session) if each.name == values["name"]), None)
    return known or machines.add_machine(session, **values)


def _to(request: Request, machine: Machine) -> Response:
    return RedirectResponse(path_for(request, "machine", slug=machine.slug), status_code=303)


# --- the form --------------------------------------------------------------------------------------------------------


def _form(request: Request, form: Fields, machine: Machine | None = None, error: BadInput | None = None) -> Response:
    names = form.all("accelerator_name")
    columns = ("name", "count", "memory", "bandwidth", "compute")
    rows = [{column: form.nth(f"accelerator_{column}", n) for column in columns} for n in range(len(names) + 1)]
    return render(
        request,
        "machine_form.html",
        status=error.http_status if error else 200,
        form=form,
        accelerators=[row for row in rows if any(row.values())] + [dict.fromkeys(columns, "")],
        machine=machine,
        error=error,
    )


def _this_machine() -> Fields:
    from app.hardware import this_host

    host = this_host()
    return Fields([("name", host.name), ("os", host.os), ("cpu", host.cpu), ("ram", typed(host.ram_bytes, GIGA))])


def _fields(machine: Machine) -> Fields:
    items = [
        ("name", machine.name),
        ("kind", machine.kind),
        ("os", machine.os),
        ("cpu", machine.cpu),
        ("ram", typed(machine.ram_bytes, GIGA)),
        ("ram_bandwidth", typed(machine.ram_bandwidth_bytes_per_s, GIGA)),
        ("notes", machine.notes),
    ]
    for each in machine.accelerators:
        items += [
            ("accelerator_name", each["name"]),
            ("accelerator_count", str(each["count"])),
            ("accelerator_memory", typed(each.get("memory_bytes"), GIGA)),
            ("accelerator_bandwidth", typed(each.get("bandwidth_bytes_per_s"), GIGA)),
            ("accelerator_compute", typed(each.get("compute_flops_per_s"), TERA)),
        ]
    return Fields(items)


def _values(form: Fields, before: Machine | None = None) -> dict[str, Any]:
    """Columns of a machine. Raises BadInput."""
    bandwidth = quantity(form.get("ram_bandwidth"), "Memory bandwidth")
    is_same = before is not None and form.get("ram_bandwidth") == typed(before.ram_bandwidth_bytes_per_s, GIGA)
    if before is not None and is_same:  # what was measured or looked up stays so, in full precision
        bandwidth, source = before.ram_bandwidth_bytes_per_s, before.ram_bandwidth_source
    else:
        source = "typed" if bandwidth is not None else None
    ram = quantity(form.get("ram"), "Memory")
    return {
        "name": form.required("name", "The name", 120),
        "kind": form.text("kind", "The kind", 40),
        "os": form.text("os", "The operating system", 120),
        "cpu": form.text("cpu", "The processor", 120),
        "notes": form.text("notes", "The notes", 10_000),
        "ram_bytes": int(ram) if ram is not None else None,
        "ram_bandwidth_bytes_per_s": bandwidth,
        "ram_bandwidth_source": source,
        "accelerators": _accelerators(form),
    }


def _accelerators(form: Fields) -> list[dict[str, Any]]:
    found = []
    for n, typed_name in enumerate(form.all("accelerator_name")):
        name = typed_name.strip()
        cells = {key: form.nth(f"accelerator_{key}", n) for key in ("count", "memory", "bandwidth", "compute")}
        if not name:
            if cells["memory"] or cells["bandwidth"] or cells["compute"]:
                raise BadInput("An accelerator needs a name.")
            continue
        count = whole(cells["count"], f"How many of {name}")
        if count is not None and not 1 <= count <= 1024:
            raise BadInput(f"How many of {name} must be between 1 and 1,024.")
        memory = quantity(cells["memory"], f"Memory of {name}")
        found.append(
            {
                "name": name[:120],
                "count": count or 1,
                "memory_bytes": int(memory) if memory is not None else None,
                "bandwidth_bytes_per_s": quantity(cells["bandwidth"], f"Bandwidth of {name}"),
                "compute_flops_per_s": quantity(cells["compute"], f"Compute of {name}", TERA),
                "source": "typed",
            }
        )
    return found
