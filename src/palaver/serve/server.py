"""uvicorn, named piece by piece, on a socket that somebody else opened; it ends when it is told to, streams first."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from palaver.serve.bodies import JSON_LIMIT
from palaver.serve.frames import WIRE
from palaver.serve.guard import HEADER_LIMIT, SAFE_HEADERS
from palaver.serve.problems import problem

if TYPE_CHECKING:
    from palaver.serve.app import Palaver

GRACE_SECONDS = 3
"""How long an answer that has begun may take when the daemon ends."""


class BoundedHttp(HttpToolsProtocol):
    """The parser keeps headers until they are complete; here they are complete within the limit, or the connection ends."""

    _pending = 0
    """Bytes that came since the headers of a request began."""
    _in_headers = True

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._pending = self._pending + len(data) if self._in_headers else 0
        if self._pending > 2 * HEADER_LIMIT and not self.transport.is_closing():
            self._refuse("headers_too_large", "The headers are larger than 64 KiB: send fewer or shorter ones")

    def on_message_begin(self) -> None:
        self._in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self.scope["extensions"] = {WIRE: self}  # type: ignore[dict-item]  # an extension may be anything
        super().on_headers_complete()

    def has_room(self) -> bool:
        """Whether a piece of the answer that is under way may be pushed: it takes chunks, and its reader keeps up."""
        cycle = self.cycle
        over = cycle.response_complete or cycle.disconnected or self.transport.is_closing()
        return bool(cycle.chunked_encoding) and not (over or self.flow.write_paused)

    def push(self, body: bytes) -> None:
        """Write a piece without the steps that `send` takes for each. A stream to a thousand readers is made of such pieces."""
        if body:
            self.transport.write(b"%x\r\n%b\r\n" % (len(body), body))

    def send_400_response(self, msg: str) -> None:
        self._refuse("bad_request", "What came is not HTTP/1.1 that can be read; the connection is closed")

    def _refuse(self, code: str, detail: str) -> None:
        """The answer to what is no request yet, after which nothing more is read."""
        status, document = problem(code, detail)
        body = msgspec.json.encode(document)
        headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body)), *SAFE_HEADERS]
        lines = [STATUS_LINE[status], *(b"%s: %s\r\n" % header for header in headers), b"connection: close\r\n\r\n", body]
        self.transport.write(b"".join(lines))
        self.transport.close()


def _socket_protocol(**options: Any) -> asyncio.Protocol:
    """What speaks on a socket that a client upgrades. Imported with the first one: it costs a tenth of a start."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(**options)


class _Server(uvicorn.Server):
    """Signals belong to the daemon, and nothing wakes up ten times a second to see whether it is over."""

    def __init__(self, config: uvicorn.Config, app: Palaver, stop: asyncio.Event, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._stop = stop
        self._listening = listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self._listening()
        await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.doors.leases.end_all()
        await super().shutdown(sockets)


async def serve_app(app: Palaver, sock: socket.socket, stop: asyncio.Event, *, listening: Callable[[], None] = lambda: None) -> None:
    """Answers on `sock`, which listens already or will, until `stop` is set. `listening` is called once it does."""
    config = uvicorn.Config(
        app,
        loop=loop_name(),
        http=BoundedHttp,
        ws=_socket_protocol,  # type: ignore[arg-type]  # uvicorn only calls it
        ws_max_size=JSON_LIMIT,
        ws_per_message_deflate=False,
        ws_ping_interval=20,
        ws_ping_timeout=60,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # else a header could say whose connection it is
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    await _Server(config, app, stop, listening).serve(sockets=[sock])


def loop_name() -> str:
    """uvloop where it is installed. Whoever runs the loop asks the same, so that both agree."""
    return "uvloop" if find_spec("uvloop") else "asyncio"
