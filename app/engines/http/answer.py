"""An HTTP answer of a measured server: whole, or still arriving."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.engines.http import problems
from app.engines.http.problems import BodyError
from app.engines.http.text import TextCleaner, is_html

if TYPE_CHECKING:
    from app.engines.http.network import ReadLimit, TimedStream

MAX_ANSWER_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole HTTP response, whatever its status."""

    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    """As it came: only what `cleaner` makes of it may be shown or stored."""
    cleaner: TextCleaner

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def message(self) -> str | None:
        """The server's own short message, when this is an error answer."""
        return self.cleaner.message_in_body(self.body, self.content_type)

    def problem(self) -> ServerError:
        """The error that the status means, which is 300 or more."""
        return problems.status_problem(self.status, self.content_type, self.body, path=self.path, cleaner=self.cleaner)

    def json(self) -> Any:
        """The cleaned JSON value. Raises ServerError for an error status, an HTML page, and what is not JSON."""
        if self.status >= 300:
            raise self.problem()
        try:
            return self.cleaner.load_json(self.body)
        except ValueError as error:
            html = is_html(self.content_type, self.body)
            sentence = _(problems.HTML_PAGE) if html else _("The answer to {path} is not JSON.", path=self.path)
            raise ServerError(sentence, ServerErrorKind.NOT_LLM) from error


class StreamingAnswer:
    """An HTTP response whose body is still arriving. Times are `perf_counter_ns`."""

    def __init__(
        self,
        path: str,
        status: int,
        headers: Mapping[str, str],
        pieces: Iterator[bytes],
        stream: "TimedStream",
        connect_ms: float | None,
        cleaner: TextCleaner,
        limit: "ReadLimit",
    ) -> None:
        self.path = path
        self.status = status
        self.headers = headers
        self.connect_ms = connect_ms
        """How long connecting took; None on a connection that was there already."""
        self.cleaner = cleaner
        self.limit = limit
        """How long the server may take; may be changed at any time."""
        self._pieces = pieces
        self._stream = stream

    @property
    def sent_ns(self) -> int:
        """Just before the first byte of the request was written: t0 of every measurement."""
        return self._stream.sent_ns

    @property
    def received_ns(self) -> int:
        """When the last piece of the body arrived at the socket."""
        return self._stream.received_ns

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives, decompressed. Raises BodyError."""
        return self._pieces

    def read(self) -> Answer:
        """Reads the whole body. Raises ServerError when it breaks off, takes too long or is too large."""
        body = bytearray()
        try:
            for piece in self.pieces():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ServerError(_("The answer to {path} is too large.", path=self.path), ServerErrorKind.NOT_LLM)
        except BodyError as error:
            raise problems.body_problem(error, self.path) from error
        return Answer(self.path, self.status, self.headers, bytes(body), self.cleaner)
