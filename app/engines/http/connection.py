"""A connection to a measured server: httpx on httpcore, with every fault as one of `problems`.

The only module that needs httpx to be loaded, with `network`; `ServerClient` imports it when it opens a connection.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, cast

import httpcore
import httpx

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.settings import Settings
from app.engines.http.answer import StreamingAnswer
from app.engines.http.network import GuardedBackend, ReadLimit, TimedStream
from app.engines.http.problems import BodyError, BodyTimeout, BodyUndecodable
from app.engines.http.text import TextCleaner


class Connection:
    """Sends one request at a time, on the connection of the request before where the server has kept it."""

    def __init__(self, base_url: str, headers: Mapping[str, str], settings: Settings) -> None:
        self._settings = settings
        self._limit = ReadLimit()
        pool = httpcore.ConnectionPool(
            ssl_context=_ssl_context() if base_url.startswith("https:") else None,
            keepalive_expiry=300.0,
            network_backend=GuardedBackend(settings.port, self._limit),
        )
        self._http = httpx.Client(
            base_url=base_url, headers=headers, transport=_Transport(pool), trust_env=False, follow_redirects=False
        )

    def close(self) -> None:
        """Ends the connection; a thread that is still reading from it gets an error."""
        self._http.close()

    @contextmanager
    def open(
        self,
        path: str,
        content: bytes | None,
        timeout_s: float,
        headers: Mapping[str, str],
        *,
        method: str,
        cleaner: TextCleaner,
    ) -> Iterator[StreamingAnswer]:
        """Sends a request and yields its answer once the headers are there. Raises ServerError when none come.

        `timeout_s` bounds the whole answer, unless its `limit` is changed.
        """
        self._limit.end_in(timeout_s)
        try:
            response, connect_ms = self._send(method, path, content, timeout_s, headers)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise _request_problem(error, timeout_s) from error
        stream: TimedStream = response.extensions["network_stream"]
        try:
            yield StreamingAnswer(
                path,
                response.status_code,
                response.headers,
                _pieces(response),
                stream,
                connect_ms,
                cleaner,
                self._limit,
            )
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
            timeout=httpx.Timeout(timeout_s, connect=self._settings.connect_timeout_s),
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


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    """The body as it arrives, decompressed. Raises BodyError."""
    try:
        if "content-encoding" in response.headers:
            yield from response.iter_bytes()
        else:  # past httpx's decoders, which cost processor time for each piece
            yield from cast(httpx.SyncByteStream, response.stream)
    except httpcore.TimeoutException as error:
        raise BodyTimeout from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise BodyError from error
    except httpx.DecodingError as error:
        raise BodyUndecodable from error


def _request_problem(error: Exception, timeout_s: float) -> ServerError:
    """The error of a request on an established connection that was not answered with whole headers."""
    if isinstance(error, httpcore.TimeoutException):
        return ServerError(
            _("The server did not answer within {seconds:g} s.", seconds=timeout_s), ServerErrorKind.TIMEOUT
        )
    if isinstance(error, httpcore.RemoteProtocolError) and "without sending" not in str(error):
        return ServerError(_("The server does not answer in HTTP."), ServerErrorKind.NOT_LLM)
    return ServerError(_("The server closed the connection without an answer."), ServerErrorKind.SERVER_ERROR)
