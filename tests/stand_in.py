"""A small daemon for the client's tests: real sockets and HTTP, answers as the test wants them, and a memory of what came.

It stands at the edge only; nothing of the client is replaced. What it cannot show is shown against the real daemon, in
`cli/test_end_to_end.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from palaver.client.connect import proof


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    connection: int


@dataclass
class Reply:
    status: int = 200
    body: Any = None
    """JSON; bytes go out as they are."""
    stream: Iterable[bytes] | AsyncIterable[bytes] | None = None
    """Pieces of an event stream, without a length; the connection is cut after the last one."""
    hold: asyncio.Event | None = None
    """Keeps a stream open after its last piece until it is set."""
    headers: dict[str, str] = field(default_factory=dict)


Answer = Callable[[Asked], Reply | Awaitable[Reply]]


class StandIn:
    """`async with StandIn({("GET", "/v1/sessions"): answer}) as daemon`: listens on `daemon.url`, remembers `daemon.asked`."""

    def __init__(
        self, answers: dict[tuple[str, str], Answer | Reply] | None = None, *, token: str | None = "id.secret", port: int = 0
    ) -> None:
        self.port = port
        self.answers = answers or {}
        self.token = token
        """What it proves to know; None: it answers health without a proof."""
        self.asked: list[Asked] = []
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    def paths(self) -> list[str]:
        """What was asked besides health, as `METHOD /path`."""
        return [f"{one.method} {one.path}" for one in self.asked if one.path != "/v1/health"]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        try:
            while (asked := await _read(reader, number)) is not None:
                self.asked.append(asked)
                reply = await self._reply(asked)
                await _write(writer, reply)
                if reply.stream is not None:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, as clients may
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _reply(self, asked: Asked) -> Reply:
        answer = self.answers.get((asked.method, asked.path))
        if answer is None and asked.path == "/v1/health":
            return Reply(body=self.health(asked))
        if answer is None:
            return Reply(404, {"code": "not_found", "title": "Not found", "detail": f"There is no {asked.path}.", "status": 404})
        if isinstance(answer, Reply):
            return answer
        reply = answer(asked)
        return reply if isinstance(reply, Reply) else await reply

    def health(self, asked: Asked) -> dict[str, Any]:
        body: dict[str, Any] = {"ok": True, "version": "0.1.0"}
        if self.token is not None and asked.query.get("token_id") == self.token.partition(".")[0]:
            body["proof"] = proof(self.token, asked.query["nonce"], self.port)
        return body


async def _read(reader: asyncio.StreamReader, number: int) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return Asked(method, parts.path, query, headers, json.loads(content) if content else None, number)


async def _write(writer: asyncio.StreamWriter, reply: Reply) -> None:
    if reply.stream is None:
        content = reply.body if isinstance(reply.body, bytes) else b"" if reply.body is None else json.dumps(reply.body).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(content)), **reply.headers}
        writer.write(_head(reply.status, headers) + content)
        await writer.drain()
        return
    writer.write(_head(reply.status, {"Content-Type": "text/event-stream", "Connection": "close", **reply.headers}))
    pieces = reply.stream if isinstance(reply.stream, AsyncIterable) else _each(reply.stream)
    async for piece in pieces:
        writer.write(piece)
        await writer.drain()
    if reply.hold is not None:
        await reply.hold.wait()


async def _each(pieces: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for piece in pieces:
        yield piece


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def event(seq: int, kind: str, data: dict[str, Any], turn_id: str | None = "turn_1", session_id: str = "sess_1") -> dict[str, Any]:
    """A logged envelope."""
    ts = f"2026-01-01T00:00:{seq % 60:02d}.000Z"
    return {"v": 1, "seq": seq, "ts": ts, "session_id": session_id, "turn_id": turn_id, "type": kind, "data": data}


def frame(envelope: dict[str, Any]) -> bytes:
    """It as the stream has it: control frames by name, logged ones by number, pieces of the tail with neither."""
    control = f"event: {envelope['type']}\n" if envelope["type"] in ("hello", "caught_up", "gap", "deleted") else ""
    number = f"id: {envelope['seq']}\n" if "seq" in envelope else ""
    return f"{control}{number}data: {json.dumps(envelope, ensure_ascii=False)}\n\n".encode()


def control(kind: str, data: dict[str, Any], session_id: str = "sess_1") -> dict[str, Any]:
    return {"v": 1, "ts": "2026-01-01T00:00:00.000Z", "session_id": session_id, "turn_id": None, "type": kind, "data": data}
