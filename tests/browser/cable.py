"""A cable between a browser and its daemon that a test can cut: what comes as `127.0.0.1` loses it, what comes as `localhost` does not.

So one window is cut off while another one watches the same session without an interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LIMIT = 1 << 16


class Cable:
    def __init__(self, daemon: int) -> None:
        self.port = 0
        self.refused = 0
        """Connections that came while it was cut."""
        self._daemon = daemon
        self._is_cut = False
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Ends what is connected, as a pulled plug does, and lets nobody through until `mend`."""
        self._is_cut = True
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            spared = b"\r\nhost: localhost" in head.lower()
            if self._is_cut and not spared:
                self.refused += 1
                writer.transport.abort()
                return
            if not spared:
                self._open.add(writer)
            await self._carry(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # browsers open connections that they do not need, and leave in the middle of an answer
        finally:
            self._open.discard(writer)
            writer.close()

    async def _carry(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        down, up = await asyncio.open_connection("127.0.0.1", self._daemon)
        try:
            up.write(head)
            there, back = asyncio.create_task(_pump(reader, up)), asyncio.create_task(_pump(down, writer))
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            there.cancel()
            back.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
        finally:
            up.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(LIMIT):
        writer.write(piece)
        await writer.drain()


@asynccontextmanager
async def cabled(daemon: int) -> AsyncIterator[Cable]:
    cable = Cable(daemon)
    connections: set[asyncio.Task[None]] = set()

    def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(cable.take(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(taken, "127.0.0.1", 0, limit=LIMIT)
    cable.port = server.sockets[0].getsockname()[1]
    try:
        yield cable
    finally:
        server.close()
        left = list(connections)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
