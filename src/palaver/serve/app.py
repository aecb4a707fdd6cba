"""The application: a request comes in, finds its route, shows its token, is answered.

The order is the same for HTTP and for requests over the socket: guard, peer, token, path, method, scope, body. Whoever has no token learns
nothing about what is there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from palaver import __version__
from palaver.errors import PalaverError, Refused
from palaver.serve.answers import problem_reply, send_reply
from palaver.serve.bodies import JSON_LIMIT, Disconnected, decode_query, read_body
from palaver.serve.doors import NOBODY, Doors, no_token
from palaver.serve.guard import Guard, Receive, Scope, Send, values
from palaver.serve.http import ROUTES
from palaver.serve.peer import can_tell, is_our_user
from palaver.serve.problems import problem
from palaver.serve.routes import Call, Match, Outcome, Reply, Route, Router
from palaver.serve.scopes import require
from palaver.serve.seam import Hub
from palaver.serve.server import serve_app
from palaver.serve.socket import serve_socket
from palaver.serve.stream import all_events, events
from palaver.serve.tokens import Identity, Tokens
from palaver.wire.requests import AllEventsQuery

__all__ = ["Palaver", "make_app", "serve_app"]

log = logging.getLogger("palaver.serve")


class Palaver:
    """Everything that answers, behind the guard. `default_mode` is the mode that sessions have unless somebody chooses one.

    Without a hub the doors are open already, and whatever needs one waits until `furnish` brings it.
    """

    def __init__(
        self,
        hub: Hub | None,
        doors: Doors,
        *,
        port: int,
        default_mode: str = "ask",
        clock: Callable[[], float] = time.time,
        keep_alive_s: float = 15.0,
        auth_s: float = 5.0,
    ) -> None:
        self._hub = hub
        self._furnished = asyncio.Event()
        if hub is not None:
            self._furnished.set()
        self.version = __version__ if hub is None else hub.version
        self.doors = doors
        self.port = port
        self.default_mode = default_mode
        self.clock = clock
        self.keep_alive_s = keep_alive_s
        """How long a stream may be silent before it gets a comment."""
        self.auth_s = auth_s
        """How long a socket may take to show its token."""
        self._router = Router(ROUTES)
        self._guard = Guard(self._inside, port=port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    @property
    def hub(self) -> Hub:
        assert self._hub is not None  # `furnished` comes first
        return self._hub

    def furnish(self, hub: Hub) -> None:
        self._hub = hub
        self._furnished.set()

    async def answer(self, identity: Identity, method: str, target: str, body: bytes, host: str) -> Reply:
        """A request that came over a socket, answered as over HTTP."""
        outcome = await self._safely(self._dispatch(identity, method, target, body, host))
        assert isinstance(outcome, Reply)
        return outcome

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What the guard has let pass."""
        if scope["type"] == "websocket":
            await self._furnished.wait()
            await serve_socket(self, scope, receive, send)
            return
        try:
            outcome = await self._safely(self._http(scope, receive))
        except Disconnected:
            return
        if isinstance(outcome, Reply):
            await send_reply(send, outcome)
        else:
            await outcome(receive, send)

    async def _http(self, scope: Scope, receive: Receive) -> Outcome:
        self.doors.check_peer(scope)
        headers = scope["headers"]
        path = scope["raw_path"].decode("latin-1")
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        identity = self.doors.identify(headers) or self._by_ticket(scope, path)
        route, params = self._find(method, path, identity)
        if route.scope is not None:
            await self._furnished.wait()
        call = Call(identity or NOBODY, params, scope["query_string"], b"", values(headers, b"host")[0])
        if route.raw is not None:
            if scope["method"] == "HEAD" and route.raw in (events, all_events):
                raise _wrong_method({"GET": route})
            return await route.raw(self, call, scope, receive)
        body = b"" if method == "GET" else await read_body(receive, JSON_LIMIT)
        return await _run(self, route, call._replace(body=body))

    async def _dispatch(self, identity: Identity, method: str, target: str, body: bytes, host: str) -> Reply:
        if not self.doors.still(identity):
            raise no_token()
        path, _, query = target.partition("?")
        route, params = self._find(method, path, identity)
        return await _run(self, route, Call(identity, params, query.encode("utf-8", "replace"), body, host))

    async def _safely(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """A refusal as a problem document. A bug ends one request, never the socket that carries many, nor the daemon."""
        try:
            return await work
        except PalaverError as error:
            return problem_reply(error, *_more_headers(error))
        except Disconnected:
            raise
        except Exception:
            log.exception("A request failed")
            status, document = problem("internal", "The daemon failed at this request; its log on stderr says how")
            return Reply(status, document)

    def _find(self, method: str, path: str, identity: Identity | None) -> tuple[Route, Mapping[str, str]]:
        """Raises `Refused`: no_token before not_found before method_not_allowed before scope."""
        match: Match = self._router.match(path)
        if identity is None and not match.is_open:
            raise no_token()
        if not match.routes:
            raise Refused("not_found", "There is nothing at this address; /openapi.json lists what there is")
        route = match.routes.get(method)
        if route is None:
            raise _wrong_method(match.routes)
        if route.scope is not None:
            self._check_scope(route, identity)
        return route, match.params

    def _check_scope(self, route: Route, identity: Identity | None) -> None:
        if identity is None:
            raise no_token()
        if route.asks_token and identity.token_id is None:
            raise Refused("scope", "Tokens and settings stay closed without a token, also where none is asked", needed=route.scope)
        require(identity.actor, route.scope or "read")

    def _by_ticket(self, scope: Scope, path: str) -> Identity | None:
        """Tickets open event streams and nothing else."""
        if b"ticket=" not in scope["query_string"] or not path.endswith("/events"):
            return None
        ticket = decode_query(scope["query_string"], AllEventsQuery).ticket
        return None if ticket is None else self.doors.by_ticket(ticket, path)


async def _run(app: Palaver, route: Route, call: Call) -> Reply:
    if route.run is None:
        raise Refused("not_supported", "This address needs a connection of its own: ask for it over HTTP")
    return await route.run(app, call)


def _wrong_method(routes: Mapping[str, Route]) -> Refused:
    allowed = ", ".join(sorted(routes))
    return Refused("method_not_allowed", f"This address takes {allowed}", allow=allowed)


def _more_headers(error: PalaverError) -> tuple[tuple[bytes, bytes], ...]:
    if isinstance(error, Refused) and error.code == "method_not_allowed":
        return ((b"allow", str(error.extra["allow"]).encode("ascii")),)
    if isinstance(error, Refused) and error.code == "too_many":
        return ((b"retry-after", b"60"),)
    return ()


def make_app(
    hub: Hub | None,
    tokens: Tokens,
    *,
    port: int,
    no_token: bool = False,
    default_mode: str = "ask",
    clock: Callable[[], float] = time.time,
) -> Palaver:
    """The application for the socket that listens on `port`. With `no_token` it serves the daemon's own user, where that can be told."""
    same_user = is_our_user if no_token and can_tell else None
    doors = Doors(tokens, clock=clock, no_token=no_token, same_user=same_user)
    return Palaver(hub, doors, port=port, default_mode=default_mode, clock=clock)
