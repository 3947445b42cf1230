"""Public pages of shared links: without a login, cookies, or links into the private pages."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.i18n import _
from app.share import links
from app.share.formats import ShareDocument, to_csv, to_document, to_markdown
from app.share.links import StoredShare
from app.share.page import Links, render_file, render_page
from app.web.deps import ReadSession
from app.web.document_response import DocumentResponse
from app.web.errors import error_responses
from app.web.paths import PUBLIC_PREFIX, absolute_url, path_for
from app.web.sharing import card_response, download

router = APIRouter(prefix=PUBLIC_PREFIX.rstrip("/"))


@router.get(
    "/{share}.json",
    name="shared_json",
    summary="Read a shared result",
    tags=["shares"],
    response_model=ShareDocument,
    responses=error_responses(404, 409, 422),
)
def show_json(session: ReadSession, share: str) -> Response:
    """A shared result; needs no password."""
    stored = links.open_share(session, share)
    return DocumentResponse(to_document(stored.snapshot, stored.created_at))


@router.get("/{share}.csv", name="shared_csv", include_in_schema=False)
def show_csv(session: ReadSession, share: str) -> Response:
    # with a byte order mark: spreadsheets take the file for UTF-8 only then
    text = to_csv(links.open_share(session, share).snapshot)
    return download(text.encode("utf-8-sig"), "text/csv; charset=utf-8", "csv")


@router.get("/{share}.md", name="shared_markdown", include_in_schema=False)
def show_markdown(request: Request, session: ReadSession, share: str) -> Response:
    stored = links.open_share(session, share)
    text = to_markdown(stored.snapshot, _address(request, stored.slug))
    return Response(text, media_type="text/plain; charset=utf-8")


@router.get("/{share}.png", name="shared_card", include_in_schema=False)
def show_card(session: ReadSession, share: str) -> Response:
    return card_response(links.open_share(session, share).snapshot)


@router.get("/{share}.html", name="shared_file", include_in_schema=False)
def save_file(session: ReadSession, share: str) -> Response:
    """A file to keep; as a page of this site its inline styles and scripts would be refused."""
    stored = links.open_share(session, share)
    return download(render_file(stored.snapshot, stored.created_at).encode(), "application/octet-stream", "html")


@router.get("/{share}", name="shared", include_in_schema=False)
def show_page(request: Request, session: ReadSession, share: str) -> Response:
    stored = links.open_share(session, share)
    return HTMLResponse(render_page(stored.snapshot, stored.created_at, _links(request, stored)))


def _links(request: Request, stored: StoredShare) -> Links:
    def path(name: str) -> str:
        return path_for(request, name, share=stored.slug)

    return Links(
        page=_address(request, stored.slug),
        card=absolute_url(request, path("shared_card")),
        other_formats={
            _("Save as one HTML file"): path("shared_file"),
            "JSON": path("shared_json"),
            "CSV": path("shared_csv"),
            "Markdown": path("shared_markdown"),
        },
        static=lambda name: path_for(request, "static", path=name),
    )


def _address(request: Request, slug: str) -> str:
    return absolute_url(request, path_for(request, "shared", share=slug))
