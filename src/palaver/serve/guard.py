"""The guard: what every request must be before anything looks at it, for HTTP and for the WebSocket upgrade.

A page in the browser can send requests here from any site, and a name of its own can point here. So:

- exactly one Host header, and it is our own address (421);
- Origin is absent or our own (403), fetch metadata say that our own page or nobody's asks (403): but a link to the page may be followed;
- a write with a body says that it is JSON (415), which no page of another site can say without asking first.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import msgspec

from palaver.errors import Refused
from palaver.serve.problems import problem_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

HEADER_LIMIT = 64 * 1024
ATTACHMENTS = re.compile(r"/v1/sessions/[^/]+/attachments")

SAFE_HEADERS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Every answer carries them."""


class Guard:
    """Wraps the whole application; nothing of a refused request reaches it."""

    def __init__(self, app: App, *, port: int) -> None:
        self._app = app
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        if port == 80:
            self._hosts |= {"127.0.0.1", "localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self.check(scope)
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        await self._app(scope, receive, send)

    def check(self, scope: Scope) -> None:
        """Raises `Refused`: host, origin, content_type or headers_too_large."""
        headers: list[Header] = scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) > HEADER_LIMIT:
            raise Refused("headers_too_large", "The headers are larger than 64 KiB: send fewer or shorter ones")
        host = self._check_host(headers)
        self._check_origin(headers, host)
        self._check_fetch(scope, headers)
        if scope["type"] == "http":
            _check_content_type(scope, headers)

    def _check_host(self, headers: list[Header]) -> str:
        hosts = values(headers, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise Refused(
                "host", f"This daemon answers at {' and '.join(sorted(self._hosts))} only, not at {', '.join(hosts) or 'no host'}"
            )
        return hosts[0].lower()

    def _check_origin(self, headers: list[Header], host: str) -> None:
        origins = values(headers, b"origin")
        if origins and origins != [f"http://{host}"]:
            raise Refused("origin", "A page of another origin sent this request; only Palaver's own page may")

    def _check_fetch(self, scope: Scope, headers: list[Header]) -> None:
        sites = values(headers, b"sec-fetch-site")
        if not sites or sites in (["same-origin"], ["none"]):
            return
        follows_link = (
            scope["type"] == "http"
            and scope["method"] == "GET"
            and values(headers, b"sec-fetch-mode") == ["navigate"]
            and values(headers, b"sec-fetch-dest") == ["document"]
            and (scope["path"] == "/" or scope["path"].startswith("/s/"))
        )
        if not follows_link:
            raise Refused("origin", "Another site sent this request; only Palaver's own page may, though a link to it may be followed")


def values(headers: Iterable[Header], name: bytes) -> list[str]:
    """What a header says, once for each time that it came."""
    return [value.decode("latin-1").strip() for key, value in headers if key == name]


def has_body(headers: Iterable[Header]) -> bool:
    headers = list(headers)
    return bool(values(headers, b"transfer-encoding")) or any(length != "0" for length in values(headers, b"content-length"))


def media_type(headers: Iterable[Header]) -> str:
    """The one content type, without its parameters, in small letters; empty where there is none or more than one."""
    types = values(headers, b"content-type")
    return types[0].partition(";")[0].strip().lower() if len(types) == 1 else ""


def _check_content_type(scope: Scope, headers: list[Header]) -> None:
    if scope["method"] in ("GET", "HEAD", "OPTIONS") or not has_body(headers):
        return
    given = media_type(headers)
    uploads = scope["method"] == "POST" and ATTACHMENTS.fullmatch(scope["path"]) is not None
    if given == "application/json" or (uploads and given == "multipart/form-data"):
        return
    raise Refused("content_type", f"Send `Content-Type: application/json`; this came as {given or 'nothing that can be read'}")


async def refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """A problem document, or for a WebSocket the same as the answer to its upgrade."""
    status, document = problem_of(refused)
    body = msgspec.json.encode(document)
    prefix = "websocket.http" if scope["type"] == "websocket" else "http"
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode()), *SAFE_HEADERS]
    await send({"type": f"{prefix}.response.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": body})
