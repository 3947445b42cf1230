"""Chunked bodies (RFC 9112, section 7.1), decoded with as little work as a timed loop can do."""

import re
from collections.abc import Callable, Generator

import httpcore

READ_BYTES = 65536
MAX_LINE_BYTES = 65536
"""Of a size line with its extensions, and of all trailers together."""

_FIRST_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")
_NEXT_SIZE = re.compile(rb"\r\n" + _FIRST_SIZE.pattern)
_TRAILERS = re.compile(rb"(?:[^\r\n]+\r\n)*\r\n")


def pieces(read: Callable[[int], bytes]) -> Generator[bytes, None, bytes]:
    """The body as it arrives: what one read completes is one piece. Returns what came after the body.

    `read(max_bytes)` gives what has arrived, and nothing only at the end of the connection. Raises
    httpcore.RemoteProtocolError where the framing is broken or ends early, and whatever `read` raises.
    """
    data, left, size_line = b"", 0, _FIRST_SIZE
    while True:
        data += _some(read)
        at = 0
        found: list[bytes] = []
        while at < len(data):
            if left:
                piece = data[at : at + left]
                found.append(piece)
                at += len(piece)
                left -= len(piece)
                continue
            line = size_line.match(data, at)
            if line is None:
                break
            at, left, size_line = line.end(), int(line[1], 16), _NEXT_SIZE
            if not left:
                if found:
                    yield b"".join(found)
                return _after_trailers(read, data[at:])
        data = data[at:]
        if found:
            yield found[0] if len(found) == 1 else b"".join(found)
        if len(data) > 2 and (b"\n" in data[2:] or len(data) > MAX_LINE_BYTES):
            raise httpcore.RemoteProtocolError("a chunk does not begin with its size")


def _after_trailers(read: Callable[[int], bytes], data: bytes) -> bytes:
    while (trailers := _TRAILERS.match(data)) is None:
        if len(data) > MAX_LINE_BYTES:
            raise httpcore.RemoteProtocolError("the trailers do not end")
        data += _some(read)
    return data[trailers.end() :]


def _some(read: Callable[[int], bytes]) -> bytes:
    data = read(READ_BYTES)
    if not data:
        raise httpcore.RemoteProtocolError("the connection was closed before the last chunk")
    return data
