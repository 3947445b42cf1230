"""Every route of the application, with addresses that exist."""

from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")


def addresses(web: FastAPI, **values: str) -> Iterator[tuple[str, str]]:
    """Method and path of each route, what deletes last; `values` stand in for its parameters."""
    return iter(sorted(_addresses(web, **values), key=_deletes))


def _deletes(address: tuple[str, str]) -> bool:
    method, path = address
    return method == "DELETE" or (method == "POST" and path.endswith("/delete"))


def _addresses(web: FastAPI, **values: str) -> Iterator[tuple[str, str]]:
    values = {"note_id": "1", "view_id": "1", "action": "hide", **values}
    for route in iter_route_contexts(web.routes):
        path: str = getattr(route, "path", "")
        methods = getattr(route, "methods", None) or {"GET"}
        if path == "/static":
            path, values = "/static/css/app.css", values
        for method in sorted(methods - {"HEAD"}):
            yield method, path.format(**values)
