"""Servers: found by probing, added with what the probe found, shown with what was measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app import suites
from app.configuration import SETTINGS, clean_setting
from app.errors import BadInput, RoofmarkError, ServerProblem
from app.models import Machine, Server
from app.store import machines, servers
from app.store.listing import Filter, list_runs
from app.web.deps import DatabaseDep, Form, Reading, RunnerDep, SecretsDep, Writing
from app.web.forms import Fields
from app.web.pages.machines import ensure_this_machine
from app.web.render import engine_title, engine_titles, is_partial, path_for, render

if TYPE_CHECKING:
    from app.engines.base import Facts

HERE = "@here"
"""In the form's choice of machines: the one that Roofmark runs on, added on saving. No slug has an @."""
LATEST_RUNS = 10

router = APIRouter(include_in_schema=False)


@router.get("/servers", name="servers")
def list_servers(request: Request, session: Reading) -> Response:
    owners = {machine.id: machine for machine in machines.all_machines(session)}
    return render(
        request,
        "servers.html",
        servers=servers.list_servers(session),
        archived=servers.list_servers(session, archived=True),
        machines=owners,
    )


@router.get("/servers/new", name="new_server")
def new_server(request: Request, database: DatabaseDep, runner: RunnerDep, url: str = "") -> Response:
    """With `url`, as a link from a discovered server has it, the probe is made at once."""
    form = Fields([("base_url", url)])
    return _probed(request, database, runner, form) if url else render(request, "server_new.html", form=form, step=None)


@router.get("/servers/discover", name="discover_servers")
def discover_servers(request: Request, database: DatabaseDep, runner: RunnerDep) -> Response:
    """What answers on well-known ports of this machine; takes up to a second, so pages ask for it afterwards."""
    found = runner.discover()
    with database.read() as session:
        known = {server.base_url: server for server in servers.list_servers(session)}
    template = "_discovered.html" if is_partial(request) else "discovered.html"
    return render(request, template, found=found, known=known)


@router.post("/servers/probe", name="probe_server")
def probe_server(request: Request, database: DatabaseDep, runner: RunnerDep, form: Form) -> Response:
    return _probed(request, database, runner, form)


@router.post("/servers", name="add_server")
def add_server(request: Request, database: DatabaseDep, runner: RunnerDep, secrets: SecretsDep, form: Form) -> Response:
    try:
        values = _values(form)
        key = form.get("api_key").strip() or None
        facts, problem = _try_probe(runner, values["base_url"], key, values.pop("engine"))
        with database.write() as session:
            machine = _machine(session, form)
            assert machine.id is not None
            added = servers.add_server(
                session,
                machine.id,
                engine=facts.engine if facts else form.get("engine") or _generic_engine(),
                api_key_encrypted=secrets.encrypt(key) if key else None,
                **values,
            )
            assert added.id is not None
            _remember(session, added.id, facts)
    except BadInput as error:
        return _form(request, database, form, error=error)
    return _to(request, added, problem)


@router.get("/servers/{slug}", name="server")
def show_server(request: Request, session: Reading, slug: str, unreached: bool = False) -> Response:
    server, machine = servers.server_with_machine(session, slug)
    rows, total = list_runs(session, Filter(server=slug), per_page=LATEST_RUNS)
    return render(
        request,
        "server.html",
        server=server,
        machine=machine,
        rows=rows,
        total=total,
        usual_suite=suites.USUAL,
        unreached=unreached,
    )


@router.get("/servers/{slug}/edit", name="edit_server")
def edit_server(request: Request, database: DatabaseDep, slug: str) -> Response:
    with database.read() as session:
        server, machine = servers.server_with_machine(session, slug)
    return _form(request, database, _fields(server, machine), server=server)


@router.post("/servers/{slug}", name="save_server")
def save_server(
    request: Request, database: DatabaseDep, runner: RunnerDep, secrets: SecretsDep, form: Form, slug: str
) -> Response:
    with database.read() as session:
        server = servers.server(session, slug)
    try:
        values = _values(form)
        moved = values["base_url"] != server.base_url
        encrypted = _kept_key(secrets, form, server, moved)
        key = secrets.decrypt(encrypted) if encrypted else None
        engine = values.pop("engine")
        facts, problem = _try_probe(runner, values["base_url"], key, engine)
        with database.write() as session:
            saved = servers.edit_server(
                session,
                slug,
                machine_id=_machine(session, form).id,
                engine=facts.engine if facts else engine or server.engine,
                api_key_encrypted=encrypted,
                **({"facts": {}, "capabilities": {}, "probed_at": None} if moved else {}),
                **values,
            )
            assert saved.id is not None
            _remember(session, saved.id, facts)
    except BadInput as error:
        return _form(request, database, form, server=server, error=error)
    return _to(request, saved, problem)


@router.post("/servers/{slug}/probe", name="probe_known_server")
def probe_known_server(request: Request, runner: RunnerDep, slug: str) -> Response:
    runner.refresh(slug)
    return RedirectResponse(path_for(request, "server", slug=slug), status_code=303)


@router.post("/servers/{slug}/archive", name="archive_server")
def archive_server(request: Request, session: Writing, slug: str) -> Response:
    return _to(request, servers.archive_server(session, slug))


@router.post("/servers/{slug}/restore", name="restore_server")
def restore_server(request: Request, session: Writing, slug: str) -> Response:
    return _to(request, servers.archive_server(session, slug, archived=False))


def _to(request: Request, server: Server, problem: RoofmarkError | None = None) -> Response:
    path = path_for(request, "server", slug=server.slug)
    return RedirectResponse(f"{path}?unreached=1" if problem else path, status_code=303)


# --- probing ---------------------------------------------------------------------------------------------------------


def _probed(request: Request, database: DatabaseDep, runner: RunnerDep, form: Fields) -> Response:
    """The form filled with what a probe found; what was typed before stays."""
    key = form.get("api_key").strip() or None
    try:
        base_url = _address(form.get("base_url"))
        facts, problem = runner.probe(base_url, key, form.get("engine") or None), None
    except (BadInput, ServerProblem) as error:
        return _form(request, database, form, error=error)
    found = Fields(
        [
            *form.items(without=("base_url", "name", "engine")),
            ("base_url", base_url),
            ("name", form.get("name").strip() or _suggested_name(facts.engine, base_url)),
            ("engine", facts.engine),
        ]
    )
    return _form(request, database, found, facts=facts, error=problem)


def _try_probe(
    runner: RunnerDep, base_url: str, key: str | None, engine: str | None
) -> "tuple[Facts | None, ServerProblem | None]":
    """Saving does not depend on the server being up."""
    try:
        return runner.probe(base_url, key, engine), None
    except ServerProblem as problem:
        return None, problem


def _remember(session: Session, server_id: int, facts: "Facts | None") -> None:
    if facts is not None:
        servers.remember(session, server_id, facts=_told(facts), capabilities=facts.capabilities)


def _address(text: str) -> str:
    from app.http import normalise_base_url  # loads the HTTP client: not at start

    return normalise_base_url(text)


def _told(facts: "Facts") -> dict[str, Any]:
    from app.runner.facts import facts_json

    return facts_json(facts)


def _suggested_name(engine: str, base_url: str) -> str:
    return f"{engine_title(engine)} {urlsplit(base_url).netloc}"


def _generic_engine() -> str:
    return next(reversed(engine_titles()))


# --- the form --------------------------------------------------------------------------------------------------------


def _form(
    request: Request,
    database: DatabaseDep,
    form: Fields,
    *,
    server: Server | None = None,
    facts: "Facts | None" = None,
    error: RoofmarkError | None = None,
) -> Response:
    from app.hardware import this_host
    from app.runner.facts import OVERRIDES

    with database.read() as session:
        known = machines.list_machines(session)
    told = _told(facts) if facts else (server.facts if server else {})
    here = this_host().name
    context = {
        "form": form,
        "server": server,
        "facts": facts,
        "error": error,
        "step": "details",
        "machines": [(machine.slug, machine.name) for machine in known],
        "here": None if here in (machine.name for machine in known) else (HERE, f"This machine ({here})"),
        "engines": list(engine_titles().items()),
        "models": told.get("models", []),
        "asked": _asked(told),
        "lacks": [key for key in OVERRIDES if not _tells(told, key)],
    }
    template = "server_edit.html" if server else "_server_fields.html" if is_partial(request) else "server_new.html"
    # in a piece of the page a failed probe is an answer like any other, and browsers log error states
    status = error.http_status if error and not is_partial(request) else 200
    return render(request, template, status=status, **context)


def _asked(facts: dict[str, Any]) -> Sequence[Any]:
    """The settings that a person is asked for: those that a probe cannot know and this one did not."""
    told = facts.get("settings", {})
    return [setting for setting in SETTINGS.values() if setting.asked and told.get(setting.key) is None]


def _tells(facts: dict[str, Any], key: str) -> bool:
    """Whether the probe told the engine's version, or the quantization of every model."""
    if key == "engine_version":
        return bool(facts.get("engine_version"))
    models = facts.get("models", [])
    return bool(models) and all(model.get(key) for model in models)


def _fields(server: Server, machine: Machine) -> Fields:
    return Fields(
        [
            ("name", server.name),
            ("machine", machine.slug),
            ("engine", server.engine),
            ("base_url", server.base_url),
            ("model", server.model or ""),
            ("labels", ", ".join(server.labels)),
            *((f"setting_{key}", str(value)) for key, value in server.settings.items()),
        ]
    )


def _values(form: Fields) -> dict[str, Any]:
    """Columns of a server, with `engine` None where the probe shall find it. Raises BadInput."""
    base_url = _address(form.get("base_url"))
    engine = form.get("engine") or None
    if engine is not None and engine not in engine_titles():
        raise BadInput(f"There is no engine {engine!r}.")
    labels = dict.fromkeys(label.strip() for label in form.text("labels", "Labels", 500).split(","))
    settings = {key: clean_setting(key, value) for key, value in form.starting_with("setting_").items()}
    return {
        "base_url": base_url,
        "engine": engine,
        "name": form.required("name", "The name", 120),
        "model": form.text("model", "The model", 300) or None,
        "labels": [label for label in labels if label],
        "settings": {key: value for key, value in settings.items() if value is not None},
    }


def _machine(session: Session, form: Fields) -> Machine:
    slug = form.required("machine", "The machine", 80)
    return ensure_this_machine(session) if slug == HERE else machines.machine(session, slug)


def _kept_key(secrets: SecretsDep, form: Fields, server: Server, moved: bool) -> str | None:
    """A key belongs to the address it was entered for: it is never sent to another one unasked."""
    typed = form.get("api_key").strip()
    if typed:
        return secrets.encrypt(typed)
    return None if moved or form.get("remove_key") else server.api_key_encrypted
