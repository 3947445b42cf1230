"""`roofmark share`: a link, a file or Markdown; and `roofmark shares`: the links there are."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from sqlmodel import Session

from app.cli.output import Json, print_json, say
from app.cli.startup import open_with_log
from app.core.errors import BadInput
from app.core.settings import Settings
from app.db import shares
from app.db.database import Database
from app.results.compare.observations import resolve_run_id
from app.share import Option, Snapshot, links
from app.share.formats import to_markdown
from app.share.page import render_file
from app.share.reach import INSTEAD, reach_words
from app.web.forms import Fields
from app.web.sharing import fields_of_address, fields_of_runs, is_address, share_preview

commands = typer.Typer()
shares_group = typer.Typer(name="shares", help="Manage shared links.", no_args_is_help=True)
commands.add_typer(shares_group)


@commands.command("share")
def share_results(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="ID of a run, or: latest, previous, baseline; several are compared. Or the URL, in quotes, of a page "
            "with a Share button.",
        ),
    ],
    title: Annotated[str, typer.Option("--title", help="Title of the shared page.")] = "",
    include: Annotated[
        list[str] | None,
        typer.Option("--include", help=f"Also make this public (repeatable): {', '.join(Option)}."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML file instead of a link.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Write the PNG that other sites show.")
    ] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a forum instead of a link.")
    ] = False,
) -> None:
    """Share a snapshot of a result: as a link, an HTML file, a picture or Markdown."""
    settings = Settings()
    database = open_with_log(settings)
    options = [("title", title), *(("include", name) for name in include or [])]
    with database.read() as session:
        snapshot = share_preview(session, Fields([*_subject_fields(session, targets), *options])).snapshot
    if html is not None:
        _write(html, render_file(snapshot, datetime.now(UTC)).encode())
    if picture is not None:
        from app.share.card import draw_card  # loads Pillow, which no other command needs

        _write(picture, draw_card(snapshot))
    if as_markdown:
        say(to_markdown(snapshot), nl=False)
    if html is None and picture is None and not as_markdown:
        say(_publish(database, settings, snapshot))
        if words := _reach(settings):
            say(words, err=True)


@shares_group.command("list")
def list_shares(as_json: Json = False) -> None:
    """List shared links, including revoked ones."""
    settings = Settings()
    with open_with_log(settings).read() as session:
        listed_shares = shares.list_shares(session)
    if as_json:
        print_json({"shares": [_share_json(share, settings) for share in listed_shares]})
        return
    if not listed_shares:
        say("No shared links yet: create one with `roofmark share RUN`.", err=True)
    for share in listed_shares:
        state = f"revoked {share.revoked_at:%Y-%m-%d}" if share.revoked_at else f"since {share.created_at:%Y-%m-%d}"
        say(f"{_link(settings, share.slug)}  {share.kind}, {state} · {share.title}")


@shares_group.command("revoke")
def revoke(link: Annotated[str, typer.Argument(metavar="LINK", help="The link, or its path.")]) -> None:
    """Revoke a link: delete its page and its data for good."""
    # a URL, a path such as `/s/5f0c`, or only the part after `/s/`
    slug = link.strip().rstrip("/").rpartition("/")[2]
    with open_with_log(Settings()).write() as session:
        shares.revoke(session, slug)
    say(f"Revoked {slug}: its page and its data are deleted.")


def _subject_fields(session: Session, targets: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the form fields for runs by their names, or for one page by its URL. Raises BadInput, NotFound."""
    if not any(map(is_address, targets)):
        # a comparison resolves its names itself: there, `previous` is seen from the last run that has an ID
        return fields_of_runs([resolve_run_id(session, targets[0])] if len(targets) == 1 else targets)
    if len(targets) > 1:
        raise BadInput("A page is shared alone: give one URL and no run IDs.")
    return fields_of_address(targets[0])


def _publish(database: Database, settings: Settings, snapshot: Snapshot) -> str:
    with database.write() as session:
        return _link(settings, links.publish(session, snapshot))


def _link(settings: Settings, slug: str) -> str:
    """Returns the whole link where the settings state the public address, else its path on every address of the
    server."""
    return f"{settings.public_url or settings.root_path}/s/{slug}"


def _reach(settings: Settings) -> str:
    """Returns who can open a link; empty where its address is public."""
    if not settings.public_url:
        return (
            "Only people who reach this server can open it: set ROOFMARK_PUBLIC_URL for whole links, or send a file "
            "instead: --html, --picture or --markdown."
        )
    words = reach_words(settings.public_url)
    return f"{words} {INSTEAD}" if words else ""


def _share_json(share: shares.ShareListing, settings: Settings) -> dict[str, str | None]:
    return {
        "path": f"{settings.root_path}/s/{share.slug}",
        "url": _link(settings, share.slug) if settings.public_url else None,
        "kind": share.kind,
        "title": share.title,
        "created_at": share.created_at.isoformat(),
        "revoked_at": share.revoked_at.isoformat() if share.revoked_at else None,
    }


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
