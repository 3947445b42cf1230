"""Paths of routes by name, with the sub-path; only links for other sites contain a host."""

from typing import Any

from fastapi import FastAPI
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.requests import Request
from starlette.routing import NoMatchFound


def routes_by_name(web: FastAPI) -> dict[str, list[RouteContext]]:
    """The routes of a complete application, so that `path_for` need not search all of them."""
    routes: dict[str, list[RouteContext]] = {}
    for route in iter_route_contexts(web.routes):
        routes.setdefault(route.name or "", []).append(route)
    return routes


def path_for(request: Request, name: str, /, **path_params: Any) -> str:
    """The path of a route, with the sub-path."""
    root: str = request.scope.get("root_path", "").rstrip("/")
    return f"{root}{_own_path(request, name, **path_params)}"


def _own_path(request: Request, name: str, /, **path_params: Any) -> str:
    for route in request.app.state.routes.get(name, ()):
        try:
            return str(
                route.url_path_for(name, **{key: _one_segment(key, value) for key, value in path_params.items()})
            )
        except NoMatchFound:  # several routes may have the name
            continue
    raise NoMatchFound(name, path_params)


def _one_segment(key: str, value: Any) -> Any:
    """Returns a value for a path: what somebody typed may hold what separates its segments; `path` is that of a static
    file, which has several."""
    return value.replace("/", "%2F") if isinstance(value, str) and key != "path" else value


def route_path(request: Request) -> str:
    """The path without the sub-path, whether or not the proxy in front has cut it off."""
    path: str = request.scope["path"]
    root: str = request.scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


PUBLIC_PREFIX = "/s/"
"""The prefix of pages that need no password: everybody with a link may read them."""


def is_public(request: Request) -> bool:
    return route_path(request).startswith(PUBLIC_PREFIX)


def is_for_programs(request: Request) -> bool:
    """Whether the response is data for programs, which is always in English."""
    return f"{route_path(request)}/".startswith("/api/") or route_path(request).endswith((".json", ".csv"))


def home_path(request: Request) -> str:
    """The path of cookies: the sub-path, or `/`."""
    root: str = request.scope.get("root_path", "").rstrip("/")
    return root or "/"


def absolute_url(request: Request, path: str) -> str:
    """A URL for other sites: with the public address of the settings, else with the host that the request names."""
    public_url: str = request.app.state.settings.public_url
    if public_url:
        return f"{public_url}{path.removeprefix(request.scope.get('root_path', '').rstrip('/'))}"
    return f"{request.url.scheme}://{request.headers['host']}{path}"


def is_within(request: Request, name: str) -> bool:
    """Whether the request is for the named page or one below it."""
    home, path = _own_path(request, name), route_path(request)
    return path == home or (home != "/" and path.startswith(f"{home}/"))


def local_path(target: str) -> str | None:
    """`target` if it is a path of this site, else None: browsers read `//x` and `/\\x` as another site."""
    is_local = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_local else None
