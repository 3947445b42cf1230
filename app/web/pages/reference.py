"""Pages to look things up: the glossary, and the JSON API as Swagger UI shows it."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.web.paths import path_for
from app.web.templates import render
from app.web.terms import sections

router = APIRouter(include_in_schema=False)


@router.get("/glossary", name="glossary")
def show_glossary(request: Request) -> Response:
    return render(request, "glossary.html", sections=sections())


@router.get("/docs", name="api_docs")
def show_api_docs(request: Request) -> Response:
    """FastAPI's own page loads from a CDN and has an inline script; this one does neither."""
    return render(request, "api_docs.html", openapi_url=path_for(request, "openapi"))
