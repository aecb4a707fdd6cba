"""Server-sent events, as bare ASGI: one reader is one loop over what the engine hands out, and the socket is its only queue.

A reader that does not read waits in its own `send`; nobody else notices. It ends when the client goes away, when the session is deleted,
when the token that opened it ends, and when the daemon does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from palaver.errors import Invalid, Refused
from palaver.serve.answers import send_reply
from palaver.serve.frames import as_sse, control
from palaver.serve.guard import SAFE_HEADERS, Receive, Scope, Send, values
from palaver.serve.routes import Call, Reply
from palaver.serve.seam import AllBatch, Batch
from palaver.wire import requests as r

if TYPE_CHECKING:
    from palaver.serve.app import Palaver

KEEP_ALIVE_SECONDS = 15.0
_LAST_WORD_SECONDS = 0.5
_MOST_EVENTS = 10_000
_RETRY = b"retry: 1000\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    *SAFE_HEADERS,
]


async def session_events(app: Palaver, call: Call) -> Reply:
    """A page of the log as JSON, made of the stored bytes."""
    query = call.args(r.EventsQuery)
    if query.format != "json":
        raise Invalid("Over the socket events come by `subscribe`; `format=json` gives a page of them", path="format")
    after = await _cursor(app, call, query.after or "0")
    page = await app.hub.events(call.session_id, after, min(query.limit, _MOST_EVENTS))
    tail = b'],"next_after":%d,"head_seq":%d}' % (page.next_after, page.head_seq)
    return Reply(200, msgspec.Raw(b'{"events":[' + b",".join(page.lines) + tail))


async def events(app: Palaver, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
    """`GET …/events`: hello, what came after the cursor, caught_up, what comes."""
    query = call.args(r.EventsQuery)
    if query.format == "json":
        await send_reply(send, await session_events(app, call))
        return
    after = await _cursor(app, call, _last_event_id(scope) or query.after or "0")
    hello = await app.hub.hello(call.session_id)
    async with aclosing(app.hub.follow(call.session_id, after, tail=query.tail)) as batches:
        first = await anext(batches)
        opening = _RETRY + as_sse("hello", control("hello", call.session_id, hello, app.clock()))
        frames = _session_frames(app, call.session_id, first, batches)
        await _stream(app, call, query.ticket, opening, frames, receive, send)


async def all_events(app: Palaver, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
    """`GET /v1/events`: every session's news in one sequence."""
    query = call.args(r.AllEventsQuery)
    cursor = _last_event_id(scope) or query.after
    async with aclosing(app.hub.follow_all(None if cursor is None else _number(cursor))) as batches:
        await _stream(app, call, query.ticket, _RETRY, _all_frames(app, batches), receive, send)


async def _session_frames(app: Palaver, session_id: str, first: Batch, batches: AsyncGenerator[Batch, None]) -> AsyncGenerator[bytes, None]:
    batch: Batch | None = first
    while batch is not None:
        frames = batch.sse()
        if batch.caught_up is not None:
            frames += as_sse("caught_up", control("caught_up", session_id, {"seq": batch.caught_up}, app.clock()))
        if batch.deleted:
            frames += as_sse("deleted", control("deleted", session_id, {"session_id": session_id}, app.clock()))
        yield frames
        batch = None if batch.deleted else await anext(batches, None)


async def _all_frames(app: Palaver, batches: AsyncGenerator[AllBatch, None]) -> AsyncGenerator[bytes, None]:
    async for batch in batches:
        frames = b""
        if batch.gap is not None:
            frames += as_sse("gap", control("gap", None, batch.gap, app.clock()))
        if batch.hello is not None:
            frames += as_sse("hello", control("hello", None, batch.hello, app.clock()))
        frames += b"".join([b"id: %d\ndata: %s\n\n" % item for item in batch.items])
        for session_id in batch.deleted:
            frames += as_sse("deleted", control("deleted", session_id, {"session_id": session_id}, app.clock()))
        yield frames


async def _stream(
    app: Palaver,
    call: Call,
    ticket: str | None,
    opening: bytes,
    frames: AsyncGenerator[bytes, None],
    receive: Receive,
    send: Send,
) -> None:
    connection = _Connection(receive, send)
    token_id = call.identity.token_id
    tickets, leases = app.doors.tickets, app.doors.leases
    with tickets.streaming(ticket), leases.hold(token_id, lambda: app.doors.tokens.expires(token_id), connection.end):
        async with aclosing(frames):
            await connection.run(opening, frames)


class _Gone(Exception):
    """The reader went away, or was shown out."""


class _Connection:
    """One reader's connection."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._watch: asyncio.Task[None] | None = None
        self._ended = False
        self._quiet = True
        """Nothing was sent since the last look."""

    def end(self) -> None:
        """From outside: the stream ends at once, whether its reader reads or not."""
        self._ended = True
        if self._watch is not None:
            self._watch.cancel()

    async def run(self, opening: bytes, frames: AsyncGenerator[bytes, None]) -> None:
        """Returns when the stream is over, for whatever reason."""
        left = False
        try:
            async with asyncio.TaskGroup() as group:
                self._watch = group.create_task(self._watching())
                await self._pour(opening, frames)
                self._watch.cancel()
        except* _Gone:
            left = not self._ended
        if not left:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    await self._send({"type": "http.response.body", "body": b""})

    async def _pour(self, opening: bytes, frames: AsyncGenerator[bytes, None]) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self._send({"type": "http.response.body", "body": opening, "more_body": True})
        async for frame in frames:
            if frame:
                self._quiet = False
                await self._send({"type": "http.response.body", "body": frame, "more_body": True})

    async def _watching(self) -> None:
        """Sees the client leave, and writes a comment where nothing else was written for a while."""
        try:
            while not self._ended:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        message = await self._receive()
                except TimeoutError:
                    await self._comment()
                else:
                    if message["type"] == "http.disconnect":
                        raise _Gone
            raise _Gone
        except asyncio.CancelledError:
            if self._ended:
                raise _Gone from None
            raise

    async def _comment(self) -> None:
        if self._quiet:
            await self._send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
        self._quiet = True


def _last_event_id(scope: Scope) -> str | None:
    ids = values(scope["headers"], b"last-event-id")
    return ids[-1] if ids and ids[-1] else None


def _number(cursor: str) -> int:
    """Raises `Invalid` for what is no number."""
    digits = cursor.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 100):
        raise Invalid(f"A cursor is the number of an event, not `{cursor[:40]}`", path="after")
    return int(cursor)


async def _cursor(app: Palaver, call: Call, cursor: str) -> int:
    """Raises `Refused("cursor_gone")` for a negative number: nothing was ever there."""
    after = _number(cursor)
    if after < 0:
        head: Mapping[str, Any] = await app.hub.hello(call.session_id)
        raise Refused("cursor_gone", "Events are numbered from 1: start with `after=0`", oldest_seq=1, head_seq=head["head_seq"])
    return after
