"""The question before something is archived."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.core.i18n import _
from app.web.paths import path_for
from app.web.templates import render


def ask(request: Request, what: str, slug: str, name: str, consequences: Sequence[str]) -> Response:
    """`what` is a server or a machine, as in the names of its routes."""
    return render(
        request,
        "archive.html",
        name=name,
        action=path_for(request, f"archive_{what}", slug=slug),
        back=path_for(request, what, slug=slug),
        consequences=consequences,
    )


def of_results(n_runs: int) -> str:
    """What becomes of results."""
    if not n_runs:
        return _("It was never measured, so no result goes with it.")
    runs = _("Its run stays") if n_runs == 1 else _("Its {n_runs:,} runs stay", n_runs=n_runs)
    return _(
        "{runs} in the list of runs and in the history; on the overview they move to “Results of archived servers”.",
        runs=runs,
    )
