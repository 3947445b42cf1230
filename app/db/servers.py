from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, func, select

from app.core.errors import NotFound
from app.core.i18n import _
from app.db.slugs import free_slug
from app.db.tables import Server, now


def list_servers(session: Session, archived: bool = False, machine_id: int | None = None) -> Sequence[Server]:
    """The servers in use, or the archived ones, by name; of one machine where its id is given."""
    is_listed = col(Server.archived_at).is_not(None) if archived else col(Server.archived_at).is_(None)
    query = select(Server).where(is_listed).order_by(Server.name)
    if machine_id is not None:
        query = query.where(Server.machine_id == machine_id)
    return session.exec(query).all()


def counts_by_machine(session: Session) -> Mapping[int, int]:
    """Returns how many servers in use each machine has, by its id."""
    query = select(Server.machine_id, func.count()).where(col(Server.archived_at).is_(None)).group_by(Server.machine_id)  # type: ignore[arg-type]  # a column of the table
    return dict(session.exec(query).all())


def server(session: Session, slug: str) -> Server:
    """Find a server by its slug. Raises NotFound."""
    row = session.exec(select(Server).where(Server.slug == slug)).first()
    if row is None:
        raise NotFound(_("There is no server called {slug!r}.", slug=slug))
    return row


def server_at(session: Session, base_url: str) -> Server | None:
    """Returns the server at that address, the newest if there are several; an archived one only when none is in use."""
    query = select(Server).where(Server.base_url == base_url)
    return session.exec(query.order_by(col(Server.archived_at).is_not(None), col(Server.id).desc())).first()


def add_server(session: Session, machine_id: int, name: str, engine: str, base_url: str, **fields: Any) -> Server:
    """Add a server with a slug of its own."""
    added = Server(
        machine_id=machine_id,
        slug=free_slug(session, Server, name),
        name=name,
        engine=engine,
        base_url=base_url,
        **fields,
    )
    session.add(added)
    session.flush()
    return added


def edit_server(session: Session, slug: str, **fields: Any) -> Server:
    """Changes columns of a server; its slug stays. Raises NotFound."""
    return server(session, slug).sqlmodel_update(fields)


def archive_server(session: Session, slug: str, archived: bool = True) -> Server:
    """Archive a server, or restore it. Raises NotFound."""
    return edit_server(session, slug, archived_at=now() if archived else None)


def reported_settings(server: Server) -> Mapping[str, Any]:
    """What the last probe of a server reported, and what the command line of its process said, which it outranks."""
    process = server.facts.get("process") or {}
    return {**process.get("settings", {}), **(server.facts.get("settings") or {})}


def stated_settings(server: Server, model_id: str | None) -> Mapping[str, Any]:
    """What people stated of a server and of this model of it; the model's own have priority."""
    return {**server.settings, **server.model_settings.get(model_id or "", {})}


def remember(
    session: Session,
    server_id: int,
    *,
    facts: Mapping[str, Any] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    model_id: str | None = None,
    anew: bool = False,
) -> None:
    """Stores what a probe, a request or a person stated; with a model id, `settings` are those of that model. A setting
    of None is removed, from the server too.

    Capabilities learned from one version of an engine do not hold for another one; nor, with `anew`, for a server that
    a person has probed again, since most report no version.
    """
    row = session.get(Server, server_id)
    if row is None:
        return
    if facts is not None:
        if anew or facts.get("engine_version") != row.facts.get("engine_version"):
            row.capabilities = {}
        row.facts = dict(facts)
        row.probed_at = now()
    if capabilities:
        row.capabilities = {**row.capabilities, **capabilities}
    if settings:
        of_model = {} if model_id is None else row.model_settings.get(model_id, {})
        merged = {**(row.settings if model_id is None else of_model), **settings}
        kept_settings = {key: value for key, value in merged.items() if value is not None}
        forgotten = {key for key, value in settings.items() if value is None}
        if model_id is None:
            row.settings = kept_settings
        else:
            row.model_settings = {**row.model_settings, model_id: kept_settings}
            row.settings = {key: value for key, value in row.settings.items() if key not in forgotten}
    session.add(row)
