"""One-time messages after an action, with an undo button: a short-lived cookie carries them, without a session.

Post, redirect, get: `redirect_with_flash` answers the post; the page that the browser then gets shows `flash_message`.
"""

import re
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.i18n import N_, _
from app.web.paths import home_path, path_for

COOKIE = "roofmark_done"
MAX_AGE_S = 60


@dataclass(frozen=True)
class FlashAction:
    sentence: str
    undo: str | None = None
    """The name of the route that undoes the action with a POST; None where nothing can."""
    parameter: str = ""
    """The path parameter of that route."""


ACTIONS = {
    "hide_run": FlashAction(N_("The run is hidden: histories and statistics leave it out."), "unhide_run", "public_id"),
    "label_runs": FlashAction(N_("The runs have their labels.")),
    "hide_runs": FlashAction(N_("The runs are hidden: histories and statistics leave them out.")),
    "delete_runs": FlashAction(N_("The runs are deleted.")),
    "archive_machine": FlashAction(N_("The machine is archived."), "restore_machine", "slug"),
    "archive_server": FlashAction(N_("The server is archived."), "restore_server", "slug"),
    "archive_suite": FlashAction(N_("The suite is archived."), "restore_suite", "key"),
    "delete_view": FlashAction(N_("The view is deleted.")),
    "delete_run": FlashAction(N_("The run is deleted.")),
    "delete_server": FlashAction(N_("The server is deleted, and all that was measured on it.")),
    "delete_machine": FlashAction(N_("The machine is deleted, and all that was measured on it.")),
}


@dataclass(frozen=True)
class FlashMessage:
    sentence: str
    undo: str | None
    """The path to post to; None where the action cannot be undone."""


def redirect_with_flash(request: Request, path: str, action: str, key: str) -> Response:
    """A redirect to `path`, whose page shows the message of `action`; `key` identifies the object it was done to."""
    assert action in ACTIONS
    answer = RedirectResponse(path, status_code=303)
    answer.set_cookie(COOKIE, f"{action}.{key}", MAX_AGE_S, path=home_path(request), httponly=True, samesite="strict")
    return answer


def flash_message(request: Request) -> FlashMessage | None:
    """The message that the request's cookie carries, if any."""
    cookie = re.fullmatch(r"([a-z_]+)\.([\w-]+)", request.cookies.get(COOKIE, ""))
    action = ACTIONS.get(cookie[1]) if cookie else None
    if cookie is None or action is None:
        return None
    return FlashMessage(
        _(action.sentence), path_for(request, action.undo, **{action.parameter: cookie[2]}) if action.undo else None
    )


def clear_flash(request: Request, answer: Response) -> None:
    """Deletes the cookie, so that the message is shown once."""
    if COOKIE in request.cookies:
        answer.delete_cookie(COOKIE, path=home_path(request), httponly=True, samesite="strict")
