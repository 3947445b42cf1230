"""Addresses with and without a sub-path before them, and which of them are whose."""

from types import SimpleNamespace

import pytest
from starlette.requests import Request
from starlette.routing import NoMatchFound, Route

from app.core.settings import Settings
from app.web.paths import (
    absolute_url,
    home_path,
    is_for_programs,
    is_public,
    is_within,
    local_path,
    path_for,
    route_path,
)


def request(path: str, root: str = "") -> Request:
    def nothing() -> None: ...

    routes = {
        "overview": [Route("/", nothing, name="overview")],
        "runs": [Route("/runs", nothing, name="runs")],
        "run": [
            Route("/runs/{public_id}", nothing, name="run"),
            Route("/runs/{public_id}/{part}", nothing, name="run"),
        ],
    }
    app = SimpleNamespace(state=SimpleNamespace(routes=routes, settings=Settings()))
    headers = [(b"host", b"models.lan:8765")]
    return Request({"type": "http", "method": "GET", "scheme": "https", "path": path, "root_path": root, "app": app,
                    "query_string": b"", "headers": headers, "server": ("127.0.0.1", 80)})  # fmt: skip


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/runs", "", "/runs"),
        ("/runs", "/notes", "/runs"),  # the proxy has cut it off
        ("/notes/runs", "/notes", "/runs"),
        ("/notes/runs", "/notes/", "/runs"),
        ("/notes/", "/notes", "/"),
        ("/notes", "/notes", "/notes"),
        ("/notesx/runs", "/notes", "/notesx/runs"),
        ("/notes/notes/runs", "/notes", "/notes/runs"),
        ("/x/notes/runs", "/notes", "/x/notes/runs"),
    ],
)
def test_the_path_without_the_sub_path(path: str, root: str, expected: str) -> None:
    assert route_path(request(path, root)) == expected


def test_paths_are_made_by_name_below_the_sub_path() -> None:
    assert path_for(request("/"), "runs") == "/runs"
    assert path_for(request("/", "/notes/"), "run", public_id="abc") == "/notes/runs/abc"
    assert path_for(request("/"), "run", public_id="abc", part="csv") == "/runs/abc/csv"
    assert path_for(request("/"), "run", public_id="../</x>") == "/runs/..%2F<%2Fx>"
    for name, values in (("nonesuch", {}), ("run", {"x": "abc"})):
        with pytest.raises(NoMatchFound):
            path_for(request("/"), name, **values)
    assert absolute_url(request("/"), "/s/abc") == "https://models.lan:8765/s/abc"
    assert [home_path(request("/", root)) for root in ("", "/", "/notes", "/notes/")] == ["/", "/", "/notes", "/notes"]


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("/", "overview", True),
        ("/runs", "overview", False),
        ("/runs", "runs", True),
        ("/runs/abc", "runs", True),
        ("/runsx", "runs", False),
        ("/", "runs", False),
        ("/notes/runs/abc", "runs", True),
    ],
)
def test_the_page_of_a_menu_entry(path: str, name: str, expected: bool) -> None:
    assert is_within(request(path, "/notes"), name) is expected


@pytest.mark.parametrize(
    ("path", "public", "for_programs"),
    [
        ("/s/abc", True, False), ("/s/abc.json", True, True), ("/notes/s/abc", True, False), ("/s", False, False),
        ("/suites", False, False), ("/runs/s/abc", False, False), ("/api", False, True), ("/api/v1/runs", False, True),
        ("/apix", False, False), ("/runs.csv", False, True), ("/runs.csvx", False, False), ("/notes/api", False, True),
    ],
)  # fmt: skip
def test_what_is_public_and_what_is_for_programs(path: str, public: bool, for_programs: bool) -> None:
    assert is_public(request(path, "/notes")) is public
    assert is_for_programs(request(path, "/notes")) is for_programs


@pytest.mark.parametrize(
    ("target", "is_local"),
    [
        ("/", True), ("/runs?sort=decode", True), ("/runs//x", True), ("", False), ("runs", False), ("//x", False),
        ("/\\x", False), ("/x\n", False), ("/\tx", False), ("\\x", False), ("http://x", False), (" /x", False),
    ],
)  # fmt: skip
def test_what_leads_to_this_site(target: str, is_local: bool) -> None:
    assert local_path(target) == (target if is_local else None)
