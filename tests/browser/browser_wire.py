"""The wire between the browser and everything: carries requests to the daemons as they are, plays every other server, keeps what it saw.

For the browser each address is what it says, while its connections all end here. So a page may have any origin, the daemon's too, and a
test sees what a page cannot: which requests came, and how they were answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from chromium import PATIENCE

LIMIT = 1 << 24


class Request(NamedTuple):
    method: str
    host: str
    """As it was named, with its port."""
    target: str
    headers: Mapping[str, str]
    head: tuple[str, ...]
    """The header lines as they came."""
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2]) if ":" in self.host else 80

    def asked(self, name: str) -> str:
        """A value of the query."""
        return parse_qs(urlsplit(self.target).query).get(name, [""])[0]


class Seen(NamedTuple):
    request: Request
    status: int


Play = Callable[[Request], bytes | None]
"""The whole answer of a server that is played, or None where it is not this one that was meant."""


class Wire:
    def __init__(self, port: int, daemons: frozenset[int], plays: tuple[Play, ...]) -> None:
        self.port = port
        self.seen: list[Seen] = []
        self.drops_fetch_metadata = False
        """What reaches a daemon is then what a browser sends that knows no `Sec-Fetch-…`."""
        self._daemons = daemons
        self._plays = plays
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], object], what: Callable[[], object]) -> None:
        """Looks again at every request. Raises `AssertionError` with `what` there was instead."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"it did not come: {what()}") from None

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        try:
            request = await read_request(reader)
            played = next((answer for play in self._plays if (answer := play(request)) is not None), None)
            if played is not None:
                self._saw(request, int(played[9:12]))
                writer.write(played)
                await writer.drain()
            elif request.port in self._daemons:
                await self._carry(request, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # browsers open connections that they do not need, and leave in the middle of an answer
        finally:
            writer.close()

    async def _carry(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", request.port, limit=LIMIT)
        try:
            up_writer.write(self._bytes(request))
            head = await up_reader.readuntil(b"\r\n\r\n")
            status = int(head.split()[1])
            self._saw(request, status)
            writer.write(head)
            there = asyncio.create_task(_pump(reader, up_writer)) if status == 101 else None
            try:
                await _pump(up_reader, writer)
            finally:
                if there is not None:
                    there.cancel()
        finally:
            up_writer.close()

    def _bytes(self, request: Request) -> bytes:
        """As it came, but for one connection a request: what ends then is the answer."""
        dropped = ("connection:", "sec-fetch-") if self.drops_fetch_metadata else ("connection:",)
        upgrade = "upgrade" in request.headers.get("connection", "").lower()
        kept = [line for line in request.head if not line.lower().startswith(dropped)]
        lines = [f"{request.method} {request.target} HTTP/1.1", *kept, f"Connection: {'Upgrade' if upgrade else 'close'}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + request.body

    def _saw(self, request: Request, status: int) -> None:
        self.seen.append(Seen(request, status))
        self._changed.set()


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Raises `asyncio.IncompleteReadError` where the connection ends first."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    method, target, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, headers["host"], target, headers, tuple(lines), body)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1 << 16):
        writer.write(piece)
        await writer.drain()


def answer(status: int, media: str, body: bytes | str, *headers: str) -> bytes:
    """A whole answer, after which the connection ends."""
    content = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status} Played",
        f"Content-Type: {media}",
        f"Content-Length: {len(content)}",
        "Connection: close",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + content


@asynccontextmanager
async def wired(daemons: frozenset[int], *plays: Play) -> AsyncIterator[Wire]:
    """The wire, on a port of its own. The first play that answers counts; what nobody answers is closed."""
    connections: set[asyncio.Task[None]] = set()

    def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(wire.take(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(taken, "127.0.0.1", 0, limit=LIMIT)
    wire = Wire(server.sockets[0].getsockname()[1], daemons, plays)
    try:
        yield wire
    finally:
        server.close()
        left = list(connections)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
