"""What is done to several runs of the list at once: labels, hiding, deleting. Each asks before, and names the runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import Response

from app.core.errors import BadInput, NotFound
from app.core.i18n import N_, _
from app.db import annotations, removal, runs
from app.db.annotations import MAX_REASON_CHARS, REASONS
from app.results.run_list import rows_by_ids
from app.web import flash
from app.web.deps import Form, ReadSession, WriteSession
from app.web.forms import Fields
from app.web.paths import path_for
from app.web.templates import render

MOST_CHOSEN = 200
MAX_LABELS_CHARS = 400

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Action:
    title: str
    button: str
    apply: Callable[[Session, Sequence[str], Fields], None]
    flash: str
    """The key of the message that is shown afterwards."""


def _add_labels(session: Session, public_ids: Sequence[str], form: Fields) -> None:
    added = annotations.clean_labels(form.text("labels", _("The labels"), MAX_LABELS_CHARS).split(","))
    if not added:
        raise BadInput(_("Type at least one label."))
    for public_id in public_ids:
        annotations.set_labels(session, public_id, [*runs.run(session, public_id).labels, *added])


def _hide(session: Session, public_ids: Sequence[str], form: Fields) -> None:
    reason = form.text("reason", _("The reason"), MAX_REASON_CHARS)
    for public_id in public_ids:
        annotations.hide(session, public_id, reason)


def _delete(session: Session, public_ids: Sequence[str], _form: Fields) -> None:
    removal.delete_runs(session, public_ids)


ACTIONS = {
    "label": Action(N_("Add labels to {runs}"), N_("Add labels"), _add_labels, "label_runs"),
    "hide": Action(N_("Hide {runs}?"), N_("Hide them"), _hide, "hide_runs"),
    "delete": Action(N_("Delete {runs}?"), N_("Delete them"), _delete, "delete_runs"),
}


@router.get("/runs/chosen/{action}", name="ask_chosen_runs")
def ask_chosen_runs(
    request: Request, session: ReadSession, action: str, run: Annotated[Sequence[str], Query()] = ()
) -> Response:
    """Names the chosen runs, and asks for what the action needs."""
    chosen = _action(action)
    return _page(request, session, action, chosen, _ids(run))


@router.post("/runs/chosen/{action}", name="change_chosen_runs")
def change_chosen_runs(request: Request, session: WriteSession, form: Form, action: str) -> Response:
    chosen, public_ids = _action(action), _ids(form.all("run"))
    runs.runs_by_id(session, public_ids)  # one that is gone is said, and nothing is changed
    try:
        chosen.apply(session, public_ids, form)
    except BadInput as error:
        return _page(request, session, action, chosen, public_ids, error)
    return flash.redirect_with_flash(request, path_for(request, "runs"), chosen.flash, "all")


def _action(key: str) -> Action:
    if key not in ACTIONS:
        raise NotFound(_("Nothing of that name can be done to several runs."))
    return ACTIONS[key]


def _ids(public_ids: Sequence[str]) -> list[str]:
    """Returns the distinct ids. Raises BadInput for none, and for too many."""
    distinct = list(dict.fromkeys(filter(None, public_ids)))
    if not distinct:
        raise BadInput(_("Tick at least one run."))
    if len(distinct) > MOST_CHOSEN:
        raise BadInput(_("Choose at most {most} runs at once.", most=MOST_CHOSEN))
    return distinct


def _page(
    request: Request,
    session: Session,
    key: str,
    action: Action,
    public_ids: Sequence[str],
    error: BadInput | None = None,
) -> Response:
    by_public_id = runs.runs_by_id(session, public_ids)
    rows = rows_by_ids(session, [by_public_id[public_id].id or 0 for public_id in public_ids], (), has_particulars=True)
    context: dict[str, Any] = {"reasons": [_(reason) for reason in REASONS]} if key == "hide" else {}
    if key == "delete":
        context["losses"] = removal.runs_deletion_summary(session, public_ids)
    return render(
        request,
        "chosen_runs.html",
        status=error.http_status if error else 200,
        key=key,
        action=action,
        rows=rows,
        error=error,
        **context,
    )
