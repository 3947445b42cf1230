"""What routes ask for: a session to read or to write with, the runner, the fields of a form."""

from collections.abc import Iterator
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends
from sqlmodel import Session
from starlette.datastructures import UploadFile
from starlette.requests import Request

from app.core.errors import Forbidden
from app.core.i18n import _
from app.core.settings import Settings
from app.db.database import Database
from app.results.run_filter import PARAMETERS, RunFilter
from app.web.forms import Fields

if TYPE_CHECKING:
    from app.core.secrets import Secrets
    from app.measure.runner import Runner
else:  # each takes as long to import as half of a page takes to render: not before one is needed
    Runner = Secrets = Any


MAX_UPLOAD_BYTES = 1 << 20


def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


def _runner(request: Request) -> Runner:
    runner: Runner = request.app.state.runner()
    return runner


def _secrets(request: Request) -> Secrets:
    from app.core.secrets import Secrets

    return Secrets(request.app.state.settings)


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _reading(request: Request) -> Iterator[Session]:
    with _database(request).read() as session:
        yield session


def _writing(request: Request) -> Iterator[Session]:
    with _database(request).write() as session:
        yield session


def _own_pages_only(request: Request) -> None:
    """For a GET that sends something on to other machines: no foreign page may set it off."""
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise Forbidden(_("This works only from Roofmark's own pages."))


async def _fields(request: Request) -> Fields:
    """A small file counts as its text; of a larger one its beginning, which its reader finds too long."""
    async with request.form() as form:
        return Fields([(key, await _text(value)) for key, value in form.multi_items()])


async def _text(value: UploadFile | str) -> str:
    if isinstance(value, str):
        return value
    return (await value.read(MAX_UPLOAD_BYTES)).decode(errors="replace")


def _run_filter(request: Request, **_declared: str) -> RunFilter:
    """Older names are read, too; the API describes those of today."""
    return RunFilter.parse(request.query_params)


_run_filter.__signature__ = Signature(  # type: ignore[attr-defined]  # what FastAPI takes for its parameters
    [
        Parameter("request", Parameter.POSITIONAL_OR_KEYWORD, annotation=Request),
        *(Parameter(name, Parameter.KEYWORD_ONLY, default="", annotation=str) for name in PARAMETERS),
    ]
)


# scope="function": committed before the answer starts, so that the page asked for next sees what was written
ReadSession = Annotated[Session, Depends(_reading, scope="function")]
WriteSession = Annotated[Session, Depends(_writing, scope="function")]
DatabaseDep = Annotated[Database, Depends(_database)]
RunnerDep = Annotated[Runner, Depends(_runner)]
SettingsDep = Annotated[Settings, Depends(_settings)]
SecretsDep = Annotated[Secrets, Depends(_secrets)]
Form = Annotated[Fields, Depends(_fields)]
FilterDep = Annotated[RunFilter, Depends(_run_filter)]
"""Which runs, as an address says it."""
OwnPagesOnly = Depends(_own_pages_only)
