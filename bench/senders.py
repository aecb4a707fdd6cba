"""So many connections, each sending a message when the one before was accepted.

    python senders.py PORT TOKEN CONNECTIONS MESSAGES SESSION…

Prints the messages accepted a second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

TEXT = "a message of the usual size, one line"
BODY = json.dumps({"role": "user", "auto_run": False, "parts": [{"type": "text", "text": TEXT}]}).encode()


class Sender(asyncio.Protocol):
    def __init__(self, request: bytes, messages: int, done: asyncio.Future[None]) -> None:
        self._request = request
        self._left = messages
        self._done = done
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by birth

    def begin(self) -> None:
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        if not head.startswith(b"HTTP/1.1 202"):
            self._done.set_exception(SystemExit(self._got.decode()))
            return
        self._got = b""
        self._left -= 1
        if self._left:
            self._transport.write(self._request)
        else:
            self._transport.close()
            self._done.set_result(None)


async def main(port: str, token: str, connections: str, messages: str, *sessions: str) -> None:
    loop = asyncio.get_running_loop()
    done = [loop.create_future() for _ in range(int(connections))]
    senders: list[Sender] = []
    for number, ended in enumerate(done):
        head = f"POST /v1/sessions/{sessions[number % len(sessions)]}/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        head += f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
        sender = Sender(head.encode() + BODY, int(messages) // int(connections), ended)
        await loop.create_connection(lambda sender=sender: sender, "127.0.0.1", int(port))  # type: ignore[misc]
        senders.append(sender)
    began = time.perf_counter()
    for sender in senders:
        sender.begin()
    await asyncio.gather(*done)
    print(int(messages) // int(connections) * int(connections) / (time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
