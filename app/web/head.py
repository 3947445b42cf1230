"""HEAD, which asks what GET would answer without wanting the answer itself."""

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadMiddleware:
    """Pure ASGI: every address that knows GET knows HEAD, and a stream does not begin for it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_start(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body"})
                enough.cancel()

        with anyio.CancelScope() as enough:
            await self.app({**scope, "method": "GET"}, receive, send_start)
