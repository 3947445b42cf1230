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
from app.engines.http import problems
from app.engines.http.network import GuardedBackend, ReadLimit, TimedStream
from app.engines.http.text import TextCleaner, is_html
from app.engines.http.url import DEFAULT_API_PREFIX, api_prefixes, normalise_base_url

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
        self, path: str, response: httpx.Response, connect_ms: float | None, cleaner: TextCleaner, limit: ReadLimit
    ) -> None:
        self.path = path
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.connect_ms = connect_ms
        """How long connecting took; None on a connection that was there already."""
        self.cleaner = cleaner
        self.limit = limit
        """How long the server may take; may be changed at any time."""
        self._stream: TimedStream = response.extensions["network_stream"]
        self._response = response

    @property
    def sent_ns(self) -> int:
        """Just before the first byte of the request was written: t0 of every measurement."""
        return self._stream.sent_ns

    @property
    def received_ns(self) -> int:
        """When the last piece of the body arrived at the socket."""
        return self._stream.received_ns

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives, decompressed. Raises httpcore's and httpx's errors."""
        if "content-encoding" in self.headers:
            return self._response.iter_bytes()
        return iter(cast(httpx.SyncByteStream, self._response.stream))

    def read(self) -> Answer:
        """Reads the whole body. Raises ServerError when it breaks off, takes too long or is too large."""
        body = bytearray()
        try:
            for piece in self.pieces():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ServerError(_("The answer to {path} is too large.", path=self.path), ServerErrorKind.NOT_LLM)
        except (httpcore.ProtocolError, httpcore.NetworkError, httpcore.TimeoutException, httpx.DecodingError) as error:
            raise problems.body_problem(error, self.path) from error
        return Answer(self.path, self.status, self.headers, bytes(body), self.cleaner)


class ServerClient:
    """One warm connection to one measured server. Not for use by several threads at once.

    `url` is what a person typed; endpoint paths are appended to its `base_url`. Callers write the paths of OpenAI's API
    with `/v1`, and `api_prefix` takes its place. Redirects are not followed and proxy settings of the environment are
    not used: what is measured is the server itself.
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
        self.settings = settings
        self.cleaner = TextCleaner(api_key)
        self._api_key = api_key
        self._answers_by_path: dict[str, Answer | ServerError] | None = None
        self._limit = ReadLimit()
        headers = {"accept-encoding": "identity", "user-agent": "roofmark", "accept": "*/*"}
        if api_key:
            if not api_key.isascii() or not api_key.isprintable():
                raise BadInput(_("The API key holds characters that no HTTP header can carry."))
            headers["authorization"] = f"Bearer {api_key}"
        pool = httpcore.ConnectionPool(
            ssl_context=_ssl_context() if self.base_url.startswith("https:") else None,
            keepalive_expiry=300.0,
            network_backend=GuardedBackend(settings.port, self._limit),
        )
        self._http = httpx.Client(
            base_url=self.base_url, headers=headers, transport=_Transport(pool), trust_env=False, follow_redirects=False
        )

    def get(self, path: str) -> Answer:
        """The answer to a GET, whatever its status. Raises ServerError when none comes."""
        if self._answers_by_path is None:
            return self._request("GET", path, None)
        full_path = self._full_path(path)
        if full_path not in self._answers_by_path:
            try:
                self._answers_by_path[full_path] = self._request("GET", path, None)
            except ServerError as problem:
                self._answers_by_path[full_path] = problem
        answer = self._answers_by_path[full_path]
        if isinstance(answer, ServerError):
            raise answer
        return answer

    @contextmanager
    def caching_gets(self) -> Iterator[None]:
        """As long as this lasts, `get` asks for each path once: a probe is one look at a server."""
        self._answers_by_path = {}
        try:
            yield
        finally:
            self._answers_by_path = None

    def post(self, path: str, body: Any) -> Answer:
        """The answer to a POST of `body` as JSON, whatever its status. Raises ServerError when none comes."""
        return self._request("POST", path, body)

    def get_json(self, path: str) -> Any:
        """The JSON that a GET gives. Raises ServerError for an error status and for what is not JSON, too."""
        return self.get(path).json()

    def post_json(self, path: str, body: Any) -> Any:
        """The JSON that a POST gives. Raises ServerError as `get_json` does."""
        return self.post(path, body).json()

    @contextmanager
    def stream(
        self, path: str, body: Any, *, first_byte_timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Iterator[StreamingAnswer]:
        """Posts `body` as JSON and yields the answer once its headers are there. `headers` are sent besides the usual.

        Raises ServerError when there are no headers.
        """
        with self._open("POST", path, body, first_byte_timeout_s, headers) as answer:
            yield answer

    def sibling(self) -> "ServerClient":
        """Another connection to the same server, for one more stream at the same time."""
        return ServerClient(self.base_url, self._api_key, self.settings, api_prefix=self.api_prefix, model=self.model)

    def parent(self, url: str) -> "ServerClient":
        """A connection to `url`, which is above the base URL, with the same key."""
        return ServerClient(url, self._api_key, self.settings)

    def close(self) -> None:
        """Ends the connection; a thread that is still reading from it gets an error."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _request(self, method: str, path: str, body: Any) -> Answer:
        with self._open(method, path, body, self.settings.probe_timeout_s) as answer:
            return answer.read()

    def _full_path(self, path: str) -> str:
        """`path` with the prefix that this server's API has."""
        is_api = path.startswith(f"{DEFAULT_API_PREFIX}/")
        return self.api_prefix + path.removeprefix(DEFAULT_API_PREFIX) if is_api else path

    @contextmanager
    def _open(
        self, method: str, path: str, body: Any, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Iterator[StreamingAnswer]:
        """`timeout_s` bounds the whole answer, unless its `limit` is changed."""
        path = self._full_path(path)
        content = None if body is None else json.dumps(body).encode()
        headers = {**(headers or {}), **({} if content is None else {"content-type": "application/json"})}
        self._limit.end_in(timeout_s)
        try:
            response, connect_ms = self._send(method, path, content, timeout_s, headers)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise problems.request_problem(error, timeout_s) from error
        try:
            yield StreamingAnswer(path, response, connect_ms, self.cleaner, self._limit)
        finally:
            response.close()

    def _send(
        self, method: str, path: str, content: bytes | None, timeout_s: float, headers: Mapping[str, str]
    ) -> tuple[httpx.Response, float | None]:
        """The response and the time to connect. Raises httpcore's errors, and ServerError from connecting.

        The server may close a kept connection at any moment, which says nothing about the server: then the request is
        sent again on a new one. But a request that was sent whole may be at work there, and must not be sent twice.
        """
        times_ns: dict[str, int] = {}
        request = self._http.build_request(
            method,
            path,
            content=content,
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=self.settings.connect_timeout_s),
            extensions={"trace": lambda event, _info: times_ns.update({event: perf_counter_ns()})},
        )
        try:
            response = self._http.send(request, stream=True)
            _check_order(response)
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            is_new = "connection.connect_tcp.started" in times_ns
            was_sent = content is not None and not isinstance(error, httpcore.WriteError)
            if is_new or was_sent:
                raise
            return self._send(method, path, content, timeout_s, headers)
        return response, _connect_ms(times_ns)


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


def _check_order(response: httpx.Response) -> None:
    """Raises for an answer that was there before its request: it followed the last answer, and nobody asked for it.

    It is httpcore.WriteError where it kept the request from being written, else httpcore.RemoteProtocolError.
    """
    stream: TimedStream = response.extensions["network_stream"]
    if stream.is_unsent:
        response.close()
        raise httpcore.WriteError("an answer was read before its request was written")
    if stream.received_ns < stream.sent_ns:
        response.close()
        raise httpcore.RemoteProtocolError("an answer came before its request")


def _ssl_context() -> Any:
    context = httpx.create_ssl_context()
    # beside the bundled authorities, those that the person has installed for the own network
    context.load_default_certs()
    return context


def _connect_ms(times_ns: Mapping[str, int]) -> float | None:
    started_ns = times_ns.get("connection.connect_tcp.started")
    if started_ns is None:
        return None
    completed_ns = times_ns.get("connection.start_tls.complete", times_ns["connection.connect_tcp.complete"])
    return (completed_ns - started_ns) / 1e6
