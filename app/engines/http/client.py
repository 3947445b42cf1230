"""`ServerClient`: one warm connection to one measured server."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Self, cast

import httpcore
import httpx

from app.core.errors import BadInput, ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.settings import Settings
from app.engines.http import chunked, problems
from app.engines.http.network import Deadline, GuardedBackend, SocketStream
from app.engines.http.text import ServerText, is_html
from app.engines.http.url import DEFAULT_API_PREFIX, api_prefixes, normalise_base_url

MAX_ANSWER_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer, whatever its status."""

    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    """As it came: what is shown or kept of it goes through `text`."""
    text: ServerText

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def message(self) -> str | None:
        """The server's own short message, when this is an error answer."""
        return self.text.message_of(self.body, self.content_type)

    def problem(self) -> ServerError:
        return problems.status_problem(self.status, self.content_type, self.body, path=self.path, text=self.text)

    def json(self) -> Any:
        """The JSON value. Raises ServerError for an error status, an HTML page, and what is not JSON."""
        if self.status >= 300:
            raise self.problem()
        try:
            return self.text.load_json(self.body)
        except ValueError as error:
            html = is_html(self.content_type, self.body)
            sentence = _(problems.HTML_PAGE) if html else _("The answer to {path} is not JSON.", path=self.path)
            raise ServerError(sentence, ServerErrorKind.NOT_LLM) from error


class Exchange:
    """A response whose body is still arriving. Times are `perf_counter_ns`."""

    def __init__(
        self, path: str, response: httpx.Response, marks: Mapping[str, int], text: ServerText, deadline: Deadline
    ) -> None:
        self.path = path
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.headers_ns = marks["http11.receive_response_headers.complete"]
        self.connect_ms = _connect_ms(marks)
        self.socket: SocketStream = response.extensions["network_stream"]
        """Its `read_timeout_s` may be changed at any time; its `received_ns` is the arrival of the last piece."""
        self.socket.end_head()
        self.t0_ns = self.socket.sent_ns
        self.text = text
        self.deadline = deadline
        """Set while the exchange lasts; may be moved at any time."""
        self._response = response

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives, decompressed. Raises httpcore's and httpx's errors."""
        if "content-encoding" in self.headers:
            return self._response.iter_bytes()
        # `iter_raw` would give the same, for a third more processor time
        stream = iter(cast(httpx.SyncByteStream, self._response.stream))
        return self._chunks(stream) if "transfer-encoding" in self.headers else stream

    def _chunks(self, stream: Iterator[bytes]) -> Iterator[bytes]:
        """httpcore would read them too, for four times the processor time; it is left a body that is empty."""
        rest = yield from chunked.pieces(self.socket.read)
        if not rest:  # what nobody asked for must not be taken for the next answer: the connection is then closed
            self.socket.unread(b"0\r\n\r\n")
            yield from stream

    def answer(self) -> Answer:
        """The whole body, bounded in size, and in time by the deadline."""
        body = bytearray()
        try:
            for piece in self.pieces():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ServerError(_("The answer to {path} is too large.", path=self.path), ServerErrorKind.NOT_LLM)
        except (httpcore.ProtocolError, httpcore.NetworkError, httpcore.TimeoutException, httpx.DecodingError) as error:
            raise problems.broken_answer(error, self.path) from error
        return Answer(self.path, self.status, self.headers, bytes(body), self.text)


class ServerClient:
    """Keeps one connection warm. Not for use by several threads at once: each stream has its own client.

    `url` as a person types it; endpoint paths are appended to its `base_url`, and those of OpenAI's API, which callers
    write with `/v1`, are below `api_prefix`. Redirects are not followed, proxy settings of the environment are not
    used: what is measured is the server itself.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        settings: Settings,
        *,
        api_prefix: str | None = None,
        model: str | None = None,
    ) -> None:
        self.base_url = normalise_base_url(url)
        prefixes = api_prefixes(url)
        self.api_prefixes = prefixes if api_prefix is None else tuple(dict.fromkeys((api_prefix, *prefixes)))
        """Where the API may be, for a probe to find out; `api_prefix` is where one found it before."""
        self.api_prefix = self.api_prefixes[0]
        self.model = model
        """The model that questions after the server's state are about, where it answers for each by itself."""
        self._remembered: dict[str, Answer] | None = None
        self.settings = settings
        self.text = ServerText(api_key)
        self._api_key = api_key
        self._deadline = Deadline()
        headers = {"accept-encoding": "identity", "user-agent": "roofmark", "accept": "*/*"}
        if api_key:
            if not api_key.isascii() or not api_key.isprintable():
                raise BadInput(_("The API key holds characters that no HTTP header can carry."))
            headers["authorization"] = f"Bearer {api_key}"
        pool = httpcore.ConnectionPool(
            ssl_context=_ssl_context() if self.base_url.startswith("https:") else None,
            keepalive_expiry=300.0,
            network_backend=GuardedBackend(settings.port, self._deadline),
        )
        self._http = httpx.Client(
            base_url=self.base_url, headers=headers, transport=_Transport(pool), trust_env=False, follow_redirects=False
        )

    def get(self, path: str) -> Answer:
        """Whatever comes back. Raises ServerError only when nothing does."""
        if self._remembered is None:
            return self._whole("GET", path, None)
        place = self._place(path)
        if place not in self._remembered:
            self._remembered[place] = self._whole("GET", path, None)
        return self._remembered[place]

    @contextmanager
    def asking_once(self) -> Iterator[None]:
        """For as long as this lasts, `get` asks for each path once: a probe is one look at a server."""
        self._remembered = {}
        try:
            yield
        finally:
            self._remembered = None

    def post(self, path: str, body: Any) -> Answer:
        """As `get`, with a JSON body."""
        return self._whole("POST", path, body)

    def get_json(self, path: str) -> Any:
        """Raises ServerError, for an error status and for what is not JSON too."""
        return self.get(path).json()

    def post_json(self, path: str, body: Any) -> Any:
        return self.post(path, body).json()

    @contextmanager
    def stream(
        self, path: str, body: Any, *, first_byte_timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Iterator[Exchange]:
        """Sends a JSON body and hands out the response once its headers are there. `headers` go beside the usual ones.

        Raises ServerError when there are no headers.
        """
        with self._exchange("POST", path, body, first_byte_timeout_s, headers) as exchange:
            yield exchange

    def sibling(self) -> "ServerClient":
        """Another connection to the same server, for one more stream at the same time."""
        return ServerClient(self.base_url, self._api_key, self.settings, api_prefix=self.api_prefix, model=self.model)

    def parent(self, url: str) -> "ServerClient":
        """A connection to what is above the base URL, with the same key."""
        return ServerClient(url, self._api_key, self.settings)

    def close(self) -> None:
        """Ends the connection, and with it whatever is still being read."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _whole(self, method: str, path: str, body: Any) -> Answer:
        timeout_s = self.settings.probe_timeout_s
        with self._exchange(method, path, body, timeout_s) as exchange:
            return exchange.answer()

    def _place(self, path: str) -> str:
        """The path as this server has it."""
        is_api = path.startswith(f"{DEFAULT_API_PREFIX}/")
        return self.api_prefix + path.removeprefix(DEFAULT_API_PREFIX) if is_api else path

    @contextmanager
    def _exchange(
        self, method: str, path: str, body: Any, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Iterator[Exchange]:
        """`timeout_s` bounds everything from here on, until somebody moves the deadline."""
        path = self._place(path)
        self._deadline.set(timeout_s)
        exchange, response = self._send(method, path, body, timeout_s, headers or {})
        try:
            yield exchange
        finally:
            # the connection lives on, and the next response begins with a timeout of its own
            exchange.socket.read_timeout_s = None
            response.close()

    def _send(
        self, method: str, path: str, body: Any, timeout_s: float, headers: Mapping[str, str]
    ) -> tuple[Exchange, httpx.Response]:
        content = None if body is None else json.dumps(body).encode()
        for is_retry in (False, True):
            marks: dict[str, int] = {}

            def mark(name: str, _info: Any, marks: dict[str, int] = marks) -> None:
                marks[name] = perf_counter_ns()

            request = self._http.build_request(
                method,
                path,
                content=content,
                headers={**headers, **({} if content is None else {"content-type": "application/json"})},
                timeout=httpx.Timeout(timeout_s, connect=self.settings.connect_timeout_s),
                extensions={"trace": mark},
            )
            try:
                response = self._http.send(request, stream=True)
            except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
                # a kept connection may have been closed by the server just now: that says nothing about the server,
                # but what was sent whole may be at work there, and must not be sent twice
                was_kept = "connection.connect_tcp.started" not in marks
                was_sent = content is not None and "http11.send_request_body.complete" in marks
                if was_kept and not was_sent and not is_retry and not isinstance(error, httpcore.TimeoutException):
                    continue
                raise problems.transport_problem(error, timeout_s) from error
            return Exchange(path, response, marks, self.text, self._deadline), response
        raise AssertionError("unreachable")


class _Transport(httpx.BaseTransport):
    """httpx on httpcore's public interface; httpcore's errors pass unchanged."""

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        response = self._pool.handle_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        return iter(cast(Iterable[bytes], self._response.stream))

    def close(self) -> None:
        self._response.close()


def _ssl_context() -> Any:
    context = httpx.create_ssl_context()
    # beside the bundled authorities, those that the person has installed for the own network
    context.load_default_certs()
    return context


def _connect_ms(marks: Mapping[str, int]) -> float | None:
    began = marks.get("connection.connect_tcp.started")
    if began is None:
        return None
    ended = marks.get("connection.start_tls.complete", marks.get("connection.connect_tcp.complete", began))
    return (ended - began) / 1e6
