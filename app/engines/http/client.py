"""`ServerClient`: one warm connection to one measured server."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from types import TracebackType
from typing import Any, Self

from app.core.errors import BadInput, ServerError
from app.core.i18n import _
from app.core.settings import Settings
from app.engines.http.answer import Answer, StreamingAnswer
from app.engines.http.text import TextCleaner
from app.engines.http.url import DEFAULT_API_PREFIX, api_prefixes, normalise_base_url

_CHAT = f"{DEFAULT_API_PREFIX}/chat/completions"


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
        backend: str | None = None,
    ) -> None:
        self.base_url = normalise_base_url(url)
        prefixes = api_prefixes(url)
        self.api_prefixes = prefixes if api_prefix is None else tuple(dict.fromkeys((api_prefix, *prefixes)))
        """Where the API may be, for a probe to find out; `api_prefix` is where one found it before."""
        self.api_prefix = self.api_prefixes[0]
        self.model = model
        """The model that questions after the server's state are about, where it answers for each by itself."""
        self.backend = backend
        """Key of the engine that runs the model, where the server is a gateway in front of it."""
        self.on_stream: Callable[[Sequence[tuple[int, bytes]]], None] | None = None
        """Called when a streamed body begins, with the list of its pieces (arrival in `perf_counter_ns`, bytes) that is
        about to grow."""
        self._behind = ""
        self.settings = settings
        self.cleaner = TextCleaner(api_key)
        self._api_key = api_key
        self._answers_by_path: dict[str, Answer | ServerError] | None = None
        headers = {"accept-encoding": "identity", "user-agent": "roofmark", "accept": "*/*"}
        if api_key:
            if not api_key.isascii() or not api_key.isprintable():
                raise BadInput(_("The API key holds characters that no HTTP header can carry."))
            headers["authorization"] = f"Bearer {api_key}"
        # the web server starts and shows pages without httpx, which costs 0.1 s and 6 MB
        from app.engines.http.connection import Connection

        self._connection = Connection(self.base_url, headers, settings)

    def get(self, path: str) -> Answer:
        """The answer to a GET, whatever its status. Raises ServerError when none comes."""
        if self._answers_by_path is None:
            return self._request("GET", path, None)
        full_path = self._full_path(path)
        if full_path not in self._answers_by_path:
            try:
                self._answers_by_path[full_path] = self._request("GET", path, None)
            except ServerError as problem:  # raised below, now and whenever this path is asked for
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
        client = ServerClient(
            self.base_url,
            self._api_key,
            self.settings,
            api_prefix=self.api_prefix,
            model=self.model,
            backend=self.backend,
        )
        client.on_stream = self.on_stream
        return client

    def behind(self, path: str) -> "ServerClient":
        """A view, on the same connection, of the server that a gateway lets us reach below `path`.

        Questions go there; requests for an answer go the way of every request, through the gateway's own API.
        """
        view = copy(self)
        view._behind = path
        view.model = view.backend = view._answers_by_path = None
        return view

    @property
    def is_behind(self) -> bool:
        """Whether this is a view of a server behind a gateway."""
        return bool(self._behind)

    def parent(self, url: str) -> "ServerClient":
        """A connection to `url`, which is above the base URL, with the same key."""
        return ServerClient(url, self._api_key, self.settings)

    def close(self) -> None:
        """Ends the connection; a thread that is still reading from it gets an error."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _request(self, method: str, path: str, body: Any) -> Answer:
        with self._open(method, path, body, self.settings.probe_timeout_s) as answer:
            return answer.read()

    def _full_path(self, path: str) -> str:
        """`path` with the prefix that this server's API has."""
        if self._behind and path != _CHAT:
            return self._behind + path
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
        with self._connection.open(path, content, timeout_s, headers, method=method, cleaner=self.cleaner) as answer:
            yield answer
