"""`roofmark serve`: the dashboard."""

import socket
from threading import Event
from typing import Annotated

import typer
import uvicorn

from app.cli.output import say
from app.cli.startup import log_to_stderr, open_database
from app.core.errors import BadInput
from app.core.settings import Settings
from app.web import create_app
from app.web.security import check_listen

GRACE_S = 2
"""How long a stopping server waits for open connections: event streams never end by themselves."""

commands = typer.Typer()


@commands.command("serve")
def serve_dashboard(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = None,
    allow_no_password: Annotated[
        bool, typer.Option("--allow-no-password", help="Listen on a public address without a password.")
    ] = False,
) -> None:
    """Show the dashboard."""
    options = {"host": host, "port": port, "allow_no_password": allow_no_password or None}
    settings = Settings(**{key: value for key, value in options.items() if value is not None})
    check_listen(settings)
    log_to_stderr(settings)
    open_database(settings).dispose()
    show_dashboard(settings)


def show_dashboard(settings: Settings) -> None:
    """Serves until a signal comes, and prints the address once it answers. Raises BadInput if it cannot listen."""
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
    url_host = f"[{host}]" if ":" in host else host
    address = f"http://{url_host}:{port}{settings.root_path}/"
    _AnnouncingServer(config, address, web.state.stopping).run(sockets=[listener])


def listen(settings: Settings) -> socket.socket:
    """Returns a socket that is bound to the host and port of the settings. Raises BadInput."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise BadInput(
            f"Port {settings.port} on {settings.host} cannot be used ({error.strerror}). Choose another with --port."
        ) from error
    return listener


class _AnnouncingServer(uvicorn.Server):
    """Prints its address when it has started, and tells the app when it stops."""

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
