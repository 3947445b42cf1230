from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.web.templates import render
from app.web.terms import sections

router = APIRouter(include_in_schema=False)


@router.get("/glossary", name="glossary")
def show_glossary(request: Request) -> Response:
    return render(request, "glossary.html", sections=sections())
