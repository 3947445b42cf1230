"""Dependencies of routes: sessions, the runner, the fields of a form, the filter of the address."""

from collections.abc import Iterable, Iterator
from inspect import Parameter, Signature
from itertools import chain
from typing import Annotated, Any

from fastapi import Depends, Path
from sqlmodel import Session
from starlette.datastructures import UploadFile
from starlette.requests import Request

from app.core.errors import Forbidden
from app.core.i18n import _
from app.core.secrets import Secrets
from app.core.settings import Settings
from app.db.database import Database
from app.measure.runner import Runner
from app.results.run_filter import RunFilter
from app.web.forms import Fields

MAX_UPLOAD_BYTES = 1 << 20

RowId = Annotated[int, Path(ge=0, lt=1 << 31)]
"""The number of a row in a path: no database holds a larger one."""


def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


def _runner(request: Request) -> Runner:
    runner: Runner = request.app.state.runner
    return runner


def _secrets(request: Request) -> Secrets:
    return Secrets(request.app.state.settings)


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _read_session(request: Request) -> Iterator[Session]:
    with _database(request).read() as session:
        yield session


def _write_session(request: Request) -> Iterator[Session]:
    with _database(request).write() as session:
        yield session


def _own_pages_only(request: Request) -> None:
    """For a GET that sends requests to other machines: refuses those of other sites' pages."""
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise Forbidden(_("This works only from Roofmark's own pages."))


async def _fields(request: Request) -> Fields:
    """The fields of the form; an uploaded file as text, cut at MAX_UPLOAD_BYTES, which its parser refuses."""
    async with request.form() as form:
        return Fields([(key, await _text(value)) for key, value in form.multi_items()])


async def _text(value: UploadFile | str) -> str:
    if isinstance(value, str):
        return value
    return (await value.read(MAX_UPLOAD_BYTES)).decode(errors="replace")


def _run_filter(request: Request) -> RunFilter:
    """The filter of the query, which may also contain older names of its fields."""
    return RunFilter.parse(request.query_params)


def declare_query(*names: Iterable[str]) -> Any:
    """A dependency that only describes query parameters for OpenAPI; the route reads them from its request."""

    def described(**_parameters: str) -> None: ...

    described.__signature__ = Signature(  # type: ignore[attr-defined]  # what FastAPI takes for its parameters
        [Parameter(name, Parameter.KEYWORD_ONLY, default="", annotation=str) for name in chain(*names)]
    )
    return Depends(described)


# scope="function": committed before the answer starts, so that the page asked for next sees what was written
ReadSession = Annotated[Session, Depends(_read_session, scope="function")]
WriteSession = Annotated[Session, Depends(_write_session, scope="function")]
DatabaseDep = Annotated[Database, Depends(_database)]
RunnerDep = Annotated[Runner, Depends(_runner)]
SettingsDep = Annotated[Settings, Depends(_settings)]
SecretsDep = Annotated[Secrets, Depends(_secrets)]
Form = Annotated[Fields, Depends(_fields)]
FilterDep = Annotated[RunFilter, Depends(_run_filter)]
"""The runs that the address selects."""
OwnPagesOnly = Depends(_own_pages_only)
