"""What everybody with a link may read. Nothing here asks who it is, sets a cookie or leads into the private pages."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from app.core.i18n import _
from app.share import links
from app.share.document import document
from app.share.links import Shared
from app.share.markdown import markdown
from app.share.page import Links, file, page
from app.share.spreadsheet import spreadsheet
from app.web.deps import ReadSession
from app.web.paths import PUBLIC, absolute, path_for

METHODS = ["GET", "HEAD"]
"""Programs that show a preview of a link may ask for its head first."""

router = APIRouter(prefix=PUBLIC.rstrip("/"), include_in_schema=False)


@router.api_route("/{share}.json", methods=METHODS, name="shared_json")
def show_json(session: ReadSession, share: str) -> Response:
    found = links.opened(session, share)
    return JSONResponse(document(found.snapshot, found.created_at))


@router.api_route("/{share}.csv", methods=METHODS, name="shared_csv")
def show_csv(session: ReadSession, share: str) -> Response:
    # with a byte order mark: spreadsheets take the file for UTF-8 only then
    text = spreadsheet(links.opened(session, share).snapshot)
    return _saved(text.encode("utf-8-sig"), "text/csv; charset=utf-8", "csv")


@router.api_route("/{share}.md", methods=METHODS, name="shared_markdown")
def show_markdown(request: Request, session: ReadSession, share: str) -> Response:
    found = links.opened(session, share)
    text = markdown(found.snapshot, _address(request, found.slug))
    return Response(text, media_type="text/plain; charset=utf-8")


@router.api_route("/{share}.png", methods=METHODS, name="shared_card")
def show_card(session: ReadSession, share: str) -> Response:
    from app.share.card import card  # loads the drawing library: not at start

    return Response(card(links.opened(session, share).snapshot), media_type="image/png")


@router.api_route("/{share}.html", methods=METHODS, name="shared_file")
def save_file(session: ReadSession, share: str) -> Response:
    """A file to keep; as a page of this site its inline styles and scripts would be refused."""
    found = links.opened(session, share)
    return _saved(file(found.snapshot, found.created_at).encode(), "application/octet-stream", "html")


@router.api_route("/{share}", methods=METHODS, name="shared")
def show_page(request: Request, session: ReadSession, share: str) -> Response:
    found = links.opened(session, share)
    return HTMLResponse(page(found.snapshot, found.created_at, _links(request, found)))


def _links(request: Request, found: Shared) -> Links:
    def path(name: str) -> str:
        return path_for(request, name, share=found.slug)

    return Links(
        page=_address(request, found.slug),
        card=absolute(request, path("shared_card")),
        twins={
            _("Save as one HTML file"): path("shared_file"),
            "JSON": path("shared_json"),
            "CSV": path("shared_csv"),
            "Markdown": path("shared_markdown"),
        },
        static=lambda name: path_for(request, "static", path=name),
    )


def _address(request: Request, slug: str) -> str:
    return absolute(request, path_for(request, "shared", share=slug))


def _saved(content: bytes, media_type: str, suffix: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="roofmark.{suffix}"'}
    return Response(content, media_type=media_type, headers=headers)
