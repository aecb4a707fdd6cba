"""Replies as bytes on a connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from palaver.errors import PalaverError
from palaver.serve.guard import SAFE_HEADERS, Header, Receive, Send
from palaver.serve.problems import problem_of
from palaver.serve.routes import Reply

_JSON: Header = (b"content-type", b"application/json")
_PROBLEM: Header = (b"content-type", b"application/problem+json")
_NO_STORE: Header = (b"cache-control", b"no-store")


def problem_reply(error: PalaverError, *headers: Header) -> Reply:
    status, document = problem_of(error)
    return Reply(status, document, headers)


@dataclass(frozen=True)
class Page:
    """Ready bytes that are no JSON."""

    body: bytes
    headers: tuple[Header, ...]

    async def __call__(self, receive: Receive, send: Send) -> None:
        await _send(send, 200, self.body, self.headers)


async def send_reply(send: Send, reply: Reply) -> None:
    """JSON, a problem document from 400 on, or nothing where the reply has no body."""
    if reply.status == 204:
        await _send(send, 204, b"", [*reply.headers, _NO_STORE])
    else:
        media = _PROBLEM if reply.status >= 400 else _JSON
        await _send(send, reply.status, msgspec.json.encode(reply.body), (media, _NO_STORE, *reply.headers))


async def _send(send: Send, status: int, body: bytes, headers: Iterable[Header]) -> None:
    length = [] if status == 204 else [(b"content-length", str(len(body)).encode("ascii"))]
    await send({"type": "http.response.start", "status": status, "headers": [*length, *headers, *SAFE_HEADERS]})
    await send({"type": "http.response.body", "body": body})
