"""`roofmark share` and `roofmark shares`: a link, a file or a post, and what links there are."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from app.cli.common import log_to_file, open_database, print_json, say
from app.core.errors import BadInput
from app.core.settings import Settings
from app.db import shares
from app.db.database import Database
from app.share import Snapshot, links
from app.share.markdown import to_markdown
from app.share.page import render_file
from app.web.forms import Fields
from app.web.sharing import fields_of_address, fields_of_runs, is_address, share_preview


def share(what: Sequence[str], title: str, include: Sequence[str], html: Path | None, as_markdown: bool) -> None:
    """Without `html` and `as_markdown` a link is made, and its path printed."""
    settings = Settings()
    database = _database(settings)
    own = [("title", title), *(("include", each) for each in include)]
    with database.read() as session:
        snapshot = share_preview(session, Fields([*_shared(what), *own])).snapshot
    if html is not None:
        _write(html, render_file(snapshot, datetime.now(UTC)))
    if as_markdown:
        say(to_markdown(snapshot), nl=False)
    if html is None and not as_markdown:
        say(_published(database, settings, snapshot))


def list_shares(as_json: bool) -> None:
    settings = Settings()
    with _database(settings).read() as session:
        found = shares.list_shares(session)
    if as_json:
        print_json({"shares": [_document(each, settings) for each in found]})
        return
    if not found:
        say("Nothing is shared: `roofmark share RUN` makes a link.", err=True)
    for each in found:
        state = f"revoked {each.revoked_at:%Y-%m-%d}" if each.revoked_at else f"since {each.created_at:%Y-%m-%d}"
        say(f"{_path(settings, each.slug)}  {each.kind}, {state} · {each.title}")


def revoke(link: str) -> None:
    """`link`: as `share` printed it, with a host before it, or only what stands behind `/s/`."""
    slug = link.strip().rstrip("/").rpartition("/")[2]
    with _database(Settings()).write() as session:
        shares.revoke(session, slug)
    say(f"The link {slug} is revoked: its page and its data are gone.")


def _shared(what: Sequence[str]) -> list[tuple[str, str]]:
    """Runs by their ids, or one page by its address. Raises BadInput."""
    if not any(map(is_address, what)):
        return fields_of_runs(what)
    if len(what) > 1:
        raise BadInput("An address is shared alone: what its page shows becomes one link.")
    return fields_of_address(what[0])


def _published(database: Database, settings: Settings, snapshot: Snapshot) -> str:
    with database.write() as session:
        return _path(settings, links.publish(session, snapshot))


def _path(settings: Settings, slug: str) -> str:
    return f"{settings.root_path}/s/{slug}"


def _document(listed: shares.Listed, settings: Settings) -> dict[str, str | None]:
    return {
        "path": _path(settings, listed.slug),
        "kind": listed.kind,
        "title": listed.title,
        "created_at": listed.created_at.isoformat(),
        "revoked_at": listed.revoked_at.isoformat() if listed.revoked_at else None,
    }


def _database(settings: Settings) -> Database:
    log_to_file(settings)
    return open_database(settings)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
