"""`WS /v1/ws`: many sessions on one socket, each with its own cursor, and every request that HTTP takes.

A subscription is a loop over what the engine hands out. All of them write to the one socket, frame by frame; where its reader is slow each
waits in its own `send` and takes larger steps afterwards, and nobody else notices. A frame that cannot be taken is answered with `error`,
and the socket stays. It closes with 4401 when there is no token, or when the token that opened it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from palaver.errors import PalaverError, Refused
from palaver.serve.bodies import decode
from palaver.serve.doors import no_token
from palaver.serve.frames import control
from palaver.serve.guard import Receive, Scope, Send, refuse, values
from palaver.serve.problems import problem_of
from palaver.serve.seam import Batch, Watcher
from palaver.serve.tokens import Identity

if TYPE_CHECKING:
    from palaver.serve.app import Palaver

NO_TOKEN = 4401
STOPPING = 1012
MOST_REQUESTS = 32
"""At a time, of one socket; the next frame is read when one of them is answered."""
MOST_SUBSCRIPTIONS = 1000
_FRAMES_AT_A_TIME = 128
_OPS = "auth, subscribe, unsubscribe, request, watch, notify and focus"
_LAST_WORD_SECONDS = 0.5


class _Head(msgspec.Struct, frozen=True):
    op: str
    id: Any = None
    session_id: Any = None


class _Auth(msgspec.Struct, frozen=True):
    token: str


class _Subscribe(msgspec.Struct, frozen=True):
    session_id: str
    after: int = 0
    tail: bool = False


class _Unsubscribe(msgspec.Struct, frozen=True):
    session_id: str


class _Focus(msgspec.Struct, frozen=True):
    session_id: str | None


class _Notify(msgspec.Struct, frozen=True):
    on: bool


class _Request(msgspec.Struct, frozen=True):
    id: str | int
    method: str
    path: str
    body: msgspec.Raw = msgspec.Raw(b"")


async def serve_socket(app: Palaver, scope: Scope, receive: Receive, send: Send) -> None:
    """One socket, from the upgrade to its end. The guard has let it pass."""
    identity = app.doors.identify(scope["headers"])
    try:
        app.doors.check_peer(scope)
        if scope["path"] != "/v1/ws":
            raise no_token() if identity is None else Refused("not_found", "The socket is at /v1/ws")
    except Refused as refused:
        await refuse(scope, send, refused)
        return
    await receive()
    await send({"type": "websocket.accept"})
    if identity is None and not values(scope["headers"], b"authorization"):
        identity = await _first_frame(app, receive)
    if identity is None:
        await send({"type": "websocket.close", "code": NO_TOKEN, "reason": "no_token"})
        return
    await _Socket(app, identity, values(scope["headers"], b"host")[0], receive, send).run()


async def _first_frame(app: Palaver, receive: Receive) -> Identity | None:
    """Whose token the first frame carries; None where there is none in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(app.auth_s):
            message = await receive()
            with suppress(Refused):
                if decode(_data(message), _Head).op == "auth":
                    return app.doors.by_token(decode(_data(message), _Auth).token)
    return None


class _Left(Exception):
    """The client is gone: there is nobody to tell."""


class _Socket:
    def __init__(self, app: Palaver, identity: Identity, host: str, receive: Receive, send: Send) -> None:
        self._app = app
        self._identity = identity
        self._host = host
        self._receive = receive
        self._send = send
        self._following: dict[str, asyncio.Task[None]] = {}
        self._telling: list[asyncio.Task[None]] = []
        """What goes on in all sessions, once it watches."""
        self._room = asyncio.Semaphore(MOST_REQUESTS)
        self._reader: asyncio.Task[None] | None = None
        self._ended = False
        self._watcher: Watcher | None = None
        """From its first `watch`, `focus` or `notify` on."""

    async def run(self) -> None:
        """Returns when the socket is closed and every request that it brought is done: a client that leaves cancels nothing."""
        doors, token_id = self._app.doors, self._identity.token_id
        with doors.leases.hold(token_id, lambda: doors.tokens.expires(token_id), self._end):
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._reader = group.create_task(self._quietly(self._read()))
                await asyncio.wait({self._reader})
                for task in [*self._following.values(), *self._telling]:
                    task.cancel()
                if self._watcher is not None:
                    self._watcher.leave()
                if self._ended:
                    await self._close()

    async def _close(self) -> None:
        code, reason = (STOPPING, "stopping") if self._app.doors.leases.closing else (NO_TOKEN, "no_token")
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})

    def _end(self) -> None:
        """From outside: the token ended, or the daemon is going away."""
        self._ended = True
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self) -> None:
        await self._tell({"op": "ready", "version": self._app.version})
        while not self._ended:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            await self._take(_data(message))

    async def _take(self, frame: bytes) -> None:
        head = _Head("")
        try:
            head = decode(frame, _Head)
            match head.op:
                case "subscribe":
                    await self._subscribe(decode(frame, _Subscribe))
                case "unsubscribe":
                    await self._unsubscribe(decode(frame, _Unsubscribe).session_id)
                case "request":
                    await self._request(decode(frame, _Request))
                case "focus":
                    await self._focus(decode(frame, _Focus).session_id)
                case "watch":
                    await self._watch()
                case "notify":
                    self._attending().notices = decode(frame, _Notify).on
                case "auth":
                    await self._auth(decode(frame, _Auth))
                case _:
                    raise Refused("unknown_op", f"`{head.op[:40]}` is no op; there are {_OPS}")
        except PalaverError as error:
            await self._error(error, id=head.id, session_id=head.session_id)

    async def _auth(self, frame: _Auth) -> None:
        """A socket that is open already shows its token again: it has to be a good one, and changes nothing."""
        if self._app.doors.by_token(frame.token) is None:
            raise no_token("This token is unknown, revoked or expired; the socket stays with the one that opened it")
        await self._tell({"op": "ready", "version": self._app.version})

    def _attending(self) -> Watcher:
        if self._watcher is None:
            self._watcher = self._app.hub.watcher()
        return self._watcher

    async def _focus(self, session_id: str | None) -> None:
        if session_id is not None:
            await self._app.hub.exists(session_id)
        self._attending().look_at(session_id)

    async def _watch(self) -> None:
        """A second time changes nothing."""
        watcher = self._attending()
        watcher.watches = True  # before it is said: what is listed after `watching` misses nothing
        await self._tell({"op": "watching", "type": "watching", "data": {}})
        if not self._telling:
            self._telling.append(self._start(self._tell_news(watcher), lambda _: None))

    async def _tell_news(self, watcher: Watcher) -> None:
        while True:
            for news in await watcher.news():
                await self._say(control(news.type, news.session_id, news.data, self._app.clock()))

    async def _subscribe(self, frame: _Subscribe) -> None:
        """A second one for the same session takes the place of the first."""
        await self._unsubscribe(frame.session_id)
        if len(self._following) >= MOST_SUBSCRIPTIONS:
            raise Refused("too_many", f"One socket follows at most {MOST_SUBSCRIPTIONS} sessions: unsubscribe from some")
        self._following[frame.session_id] = self._start(self._follow(frame), lambda task: self._forget(frame.session_id, task))

    async def _unsubscribe(self, session_id: str) -> None:
        task = self._following.pop(session_id, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _forget(self, session_id: str, task: asyncio.Task[None]) -> None:
        if self._following.get(session_id) is task:
            del self._following[session_id]

    async def _follow(self, frame: _Subscribe) -> None:
        session_id = frame.session_id
        try:
            if frame.after < 0:
                raise Refused("cursor_gone", "Events are numbered from 1: start with `after` 0", oldest_seq=1)
            hello = await self._app.hub.hello(session_id)
            async with aclosing(self._app.hub.follow(session_id, frame.after, tail=frame.tail)) as batches:
                first: Batch | None = await anext(batches, None)
                await self._say(control("hello", session_id, {**hello, "version": self._app.version}, self._app.clock()))
                if first is not None:
                    await self._say_batch(session_id, first)
                async for batch in batches:
                    await self._say_batch(session_id, batch)
        except PalaverError as error:
            await self._error(error, session_id=session_id)

    async def _say_batch(self, session_id: str, batch: Batch) -> None:
        for number, line in enumerate(batch.lines, 1):
            await self._say(line)
            if number % _FRAMES_AT_A_TIME == 0:
                await asyncio.sleep(0)  # a socket that takes all at once would keep everybody else waiting
        for piece in batch.pieces:
            await self._say(piece)
        if batch.caught_up is not None:
            await self._say(control("caught_up", session_id, {"seq": batch.caught_up}, self._app.clock()))
        if batch.deleted:
            await self._say(control("deleted", session_id, {"session_id": session_id}, self._app.clock()))

    async def _request(self, frame: _Request) -> None:
        await self._room.acquire()
        self._start(self._answer(frame), lambda task: self._room.release())

    async def _answer(self, frame: _Request) -> None:
        body = bytes(frame.body)
        if body == b"null":
            body = b""  # a frame has a place for a body, whether there is one or not
        reply = await self._app.answer(self._identity, frame.method, frame.path, body, self._host)
        await self._tell({"op": "reply", "id": frame.id, "status": reply.status, "body": reply.body})

    def _start(self, work: Coroutine[Any, Any, None], done: Callable[[asyncio.Task[None]], None]) -> asyncio.Task[None]:
        task = self._group.create_task(self._quietly(work))
        task.add_done_callback(done)
        return task

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        with suppress(_Left):
            await work

    async def _error(self, error: PalaverError, *, id: Any = None, session_id: Any = None) -> None:
        _, document = problem_of(error)
        more: dict[str, Any] = {name: document[name] for name in ("oldest_seq", "head_seq", "errors") if name in document}
        named = {name: value for name, value in (("session_id", session_id), ("id", id)) if value is not None}
        await self._tell({"op": "error", "code": document["code"], "message": document["detail"], **named, **more})

    async def _tell(self, frame: dict[str, Any]) -> None:
        await self._say(msgspec.json.encode(frame))

    async def _say(self, frame: bytes) -> None:
        """The one way out. A frame is written whole; where the socket is full this waits, and only this."""
        try:
            await self._send({"type": "websocket.send", "text": frame.decode("utf-8")})
        except (OSError, RuntimeError) as error:  # uvicorn's words for "gone" and for "closed from our side"
            raise _Left from error


def _data(message: Any) -> bytes:
    text = message.get("text")
    return text.encode("utf-8", "surrogatepass") if text is not None else message.get("bytes") or b""
