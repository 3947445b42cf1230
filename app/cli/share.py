"""`roofmark share`: a link, a file or Markdown; and `roofmark shares`: the links there are."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from app.cli.common import log_to_file, open_database, print_json, say
from app.core.errors import BadInput
from app.core.settings import Settings
from app.db import shares
from app.db.database import Database
from app.share import Snapshot, links
from app.share.formats import to_markdown
from app.share.page import render_file
from app.web.forms import Fields
from app.web.sharing import fields_of_address, fields_of_runs, is_address, share_preview


def share_results(
    targets: Sequence[str], title: str, include: Sequence[str], html: Path | None, as_markdown: bool
) -> None:
    """Writes a snapshot to `html`, prints it as Markdown, or, without both, publishes it and prints the link's path.

    `targets` are run IDs or one page URL. Raises RoofmarkError.
    """
    settings = Settings()
    database = _database(settings)
    options = [("title", title), *(("include", name) for name in include)]
    with database.read() as session:
        snapshot = share_preview(session, Fields([*_subject_fields(targets), *options])).snapshot
    if html is not None:
        _write(html, render_file(snapshot, datetime.now(UTC)))
    if as_markdown:
        say(to_markdown(snapshot), nl=False)
    if html is None and not as_markdown:
        say(_publish(database, settings, snapshot))


def list_shares(as_json: bool) -> None:
    """Prints the shared links, newest first."""
    settings = Settings()
    with _database(settings).read() as session:
        listed_shares = shares.list_shares(session)
    if as_json:
        print_json({"shares": [_share_json(share, settings) for share in listed_shares]})
        return
    if not listed_shares:
        say("No shared links yet: create one with `roofmark share RUN`.", err=True)
    for share in listed_shares:
        state = f"revoked {share.revoked_at:%Y-%m-%d}" if share.revoked_at else f"since {share.created_at:%Y-%m-%d}"
        say(f"{_path(settings, share.slug)}  {share.kind}, {state} · {share.title}")


def revoke(link: str) -> None:
    """Deletes a share; `link` is a URL, a path such as `/s/5f0c`, or only the part after `/s/`. Raises NotFound."""
    slug = link.strip().rstrip("/").rpartition("/")[2]
    with _database(Settings()).write() as session:
        shares.revoke(session, slug)
    say(f"Revoked {slug}: its page and its data are deleted.")


def _subject_fields(targets: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the form fields for runs by their IDs, or for one page by its URL. Raises BadInput."""
    if not any(map(is_address, targets)):
        return fields_of_runs(targets)
    if len(targets) > 1:
        raise BadInput("A page is shared alone: give one URL and no run IDs.")
    return fields_of_address(targets[0])


def _publish(database: Database, settings: Settings, snapshot: Snapshot) -> str:
    with database.write() as session:
        return _path(settings, links.publish(session, snapshot))


def _path(settings: Settings, slug: str) -> str:
    return f"{settings.root_path}/s/{slug}"


def _share_json(share: shares.ShareListing, settings: Settings) -> dict[str, str | None]:
    return {
        "path": _path(settings, share.slug),
        "kind": share.kind,
        "title": share.title,
        "created_at": share.created_at.isoformat(),
        "revoked_at": share.revoked_at.isoformat() if share.revoked_at else None,
    }


def _database(settings: Settings) -> Database:
    log_to_file(settings)
    return open_database(settings)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
