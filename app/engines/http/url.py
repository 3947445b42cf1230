"""A measured server's base URL, made from what a person typed as its address."""

import ipaddress
import re
from urllib.parse import unquote, urlsplit

from app.core.errors import BadInput
from app.core.i18n import _

_CHAT = re.compile(r"/(chat/completions|completions|responses|embeddings)$", re.IGNORECASE)
_VERSION = re.compile(r"/v\d+$", re.IGNORECASE)
DEFAULT_API_PREFIX = "/v1"
_ENDPOINTS = re.compile(
    r"(?:(/v1)?/(chat/completions|completions|responses|embeddings)"
    r"|(/v1)?/models"
    r"|/api/(chat|generate|tags|version|show|ps|v0/models|v0/chat/completions|v0|v1/chat)"
    r"|/(props|slots|health|metrics|completion|apply-template|tokenize)"
    r"|/v1)$",
    re.IGNORECASE,
)


def normalise_base_url(text: str) -> str:
    """The part of a URL that every endpoint path (`/v1/models`, ...) is appended to, without a trailing slash.

    A missing scheme means `http://`; a trailing `/v1` and known endpoint paths are cut off, other path prefixes stay,
    another version of an API (`/api/v3`) among them.
    Raises BadInput for what can be no server's address.

    >>> normalise_base_url("localhost:8080/v1/"), normalise_base_url("https://example.org/llm/v1/chat/completions")
    ('http://localhost:8080', 'https://example.org/llm')
    """
    typed = text.strip()
    if not typed:
        raise BadInput(_("Enter the URL of the server, such as http://127.0.0.1:8080."))
    import httpx  # as in client.py: the web server starts without it

    candidate = typed if "://" in typed else f"http://{typed}"
    try:
        url = httpx.URL(candidate)
        # asking for the port and the host makes httpx decode them, which can fail as well
        scheme, host, port = url.scheme, url.host, url.port
    except (httpx.InvalidURL, ValueError) as error:
        raise BadInput(_("That is not a URL that can be used: it looks like http://127.0.0.1:8080.")) from error
    if scheme not in ("http", "https"):
        raise BadInput(_("Only http:// and https:// URLs can be measured."))
    if not host or re.search(r"[\s\\<>\"'^`{|}%]", host):
        raise BadInput(_("The URL has no usable host name: it looks like http://127.0.0.1:8080."))
    if port is not None and not 0 < port < 65536:
        raise BadInput(_("The port of the URL must be between 1 and 65535."))
    if url.userinfo:
        raise BadInput(_("Leave user name and password out of the URL; an API key has its own field."))
    if url.query:
        raise BadInput(_("Leave out the part of the URL after the question mark."))
    if re.match(r"[^/?#]*:([/?#]|$)", candidate.partition("://")[2]):
        raise BadInput(_("The URL has a colon without a port number."))
    netloc = url.netloc.decode("ascii").lower()
    return f"{scheme}://{netloc}{_without_endpoint(url.raw_path.decode('ascii'))}"


def api_prefixes(text: str) -> tuple[str, ...]:
    """Where below the base URL of `text` OpenAI's API may be, the likeliest place first.

    A URL that ends in a version (`/v3`) is the API itself, and one that ends in `chat/completions` says where it is;
    elsewhere it is at `/v1`, or else at the base URL.

    >>> api_prefixes("box:8080"), api_prefixes("box:8080/api/v3"), api_prefixes("box:8080/chat/completions")
    (('/v1', ''), ('',), ('', '/v1'))
    """
    if _VERSION.search(unquote(urlsplit(normalise_base_url(text)).path)):
        return ("",)
    path = text.strip().rstrip("/")
    chat = _CHAT.search(path)
    if chat is not None and not _VERSION.search(path[: chat.start()]):
        return ("", DEFAULT_API_PREFIX)
    return (DEFAULT_API_PREFIX, "")


def is_loopback(base_url: str) -> bool:
    """Whether the URL names this very machine.

    >>> is_loopback("http://127.0.0.1:8080"), is_loopback("http://[::1]:1"), is_loopback("http://192.168.1.5:8080")
    (True, True, False)
    """
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, not an IP address
        return host == "localhost" or host.endswith(".localhost")


def _without_endpoint(path: str) -> str:
    path = path.partition("?")[0].rstrip("/")
    match = _ENDPOINTS.search(path)
    return path if match is None else _without_endpoint(path[: match.start()])
