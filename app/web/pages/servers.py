"""Servers: discovered, probed, added, edited, and shown with their runs."""

from urllib.parse import urlsplit

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app import suites
from app.core.config_settings import DEFAULT, ordered_setting_keys, setting_title
from app.core.errors import BadInput, RoofmarkError, ServerError
from app.core.i18n import _
from app.db import devices, machines, servers
from app.db.database import Database
from app.db.tables import Server
from app.engines import well_known_ports
from app.engines.base import ServerInfo
from app.engines.http import normalise_base_url
from app.hardware.detect import detect
from app.hardware.host import this_host
from app.measure.config_snapshot import server_facts
from app.results.run_filter import RunFilter
from app.results.run_list import list_runs
from app.web import flash, restart_form, server_form
from app.web.deps import DatabaseDep, Form, OwnPagesOnly, ReadSession, RunnerDep, SecretsDep, WriteSession
from app.web.forms import Fields, WrongField
from app.web.paths import path_for
from app.web.templates import engine_title, engine_titles, is_partial, render

LATEST_RUNS = 10
LOOPBACK = "127.0.0.1"

router = APIRouter(include_in_schema=False)


@router.get("/servers", name="servers")
def list_servers(request: Request, session: ReadSession) -> Response:
    owners = {machine.id: machine for machine in machines.all_machines(session)}
    return render(
        request,
        "servers.html",
        servers=servers.list_servers(session),
        archived=servers.list_servers(session, archived=True),
        machines=owners,
    )


@router.get("/servers/new", name="new_server", dependencies=[OwnPagesOnly])
def new_server(request: Request, database: DatabaseDep, runner: RunnerDep, url: str = "") -> Response:
    """With `url`, which the link of a discovered server contains, the server is probed at once."""
    form = Fields([("base_url", url)])
    return _probe(request, database, runner, form) if url else render(request, "server_new.html", form=form, step=None)


@router.get("/servers/discover", name="discover_servers", dependencies=[OwnPagesOnly])
def discover_servers(request: Request, database: DatabaseDep, runner: RunnerDep) -> Response:
    """Servers on the well-known ports of this machine. Probing takes up to a second, so pages load this afterwards."""
    discovered = runner.discover()
    with database.read() as session:
        servers_by_url = {server.base_url: server for server in servers.list_servers(session)}
    template = "_discovered.html" if is_partial(request) else "discovered.html"
    return render(
        request,
        template,
        discovered=discovered,
        servers_by_url=servers_by_url,
        ports=sorted(well_known_ports()),
        suite=suites.DEFAULT_SUITE,
    )


@router.post("/servers/discover", name="measure_discovered")
def measure_discovered(request: Request, database: DatabaseDep, runner: RunnerDep, form: Form) -> Response:
    """Adds a server that was found on this machine, and this machine as it is detected, and queues the usual suite."""
    base_url = normalise_base_url(form.get("base_url"))
    if urlsplit(base_url).hostname != LOOPBACK:
        raise BadInput(_("{url} is not on this machine: add it as a server first.", url=base_url))
    facts = runner.probe(base_url, None)
    slug = _added_here(database, facts, facts.base_url or base_url)
    first, *_others = runner.queue(slug, suites.DEFAULT_SUITE)
    return RedirectResponse(path_for(request, "run", public_id=first), status_code=303)


def _added_here(database: Database, facts: ServerInfo, base_url: str) -> str:
    """The slug of the server at that address of this machine, which is added where it is missing."""
    with database.read() as session:
        is_machine_known = machines.local_machine(session) is not None
        catalogue = devices.load_catalogue(session)
    profile = None if is_machine_known else detect(catalogue)  # it takes about a second: not while writing
    with database.write() as session:
        machine = machines.ensure_local_machine(session)
        assert machine.id is not None
        if profile is not None:
            machines.fill(session, machine.slug, profile)
        server = servers.server_at(session, base_url)
        if server is None or server.archived_at is not None:
            name = _suggested_name(facts.engine, base_url)
            server = servers.add_server(session, machine.id, name, facts.engine, base_url)
        _remember(session, server, facts)
        return server.slug


@router.post("/servers/probe", name="probe_server")
def probe_server(request: Request, database: DatabaseDep, runner: RunnerDep, form: Form) -> Response:
    return _probe(request, database, runner, form)


@router.post("/servers", name="add_server")
def add_server(request: Request, database: DatabaseDep, runner: RunnerDep, secrets: SecretsDep, form: Form) -> Response:
    try:
        values = server_form.parse_form(form)
        key = form.get("api_key").strip() or None
        facts, problem = _try_probe(runner, form.get("base_url"), key, values.pop("engine"))
        values |= _probed_base_url(facts)
        with database.write() as session:
            machine = server_form.chosen_machine(session, form)
            assert machine.id is not None
            added = servers.add_server(
                session,
                machine.id,
                engine=facts.engine if facts else form.get("engine") or _generic_engine(),
                api_key_encrypted=secrets.encrypt(key) if key else None,
                **values,
            )
            _remember(session, added, facts)
    except BadInput as error:
        return _form(request, database, form, facts=_probe_again(runner, form), error=error)
    return _to(request, added, problem)


@router.get("/servers/{slug}", name="server")
def show_server(request: Request, session: ReadSession, slug: str, unreached: bool = False) -> Response:
    return _page(request, session, slug, unreached=unreached)


def _page(
    request: Request, session: Session, slug: str, *, unreached: bool = False, error: RoofmarkError | None = None
) -> Response:
    server = servers.server(session, slug)
    rows, total = list_runs(session, RunFilter(server=slug), per_page=LATEST_RUNS)
    reported, of_process = server.facts.get("settings") or {}, servers.reported_settings(server)
    keys = [key for key in ordered_setting_keys(of_process) if reported.get(key) is None]
    return render(
        request,
        "server.html",
        status=error.http_status if error else 200,
        error=error,
        server=server,
        machine=server.machine,
        rows=rows,
        total=total,
        usual_suite=suites.DEFAULT_SUITE,
        unreached=unreached,
        of_process={key: of_process[key] for key in keys if of_process[key] not in (None, DEFAULT)},
        left_to_engine=[setting_title(key) for key in keys if of_process[key] == DEFAULT],
        restart=None if server.id is None else restart_form.of_server(session, server.id),
    )


@router.get("/servers/{slug}/edit", name="edit_server")
def edit_server(request: Request, database: DatabaseDep, slug: str) -> Response:
    with database.read() as session:
        server = servers.server(session, slug)
        form = server_form.initial_form(server, server.machine)
    return _form(request, database, form, server=server)


@router.post("/servers/{slug}", name="save_server")
def save_server(
    request: Request, database: DatabaseDep, runner: RunnerDep, secrets: SecretsDep, form: Form, slug: str
) -> Response:
    with database.read() as session:
        server = servers.server(session, slug)
    try:
        values = server_form.parse_form(form, server.settings)
        moved = values["base_url"] != server.base_url
        encrypted = server_form.encrypted_api_key(secrets, form, server, moved)
        key = secrets.api_key(encrypted)
        engine = values.pop("engine")
        is_believed = engine != server.engine or server_form.is_engine_stated(server)
        facts, problem = _try_probe(runner, form.get("base_url"), key, engine, is_believed=is_believed)
        values |= _probed_base_url(facts)
        with database.write() as session:
            saved = servers.edit_server(
                session,
                slug,
                machine_id=server_form.chosen_machine(session, form).id,
                engine=facts.engine if facts else engine or server.engine,
                api_key_encrypted=encrypted,
                **({"facts": {}, "capabilities": {}, "probed_at": None} if moved else {}),
                **values,
            )
            _remember(session, saved, facts)
    except BadInput as error:
        return _form(request, database, form, server=server, error=error)
    return _to(request, saved, problem)


@router.post("/servers/{slug}/probe", name="probe_known_server")
def probe_known_server(request: Request, database: DatabaseDep, runner: RunnerDep, slug: str) -> Response:
    try:
        runner.refresh(slug)
    except ServerError as problem:
        with database.read() as session:
            return _page(request, session, slug, error=problem)
    return RedirectResponse(path_for(request, "server", slug=slug), status_code=303)


@router.post("/servers/{slug}/archive", name="archive_server")
def archive_server(request: Request, session: WriteSession, slug: str) -> Response:
    servers.archive_server(session, slug)
    return flash.redirect_with_flash(request, path_for(request, "server", slug=slug), "archive_server", slug)


@router.post("/servers/{slug}/restore", name="restore_server")
def restore_server(request: Request, session: WriteSession, slug: str) -> Response:
    return _to(request, servers.archive_server(session, slug, archived=False))


def _to(request: Request, server: Server, problem: RoofmarkError | None = None) -> Response:
    path = path_for(request, "server", slug=server.slug)
    return RedirectResponse(f"{path}?unreached=1" if problem else path, status_code=303)


# --- probing ---------------------------------------------------------------------------------------------------------


def _probe(request: Request, database: DatabaseDep, runner: RunnerDep, form: Fields) -> Response:
    """The form filled in from a probe; typed fields stay as they are."""
    key = form.get("api_key").strip() or None
    try:
        facts = runner.probe(form.get("base_url"), key)
        base_url = facts.base_url or normalise_base_url(form.get("base_url"))
    except (BadInput, ServerError) as error:
        return _form(request, database, form, error=error)
    name, suggestion = form.get("name").strip(), _suggested_name(facts.engine, base_url)
    filled_form = Fields(
        [
            *form.items(without=("base_url", "name", "suggested_name", "engine")),
            ("base_url", base_url),
            ("name", suggestion if name in ("", form.get("suggested_name")) else name),
            ("suggested_name", suggestion),
            ("engine", facts.engine),
        ]
    )
    return _form(request, database, filled_form, facts=facts)


def _try_probe(
    runner: RunnerDep, url: str, key: str | None, engine: str | None, *, is_believed: bool = True
) -> "tuple[ServerInfo | None, ServerError | None]":
    """The probe's result, or the error of a server that does not answer: saving does not depend on it."""
    try:
        return runner.probe(url, key, engine, is_believed=is_believed), None
    except ServerError as problem:
        return None, problem


def _probed_base_url(facts: ServerInfo | None) -> dict[str, str]:
    """The base URL that the probe found, as a column: a person may have typed the address of the API instead."""
    return {} if facts is None or facts.base_url is None else {"base_url": facts.base_url}


def _probe_again(runner: RunnerDep, form: Fields) -> ServerInfo | None:
    """Probes again after a wrong field, so that the form keeps the server's facts; None before the first probe."""
    if not form.get("suggested_name"):
        return None
    try:
        base_url = normalise_base_url(form.get("base_url"))
    except BadInput:  # no valid address, so there was no probe
        return None
    return _try_probe(runner, base_url, form.get("api_key").strip() or None, None)[0]


def _remember(session: Session, added: Server, facts: ServerInfo | None) -> None:
    if facts is not None and added.id is not None:
        stored = server_facts(added.base_url, facts)
        servers.remember(session, added.id, facts=stored, capabilities=facts.capabilities)


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
    facts: ServerInfo | None = None,
    error: RoofmarkError | None = None,
) -> Response:
    with database.read() as session:
        all_machines = machines.list_machines(session)
        is_here_known = machines.local_machine(session) is not None
    base_url = server.base_url if server else form.get("base_url")
    stored_facts = server_facts(base_url, facts) if facts else (server.facts if server else {})
    context = {
        "form": form,
        "server": server,
        "facts": facts,
        "error": error,
        "wrong_field": error.field if isinstance(error, WrongField) else "",
        "is_partial": is_partial(request),
        "step": "details",
        "machines": [(machine.slug, machine.name) for machine in all_machines],
        "new_machine": None if is_here_known else (server_form.HERE, _("This machine ({name})", name=this_host().name)),
        "engines": _engines_by_title(),
        "models": stored_facts.get("models", []),
        "settings": server_form.settings_to_ask(stored_facts, server.settings if server else {}),
        "missing_settings": server_form.missing_settings(stored_facts),
    }
    template = "server_edit.html" if server else "_server_fields.html" if is_partial(request) else "server_new.html"
    # a failed probe is no error of a partial page, and browsers log error statuses
    status = error.http_status if error and not is_partial(request) else 200
    return render(request, template, status=status, **context)


def _engines_by_title() -> list[tuple[str, str]]:
    """Key and title of each engine, as a person looks for it in a long list; the one that fits any server is last."""
    return sorted(engine_titles().items(), key=lambda engine: (engine[0] == "openai", engine[1].lower()))
