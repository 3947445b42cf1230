"""One stream, played in a process of its own to whoever asks, and to many at once. `/book` is a long text."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TTFT_MS = 40.0


def is_faithful(ttft_ms: float, bare_ms: float) -> bool:
    """Whether a TTFT is no shorter than the server's pause, and at most 1 ms later than a bare reader saw it.

    On a busy machine the bare reader itself is late, ours is not: the system states when data arrived.
    """
    return TTFT_MS <= ttft_ms <= bare_ms + 1


SERVER = """
import re, socket, sys, threading, time
rate, count, ttft_s, chunk = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000, sys.argv[4].encode()
chunk += b"\\n\\n"
listener = socket.create_server(("127.0.0.1", 0), backlog=256)
print(listener.getsockname()[1], flush=True)
book = b"the sea is wide and the boats are small " * 4000
models = b'{"object": "list", "data": [{"id": "gemma-3-270m", "object": "model"}]}'
def request(connection, buffered=b""):
    while b"\\r\\n\\r\\n" not in buffered:
        piece = connection.recv(65536)
        if not piece: return None
        buffered += piece
    head, _, rest = buffered.partition(b"\\r\\n\\r\\n")
    length = re.search(rb"content-length: *(\\d+)", head.lower())
    while length and len(rest) < int(length[1]): rest += connection.recv(65536)
    return head
def write(connection, data): connection.sendall(b"%x\\r\\n%s\\r\\n" % (len(data), data))
def answer(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while (head := request(connection)) and head.startswith(b"GET"):
        words = book if b"/book" in head else models if b"/models" in head else b"{}"
        connection.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(words) + words)
    if head: play(connection)
    connection.close()
def play(connection):
    start = time.perf_counter() + ttft_s
    head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
    connection.sendall(head)
    for index in range(count):
        if (wait := start + index / rate - time.perf_counter()) > 0: time.sleep(wait)
        write(connection, chunk)
    usage = b'{"prompt_tokens": 512, "completion_tokens": %d}' % count
    finish = b'{"index": 0, "delta": {}, "finish_reason": "length"}'
    write(connection, b'data: {"choices": [%s], "usage": %s}\\n\\n' % (finish, usage))
    write(connection, b"data: [DONE]\\n\\n")
    connection.sendall(b"0\\r\\n\\r\\n")
while True:
    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
"""

CHUNK = "data: " + json.dumps(
    {
        "choices": [{"finish_reason": None, "index": 0, "delta": {"content": " word"}}],
        "created": 1780000000,
        "id": "chatcmpl-eq68aJQeesvjtGIwu5UK7GCwfHaYootn",
        "model": "gemma-3-270m",
        "object": "chat.completion.chunk",
    }
)


@contextmanager
def server(rate: int, count: int) -> Iterator[int]:
    """Its port. `rate` is of each stream, in events per second."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(rate), str(count), str(TTFT_MS), CHUNK], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
