"""What an answer to a question after a server's health means; one rule for every engine."""

from collections.abc import Collection, Iterable

from app.core.errors import ServerErrorKind
from app.core.i18n import _
from app.core.units import plural
from app.engines.base import Health
from app.engines.http import Answer

NO_ENDPOINT = frozenset({404, 405, 501})


def health_of(answer: Answer, cannot_tell: Collection[int] = NO_ENDPOINT) -> Health:
    """Only a server that is loading is worth waiting for; one that cannot tell (by status) is taken to be ready.

    Raises ServerError for any other fault.
    """
    if answer.status < 300:
        return Health(ready=True, detail=_("The server is ready."))
    if answer.status in cannot_tell:
        return Health(ready=True, detail=_("The server does not tell how it is."))
    problem = answer.problem()
    # a 503 without a word comes from what starts the server, or stands before it
    if problem.trouble is ServerErrorKind.LOADING or (answer.status == 503 and answer.message is None):
        return Health(ready=False, detail=str(problem))
    raise problem


def busy_health(requests: Iterable[float | None]) -> Health:
    """Of a ready server by its numbers of requests at work or waiting; one that gives no number does not tell."""
    known = [number for number in requests if number is not None]
    others = round(sum(known))
    if others:
        return Health(
            ready=True,
            detail=_("The server is working on {others}.", others=plural(others, "other request")),
            busy=True,
        )
    return Health(ready=True, detail=_("The server is ready."), busy=False if known else None)
