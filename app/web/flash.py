"""What was just done, said once by the next page with the way back: a cookie carries it there, without a session.

Post, redirect, get: `then` answers the post, `just_done` is asked by the page that the browser gets.
"""

import re
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.i18n import N_, _
from app.web.paths import home_path, path_for

COOKIE = "roofmark_done"
KEPT_S = 60


@dataclass(frozen=True)
class FlashAction:
    sentence: str
    undo: str | None = None
    """The name of the route that takes it back with a POST; None where nothing can."""
    parameter: str = ""
    """What that route calls the thing it was done to."""


ACTS = {
    "hide_run": FlashAction(N_("The run is hidden: histories and statistics leave it out."), "unhide_run", "public_id"),
    "archive_machine": FlashAction(N_("The machine is archived."), "restore_machine", "slug"),
    "archive_server": FlashAction(N_("The server is archived."), "restore_server", "slug"),
    "archive_suite": FlashAction(N_("The suite is archived."), "restore_suite", "key"),
    "delete_run": FlashAction(N_("The run is deleted.")),
    "delete_server": FlashAction(N_("The server is deleted, and all that was measured on it.")),
    "delete_machine": FlashAction(N_("The machine is deleted, and all that was measured on it.")),
}


@dataclass(frozen=True)
class Done:
    sentence: str
    undo: str | None
    """Where to post to."""


def redirect_with_flash(request: Request, path: str, act: str, key: str) -> Response:
    """On to `path`, whose page says that `act` was done to what `key` names."""
    assert act in ACTS
    answer = RedirectResponse(path, status_code=303)
    answer.set_cookie(COOKIE, f"{act}.{key}", KEPT_S, path=home_path(request), httponly=True, samesite="strict")
    return answer


def flash_message(request: Request) -> Done | None:
    known = re.fullmatch(r"([a-z_]+)\.([\w-]+)", request.cookies.get(COOKIE, ""))
    act = ACTS.get(known[1]) if known else None
    if known is None or act is None:
        return None
    return Done(_(act.sentence), path_for(request, act.undo, **{act.parameter: known[2]}) if act.undo else None)


def clear_flash(request: Request, answer: Response) -> None:
    """It is said once."""
    if COOKIE in request.cookies:
        answer.delete_cookie(COOKIE, path=home_path(request), httponly=True, samesite="strict")
