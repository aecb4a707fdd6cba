"""What a route is, and how a request finds its own."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from palaver.engine.actor import Actor
from palaver.serve.bodies import decode, decode_query
from palaver.serve.guard import Header, Receive, Scope, Send
from palaver.serve.scopes import ScopeName
from palaver.serve.tokens import Identity

if TYPE_CHECKING:
    from palaver.serve.app import Palaver

T = TypeVar("T")


class Reply(NamedTuple):
    """`body` is anything that msgspec encodes, ready bytes of JSON, or None for no content."""

    status: int
    body: object = None
    headers: tuple[Header, ...] = ()


class Call(NamedTuple):
    """One request as a handler sees it: who, where and what, with nothing decided."""

    identity: Identity
    params: Mapping[str, str]
    query: bytes
    body: bytes
    host: str

    @property
    def actor(self) -> Actor:
        return self.identity.actor

    @property
    def session_id(self) -> str:
        return self.params["session_id"]

    def decode(self, shape: type[T]) -> T:
        return decode(self.body, shape)

    def args(self, shape: type[T]) -> T:
        return decode_query(self.query, shape)


Answering = Callable[[Receive, Send], Awaitable[None]]
"""An answer that writes itself: a file, a stream, a page."""

Outcome = Reply | Answering
Handler = Callable[["Palaver", Call], Awaitable[Reply]]
RawHandler = Callable[["Palaver", Call, Scope, Receive], Awaitable[Outcome]]
"""What refuses does so before it returns: an answer that began can only break off."""


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    scope: ScopeName | None
    """None: open to everyone who passes the guard."""
    run: Handler | None
    """What answers with JSON, over HTTP and over the socket."""
    summary: str
    answers: Mapping[int, Any]
    """The body's struct for each status of success; None for no body."""
    body: Any = None
    query: Any = None
    codes: tuple[str, ...] = ()
    """Refusals of its own, besides those that `openapi` derives from its shape."""
    raw: RawHandler | None = None
    """What needs the connection itself: streams, uploads, files and the page."""
    body_limit: int = 0
    asks_token: bool = False
    """Closed without a token, also where the daemon asks for none."""
    media: str = "application/json"

    @property
    def name(self) -> str:
        """Its `operationId`."""
        handler = self.run or self.raw
        return getattr(handler, "__name__", "")


class Match(NamedTuple):
    routes: Mapping[str, Route]
    """By method; empty where there is nothing at this path."""
    params: Mapping[str, str]

    @property
    def is_open(self) -> bool:
        return any(route.scope is None for route in self.routes.values())


@dataclass
class _Node:
    literals: dict[str, _Node] = field(default_factory=dict)
    param: tuple[str, _Node] | None = None
    routes: dict[str, Route] = field(default_factory=dict)


_NOTHING = Match({}, {})
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_CALL_ID = re.compile(r"[A-Za-z0-9_.:~-]{1,256}")


class Router:
    """A tree of path segments; a literal segment wins over a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def match(self, raw_path: str) -> Match:
        """`raw_path` is as it was sent: a slash that is written `%2F` belongs to its segment."""
        node, params = self._root, dict[str, str]()
        for raw in raw_path.split("/")[1:]:
            segment = _unquoted(raw)
            if segment is None:
                return _NOTHING
            if below := node.literals.get(segment):
                node = below
            elif node.param and _fits(node.param[0], segment):
                params[node.param[0]] = segment
                node = node.param[1]
            else:
                return _NOTHING
        return Match(node.routes, params)

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                name = segment[1:-1]
                if node.param is None:
                    node.param = (name, _Node())
                if node.param[0] != name:
                    raise ValueError(f"{route.path}: this place is called {node.param[0]} elsewhere")
                node = node.param[1]
            else:
                node = node.literals.setdefault(segment, _Node())
        node.routes[route.method] = route


def _unquoted(segment: str) -> str | None:
    if "%" not in segment:
        return segment
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _fits(name: str, segment: str) -> bool:
    """Ids become names of files: what is none is not found, whatever it says."""
    if name == "name":
        return 0 < len(segment) <= 1024 and segment not in (".", "..") and not set(segment) & set("/\0")
    return bool((_CALL_ID if name == "call_id" else _ID).fullmatch(segment))
