"""A daemon's front on a real socket, in the test's own event loop, and clients that say exactly what the test tells them to."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from websockets.asyncio.client import ClientConnection, connect

from palaver.errors import Refused
from palaver.serve.app import Palaver, serve_app
from palaver.serve.doors import Doors
from palaver.serve.peer import Address
from palaver.serve.seam import Hub
from palaver.serve.tokens import Tokens


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json.get("code"))


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Daemon(NamedTuple):
    app: Palaver
    tokens: Tokens
    port: int
    token: str
    """The admin token."""

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        """`token`: empty is the admin's, None is none. `raw` goes out as it is, with the headers that are given and no others."""
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        lines = {"Host": f"127.0.0.1:{self.port}"}
        if token is not None:
            lines["Authorization"] = f"Bearer {token or self.token}"
        if body is not None:
            lines["Content-Type"] = "application/json"
        if content:
            lines["Content-Length"] = str(len(content))
        return await exchange(self.port, method, path, list({**lines, **(headers or {})}.items()), content)

    async def mint(self, scope: str, **more: Any) -> str:
        answer = await self.ask("POST", "/v1/tokens", {"scope": scope, **more})
        assert answer.status == 201, answer
        return str(answer.json["token"])

    def socket(self, **options: Any) -> connect:
        return connect(f"ws://127.0.0.1:{self.port}/v1/ws", **options)

    @asynccontextmanager
    async def authorized(self, token: str = "") -> AsyncIterator[ClientConnection]:
        async with self.socket(additional_headers={"Authorization": f"Bearer {token or self.token}"}, max_size=None) as ws:
            assert json.loads(await ws.recv())["op"] == "ready"
            yield ws


async def exchange(port: int, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b"") -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    try:
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "Connection: close", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)
        async with asyncio.timeout(20):
            return await read_answer(reader, method)
    finally:
        writer.close()


async def read_answer(reader: asyncio.StreamReader, method: str = "GET") -> Answer:
    status, headers = await read_head(reader)
    if method == "HEAD" or status == 204:
        body = b""
    elif headers.get("transfer-encoding") == "chunked":
        body = b"".join([chunk async for chunk in chunks(reader)])
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Answer(status, headers, body)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    return int(head[0].split()[1]), {name.lower(): value for name, value in headers.items()}


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]


class Frame(NamedTuple):
    """One server-sent event."""

    event: str
    id: int | None
    data: Any


class Stream:
    """A client that reads server-sent events from a socket of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> None:
        self.reader, self.writer = reader, writer
        self.status, self.headers = status, headers
        self._chunks = chunks(reader)
        self._buffer = b""

    async def next(self) -> Frame | None:
        """The next frame; None once the stream is over."""
        async with asyncio.timeout(20):
            while True:
                while b"\n\n" not in self._buffer:
                    try:
                        self._buffer += await anext(self._chunks)
                    except (StopAsyncIteration, asyncio.IncompleteReadError, ValueError, ConnectionError):
                        return None
                block, self._buffer = self._buffer.split(b"\n\n", 1)
                if frame := _frame(block):
                    return frame

    async def until(self, wanted: Callable[[Frame], bool]) -> list[Frame]:
        frames: list[Frame] = []
        while (frame := await self.next()) is not None:
            frames.append(frame)
            if wanted(frame):
                return frames
        raise AssertionError(f"the stream ended after {frames}")


def _frame(block: bytes) -> Frame | None:
    fields = [line.split(b": ", 1) for line in block.split(b"\n") if line and not line.startswith(b":")]
    named = {name.decode(): value for name, value in fields}
    if "data" not in named:
        return None
    return Frame(named.get("event", b"message").decode(), int(named["id"]) if "id" in named else None, json.loads(named["data"]))


@asynccontextmanager
async def streaming(port: int, path: str, *, token: str | None = None, headers: Mapping[str, str] | None = None) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    try:
        lines = {"Host": f"127.0.0.1:{port}", **({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        writer.write("\r\n".join([f"GET {path} HTTP/1.1", *(f"{n}: {v}" for n, v in lines.items()), "", ""]).encode("latin-1"))
        async with asyncio.timeout(20):
            status, answer_headers = await read_head(reader)
        yield Stream(reader, writer, status, answer_headers)
    finally:
        writer.close()


@asynccontextmanager
async def serving(
    folder: Path,
    hub: Any,
    *,
    no_token: bool = False,
    clock: Callable[[], float] = time.time,
    same_user: Callable[[Address, Address], bool] | None = None,
    keep_alive_s: float = 15.0,
    auth_s: float = 5.0,
    send_buffer: int | None = None,
) -> AsyncIterator[Daemon]:
    """The application on a free port of 127.0.0.1, until the block ends. A small `send_buffer` lets a stalled reader be felt soon."""
    tokens = Tokens(folder, clock=clock)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        if send_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)  # those that are accepted have it from here
        doors = Doors(tokens, clock=clock, no_token=no_token, same_user=same_user)
        app = Palaver(cast(Hub, hub), doors, port=port, clock=clock, keep_alive_s=keep_alive_s, auth_s=auth_s)
        stop, listening = asyncio.Event(), asyncio.Event()
        server = asyncio.create_task(serve_app(app, sock, stop, listening=listening.set))
        await listening.wait()
        try:
            yield Daemon(app, tokens, port, (folder / "token").read_text().strip())
        finally:
            stop.set()
            await server


class QuietBatch:
    first = 1
    lines: tuple[bytes, ...] = ()
    pieces: tuple[bytes, ...] = ()
    caught_up: int | None = 0
    deleted = False

    def sse(self) -> bytes:
        return b""


class QuietHub:
    """One session in which nothing ever happens: enough to see who is let in, and for how long."""

    epoch = "e1"
    version = "0.0"

    async def get(self, session_id: str) -> dict[str, Any]:
        return {"id": self._known(session_id)}

    async def hello(self, session_id: str) -> dict[str, Any]:
        return {"epoch": self.epoch, "head_seq": 0, "session": {"id": self._known(session_id)}, "open": {}}

    async def follow(self, session_id: str, after: int, *, tail: bool = False, straight: object = None) -> AsyncGenerator[QuietBatch, None]:
        if after > 0:
            raise Refused("cursor_ahead", "beyond", oldest_seq=1, head_seq=0)
        yield QuietBatch()
        await asyncio.Event().wait()

    async def follow_all(self, after: int | None) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield None

    async def inbox(self) -> dict[str, Any]:
        return {"items": [], "as_of": None}

    async def agents(self) -> dict[str, Any]:
        raise ZeroDivisionError("a bug")

    async def settings(self) -> dict[str, Any]:
        return {"values": {}, "origins": {}, "schema": {}}

    async def add_message(self, session_id: str, post: Any, actor: Any) -> dict[str, Any]:
        return {"message_id": "msg_1", "turn_id": None, "delivered": "stored", "text": post.parts[0].text, "by": actor.name}

    def _known(self, session_id: str) -> str:
        if session_id != "sess_1":
            raise Refused("not_found", "There is no such session")
        return session_id
