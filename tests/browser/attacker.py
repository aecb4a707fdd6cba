"""The servers of a hostile site, and one that does not defend itself, which shows that the site's attempts are worth something."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from browser_wire import Request, answer

ATTACKS = Path(__file__).with_name("attacks.js").read_text(encoding="utf-8")
PAGE = "<!doctype html><meta charset=utf-8><title>A page</title><link rel=icon href=data:,><body><script src=/attacks.js></script>"

PICTURE = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
CODE = "window.loot = 'the script ran';"

# Ports that nothing listens on: the wire plays who is there.
ATTACKER = 6111
DEFENCELESS = 6222
REBOUND = "evil.example"
"""A name whose owner served a page at the daemon's own port, and then pointed it to this machine."""

_OPEN = (
    "Access-Control-Allow-Origin: *",
    "Access-Control-Allow-Headers: authorization, content-type",
    "Access-Control-Allow-Methods: GET, POST, DELETE",
)


def attacker(request: Request) -> bytes | None:
    """The hostile site: at its own port under every name, and at every port under the name that was pointed here later."""
    if request.port != ATTACKER and not (
        request.host.startswith(f"{REBOUND}:") and request.path in ("/attack", "/attacks.js", "/redirect")
    ):
        return None
    if request.path == "/attacks.js":
        return answer(200, "text/javascript", ATTACKS)
    if request.path == "/redirect":
        return answer(307, "text/plain", "", f"Location: {request.asked('to')}")
    if request.path == "/link":
        return answer(200, "text/html", f"<!doctype html><a id=link href='{request.asked('to')}'>look at this</a>")
    return answer(200, "text/html", PAGE)


def defenceless(request: Request) -> bytes | None:
    """A server with a daemon's addresses that answers everybody everything."""
    if request.port != DEFENCELESS:
        return None
    if key := request.headers.get("sec-websocket-key"):
        return _greeting(key)
    if request.path.endswith(".png"):
        return answer(200, "image/png", PICTURE, *_OPEN)
    if request.path.endswith(".js"):
        return answer(200, "text/javascript", CODE, *_OPEN)
    if request.path.endswith(".css"):
        return answer(200, "text/css", "body { color: red }", *_OPEN)
    if request.path.endswith("/events"):
        return answer(200, "text/event-stream", "data: an event\n\n", *_OPEN)
    if request.path.startswith("/s/"):
        return answer(200, "text/html", "<!doctype html><title>A page</title>")
    return answer(200, "application/json", '{"secret": true}', *_OPEN)


def _greeting(key: str) -> bytes:
    """The upgrade to a WebSocket and its first message."""
    accepted = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()
    lines = ["HTTP/1.1 101 Played", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accepted}", "", ""]
    return "\r\n".join(lines).encode() + b"\x81\x05hello"
