"""Server-sent events, as bare ASGI: one reader is one loop over what the engine hands out, and the socket is its only queue.

A reader that does not read waits in its own `send`; nobody else notices. It ends when the client goes away, when the session is deleted,
when the token that opened it ends, and when the daemon does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from palaver.errors import Invalid, Refused
from palaver.serve.frames import WIRE, as_sse, control
from palaver.serve.guard import SAFE_HEADERS, Receive, Scope, Send, values
from palaver.serve.routes import Call, Outcome, Reply
from palaver.serve.seam import AllBatch, Batch
from palaver.wire import requests as r

if TYPE_CHECKING:
    from palaver.serve.app import Palaver

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
    if query.format != "json" and query.until is None:
        raise Invalid("Over the socket events come by `subscribe`; `format=json` gives a page of them", path="format")
    after = await _cursor(app, call, query.after or "0")
    page = await app.hub.events(call.session_id, after, min(query.limit, _MOST_EVENTS), query.until)
    tail = b'],"next_after":%d,"head_seq":%d}' % (page.next_after, page.head_seq)
    return Reply(200, msgspec.Raw(b'{"events":[' + b",".join(page.lines) + tail))


async def events(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    """`GET …/events`: hello, what came after the cursor, caught_up, what comes. What is wrong is known before the stream begins."""
    query = call.args(r.EventsQuery)
    if query.format == "json" or query.until is not None:
        return await session_events(app, call)
    after = await _cursor(app, call, _last_event_id(scope) or query.after or "0")
    hello = await app.hub.hello(call.session_id)
    render = partial(_session_frames, app, call.session_id)
    wire = _wire_of(scope)
    straight = None if wire is None else _Straight(wire, render)
    batches = app.hub.follow(call.session_id, after, tail=query.tail, straight=straight)
    first = await anext(batches)
    opening = _RETRY + as_sse("hello", control("hello", call.session_id, hello, app.clock())) + render(first)
    return _Stream(app, call.identity.token_id, query.ticket, opening, batches, render, wire, straight)


async def all_events(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    """`GET /v1/events`: every session's news in one sequence."""
    query = call.args(r.AllEventsQuery)
    cursor = _last_event_id(scope) or query.after
    batches = app.hub.follow_all(None if cursor is None else _number(cursor))
    return _Stream(app, call.identity.token_id, query.ticket, _RETRY, batches, partial(_all_frames, app), _wire_of(scope))


def _session_frames(app: Palaver, session_id: str, batch: Batch) -> bytes:
    frames = batch.sse()
    if batch.caught_up is not None:
        frames += as_sse("caught_up", control("caught_up", session_id, {"seq": batch.caught_up}, app.clock()))
    if batch.deleted:
        frames += as_sse("deleted", control("deleted", session_id, {"session_id": session_id}, app.clock()))
    return frames


def _all_frames(app: Palaver, batch: AllBatch) -> bytes:
    frames = b""
    if batch.gap is not None:
        frames += as_sse("gap", control("gap", None, batch.gap, app.clock()))
    if batch.hello is not None:
        frames += as_sse("hello", control("hello", None, batch.hello, app.clock()))
    frames += b"".join([b"id: %d\ndata: %s\n\n" % item for item in batch.items])
    for session_id in batch.deleted:
        frames += as_sse("deleted", control("deleted", session_id, {"session_id": session_id}, app.clock()))
    return frames


class Wire(Protocol):
    """A connection on which pieces of an answer can be written at once."""

    def has_room(self) -> bool: ...

    def push(self, body: bytes) -> None: ...


class _Straight:
    """The short way to one reader."""

    __slots__ = ("_render", "_used", "_wire", "has_room")

    def __init__(self, wire: Wire, render: Callable[[Any], bytes]) -> None:
        self._wire, self._render, self._used = wire, render, False
        self.has_room = wire.has_room

    def give(self, batch: Batch) -> None:
        self._used = True
        self._wire.push(self._render(batch))

    def was_used(self) -> bool:
        """Since this was last asked."""
        used, self._used = self._used, False
        return used


@dataclass(slots=True)
class _Stream:
    """One reader's answer: what the engine hands out, as bytes, until it hands out nothing more."""

    app: Palaver
    token_id: str | None
    ticket: str | None
    opening: bytes
    batches: AsyncGenerator[Any, None]
    render: Callable[[Any], bytes]
    wire: Wire | None
    straight: _Straight | None = None

    async def __call__(self, receive: Receive, send: Send) -> None:
        doors = self.app.doors
        connection = _Connection(receive, send, self.wire, self.straight, self.app.keep_alive_s)
        async with aclosing(self.batches):
            with doors.tickets.streaming(self.ticket), doors.leases.hold(self.token_id, self._expires, connection.end):
                await connection.run(self.opening, self.batches, self.render)

    def _expires(self) -> float | None:
        return self.app.doors.tokens.expires(self.token_id)


class _Left(Exception):
    """The reader went away."""


class _Over(Exception):
    """There is nothing more to say, or the reader was shown out."""


class _Connection:
    """One reader's connection: what pours is a task of its own, so that each event wakes few frames."""

    __slots__ = ("_ended", "_keep_alive_s", "_pouring", "_quiet", "_receive", "_send", "_straight", "_wire")

    def __init__(self, receive: Receive, send: Send, wire: Wire | None, straight: _Straight | None, keep_alive_s: float) -> None:
        self._receive = receive
        self._wire = wire
        self._straight = straight
        self._send = send
        self._keep_alive_s = keep_alive_s
        self._pouring: asyncio.Task[None] | None = None
        self._ended = False
        self._quiet = True
        """Nothing was sent since the last look."""

    def end(self) -> None:
        """From outside: the stream ends at once, whether its reader reads or not."""
        self._ended = True
        if self._pouring is not None:
            self._pouring.cancel()

    async def run(self, opening: bytes, batches: AsyncGenerator[Any, None], render: Callable[[Any], bytes]) -> None:
        """Returns when the stream is over, for whatever reason."""
        left = False
        try:
            async with asyncio.TaskGroup() as group:
                self._pouring = group.create_task(self._pour(opening, batches, render))
                await self._watch()
        except* _Left:
            left = True
        except* _Over:
            pass
        if not left:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    await self._send({"type": "http.response.body", "body": b""})

    async def _pour(self, opening: bytes, batches: AsyncGenerator[Any, None], render: Callable[[Any], bytes]) -> None:
        """Raises `_Over` at the end, which ends the watch too."""
        try:
            await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send({"type": "http.response.body", "body": opening, "more_body": True})
            if not self._ended:
                async for batch in batches:
                    self._quiet = False
                    body = render(batch)
                    if self._wire is not None and self._wire.has_room():
                        self._wire.push(body)
                    else:
                        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        except asyncio.CancelledError:
            if not self._ended:
                raise
        raise _Over

    async def _watch(self) -> None:
        """Sees the client leave, and writes a comment where nothing else was written for a while."""
        while True:
            try:
                async with asyncio.timeout(self._keep_alive_s):
                    message = await self._receive()
            except TimeoutError:
                if self._quiet and not (self._straight is not None and self._straight.was_used()):
                    await self._send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
                self._quiet = True
            else:
                if message["type"] == "http.disconnect":
                    raise _Left


def _wire_of(scope: Scope) -> Wire | None:
    """What our own server offers besides `send`; another one offers nothing."""
    return (scope.get("extensions") or {}).get(WIRE)


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
