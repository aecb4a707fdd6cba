"""Plain HTTP to a model server of this machine, read by httptools: a fifth of what httpx2's own reader costs for each chunk.

It is a transport of httpx2's, so everything above it is the same for every service. Only loopback addresses come here: TLS, proxies and far
connections stay httpx2's business. A read gives all that has arrived, in one piece, however many chunks it came in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httptools
import httpx2

HIGH_WATER = 256 * 1024
"""Bytes that wait for their reader before the server has to wait."""
KEPT_S = 60.0
"""How long a connection that nobody uses is kept."""
KEPT = 20


class Direct(httpx2.AsyncBaseTransport):
    """The connections to one server. Each serves one request at a time and is kept for the next."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        timeouts = request.extensions.get("timeout", {})
        connection = self._kept() or await _connect(request.url, timeouts.get("connect"))
        try:
            await connection.send(request, await request.aread(), timeouts.get("write"))
            await connection.head(timeouts.get("read"))
        except BaseException:
            connection.close()
            raise
        body = _Body(connection, self, timeouts.get("read"))
        return httpx2.Response(connection.status, headers=connection.headers, stream=body, request=request)

    async def aclose(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _kept(self) -> _Connection | None:
        """One that is still open; the oldest are let go."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < KEPT_S:
                return connection
            connection.close()
        return None

    def take_back(self, connection: _Connection) -> None:
        if connection.usable and len(self._idle) < KEPT:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()


async def _connect(url: httpx2.URL, timeout: float | None) -> _Connection:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(_Connection, url.host, url.port or 80)
    except TimeoutError as error:
        raise httpx2.ConnectTimeout(f"no connection within {timeout:g} s") from error
    except OSError as error:
        raise httpx2.ConnectError(str(error)) from error
    return connection


class _Body(httpx2.AsyncByteStream):
    def __init__(self, connection: _Connection, transport: Direct, timeout: float | None) -> None:
        self._connection: _Connection | None = connection
        self._transport = transport
        self._timeout = timeout

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._connection is not None and (piece := await self._connection.read(self._timeout)):
            yield piece

    async def aclose(self) -> None:
        """A connection whose response was not read to its end is of no more use."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._transport.take_back(connection)


class _Connection(asyncio.Protocol):
    """One socket. The parser calls `on_…`; whoever reads is woken once for each piece that the socket gave."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._lost: Exception | None = None
        self._woken = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._headed = self._whole = self._keeps = False
        self._pieces: list[bytes] = []
        self._waiting = 0

    @property
    def usable(self) -> bool:
        """Open, its answer whole, and the server keeps it."""
        return self._keeps and self._lost is None and not self._transport.is_closing()

    def close(self) -> None:
        self._transport.abort()

    async def send(self, request: httpx2.Request, body: bytes, timeout: float | None) -> None:
        self._begin()
        lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path), *(b"%b: %b" % pair for pair in request.headers.raw)]
        self._transport.write(b"\r\n".join([*lines, b"", b""]) + body)
        try:
            async with asyncio.timeout(timeout):
                await self._writable.wait()
        except TimeoutError as error:
            raise httpx2.WriteTimeout("the server does not read") from error

    async def head(self, timeout: float | None) -> None:
        """Returns when status and headers are there."""
        while not self._headed:
            await self._more(timeout)

    async def read(self, timeout: float | None) -> bytes:
        """All of the body that has come and was not read; empty at its end."""
        while not self._pieces and not self._whole:
            await self._more(timeout)
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        self._transport.resume_reading()
        return b"".join(pieces)

    async def _more(self, timeout: float | None) -> None:
        if self._lost is not None:
            raise self._lost
        self._woken.clear()
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError as error:
            raise httpx2.ReadTimeout("nothing came") from error

    # called by the event loop

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of a stream, it is one
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._whole:
            return self.close()  # nobody asked for more
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(httpx2.RemoteProtocolError(f"this is not HTTP: {error}"))
            self.close()
        if self._waiting > HIGH_WATER:
            self._transport.pause_reading()
        self._woken.set()

    def connection_lost(self, error: Exception | None) -> None:
        sized = {name.lower() for name, _ in self.headers} & {b"content-length", b"transfer-encoding"}
        if error is None and self._headed and not sized:
            self._whole = True  # such a body ends where its connection does
        what = "the server closed the connection before its answer was whole" if error is None else str(error)
        self._end(httpx2.ReadError(what) if error is not None else httpx2.RemoteProtocolError(what))
        self._writable.set()

    def _end(self, error: Exception) -> None:
        self._lost = self._lost or error
        self._woken.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # called by the parser

    def on_message_begin(self) -> None:
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._headed = self.status >= 200  # what comes before is not the answer yet

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._waiting += len(body)

    def on_message_complete(self) -> None:
        self._whole = self._headed
        self._keeps = self._whole and self._parser.should_keep_alive()
