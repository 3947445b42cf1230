import socket
from threading import Event

import uvicorn

from app.cli.common import log_to_stderr, open_database, say
from app.core.errors import BadInput
from app.core.settings import Settings
from app.web import create_app
from app.web.security import check_listen

GRACE_S = 2
"""Open event streams would otherwise keep a stopping server for ever."""


def serve(host: str | None, port: int | None, allow_no_password: bool) -> None:
    given = {"host": host, "port": port, "allow_no_password": allow_no_password or None}
    settings = Settings(**{key: value for key, value in given.items() if value is not None})
    check_listen(settings)
    log_to_stderr(settings)
    open_database(settings).dispose()
    show_dashboard(settings)


def show_dashboard(settings: Settings) -> None:
    """Serves until a signal comes; its address is printed when it answers. Raises BadInput when it cannot listen."""
    listener = listen(settings)
    web = create_app(settings)
    config = uvicorn.Config(
        web,
        timeout_graceful_shutdown=GRACE_S,
        log_config=None,
        access_log=False,
        server_header=False,
    )
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{port}{settings.root_path}/"
    _Announcing(config, address, web.state.stopping).run(sockets=[listener])


def listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise BadInput(
            f"Port {settings.port} on {settings.host} cannot be used ({error.strerror}): choose another with --port."
        ) from error
    return listener


class _Announcing(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, address: str, stopping: Event) -> None:
        super().__init__(config)
        self._address = address
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            say(self._address)
