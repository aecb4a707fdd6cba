"""A model server that costs next to nothing: answers made beforehand, each delta an HTTP chunk of its own.

The first segment of the path says what comes: `/burst-20000/v1/chat/completions` 20 000 deltas as fast as the socket takes them,
`/each-20000/…` the same with a write for each, `/paced-50-200/…` 50 deltas a second, 200 in all, each of them the clock's
nanoseconds when it was written; `/calls-20/…` a call of `read_file` until 20 have their result, then a word. `GET /sizes` gives the
size of every request since it was last asked.

    python bench/model.py    prints its port, and serves until stdin ends
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import lru_cache

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = "word "


def delta(text: str) -> bytes:
    return _event({"index": 0, "delta": {"content": text}, "finish_reason": None})


def _event(choice: dict[str, object]) -> bytes:
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "bench", "choices": [choice]}
    return _chunked(b"data: " + json.dumps(body).encode() + b"\n\n")


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


END = _event({"index": 0, "delta": {}, "finish_reason": "stop"}) + _chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"


TOOL = b'"role":"tool"'
_CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.txt"}'}}
CALL = (
    HEAD
    + _event({"index": 0, "delta": {"tool_calls": [_CALL]}, "finish_reason": None})
    + _event({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    + _chunked(b"data: [DONE]\n\n")
    + b"0\r\n\r\n"
)


@lru_cache(maxsize=8)
def burst(count: int) -> bytes:
    return HEAD + delta(WORD) * count + END


class Connection(asyncio.Protocol):
    def __init__(self, sizes: list[int]) -> None:
        self._sizes = sizes
        self._buffer = b""
        self._writing: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if found and len(body) >= (length := _length(head)):
            self._buffer = body[length:]
            self._answer(head.split(b" ", 2)[1].decode(), length, body[:length])

    def _answer(self, path: str, size: int, body: bytes) -> None:
        what, *numbers = path.split("/")[1].split("-")
        if what == "sizes":
            body = json.dumps(self._sizes).encode()
            self._sizes.clear()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            return
        self._sizes.append(size)
        if what == "burst":
            self._transport.write(burst(int(numbers[0])))
        elif what == "calls":
            self._transport.write(burst(1) if body.count(TOOL) >= int(numbers[0]) else CALL)
        elif what == "each":
            self._writing = asyncio.ensure_future(self._each(int(numbers[0])))
        else:
            self._writing = asyncio.ensure_future(self._paced(int(numbers[0]), int(numbers[1])))

    async def _each(self, count: int) -> None:
        piece = delta(WORD)
        self._transport.write(HEAD)
        for _ in range(count):
            self._transport.write(piece)
            await self._room.wait()
            await asyncio.sleep(0)
        self._transport.write(END)

    async def _paced(self, rate: int, count: int) -> None:
        loop = asyncio.get_running_loop()
        self._transport.write(HEAD)
        due = loop.time()
        for _ in range(count):
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            self._transport.write(delta(f"{time.monotonic_ns()} "))
        self._transport.write(END)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def main() -> None:
    loop = asyncio.get_running_loop()
    sizes: list[int] = []
    server = await loop.create_server(lambda: Connection(sizes), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
