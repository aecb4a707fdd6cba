"""A session as one file: JSON for programs, or a page that anybody can open, with everything in it and nothing to load.

The page is put together from what the build left in `static/export/`: `export.js`, one script that shows the transcript it finds in the
element `palaver-export`, and `export.css`. Both run under a policy that names them by their hashes; the JSON in between is data.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from palaver.errors import Refused
from palaver.serve.files import download_name, pieces_of, served_type
from palaver.serve.guard import SAFE_HEADERS, Receive, Scope, Send
from palaver.serve.routes import Call, Outcome, Reply
from palaver.wire import requests as r

if TYPE_CHECKING:
    from palaver.serve.app import Palaver

BUILT = Path(__file__).parent.parent / "static" / "export"
FORMAT = 1
SOCKET_LIMIT = 32 * 1024 * 1024
"""Bytes of an export that fit into one frame of a socket."""
_HEAD = 4096
_EVENTS = 5000
_TYPES = {"json": b"application/json", "html": b"text/html; charset=utf-8"}


class Renderer(NamedTuple):
    script: str
    style: str


async def export_file(app: Palaver, call: Call, scope: Scope, receive: Receive) -> Outcome:
    """What is wrong is known before the file begins."""
    query = call.args(r.ExportQuery)
    session, pieces = await _begun(app, call)
    name = download_name(f"{session.get('title') or call.session_id}.{query.format}")
    return _File(pieces, [(b"content-type", _TYPES[query.format]), (b"content-disposition", name)])


async def export_frame(app: Palaver, call: Call) -> Reply:
    """Over the socket: JSON as it is, a page as a string."""
    _, pieces = await _begun(app, call)
    whole = bytearray()
    async with aclosing(pieces):
        async for piece in pieces:
            whole += piece
            if len(whole) > SOCKET_LIMIT:
                raise Refused("too_large", f"The export is larger than {SOCKET_LIMIT} bytes: fetch it over HTTP")
    return Reply(200, msgspec.Raw(bytes(whole)) if call.args(r.ExportQuery).format == "json" else whole.decode("utf-8"))


async def _begun(app: Palaver, call: Call) -> tuple[Any, AsyncGenerator[bytes, None]]:
    session: Any = await app.hub.get(call.session_id)
    refs = await app.hub.files(call.session_id)
    document = as_json(app, session, refs)
    if call.args(r.ExportQuery).format == "json":
        return session, document
    return session, as_page(await asyncio.to_thread(renderer, BUILT), str(session.get("title") or "Palaver"), document)


@dataclass(frozen=True)
class _File:
    """A file to keep, piece by piece: how long it will be nobody knows before."""

    pieces: AsyncGenerator[bytes, None]
    headers: list[tuple[bytes, bytes]]

    async def __call__(self, receive: Receive, send: Send) -> None:
        policy = (b"content-security-policy", b"sandbox; default-src 'none'")
        async with aclosing(self.pieces):
            await send({"type": "http.response.start", "status": 200, "headers": [*self.headers, policy, *SAFE_HEADERS]})
            async for piece in self.pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


# --- JSON ---------------------------------------------------------------------------------------------------------------------


async def as_json(app: Palaver, session: Any, refs: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """`{format, session, events, files}`: the session as it was when this began, its events up to then, and every file of it."""
    yield b'{"format":%d,"session":%b,"events":[' % (FORMAT, msgspec.json.encode(session))
    after, comma = 0, b""
    while after < session["head_seq"]:
        page = await app.hub.events(session["id"], after, _EVENTS, session["head_seq"])
        yield comma + b",".join(page.lines)
        after, comma = page.next_after, b","
    yield b'],"files":{'
    comma = b""
    for ref in refs:
        async for piece in _file(app, session["id"], ref, comma):
            yield piece
            comma = b","
    yield b"}}"


async def _file(app: Palaver, session_id: str, ref: str, comma: bytes) -> AsyncIterator[bytes]:
    """`ref: {mime_type, data, sha256}`; nothing for one that is being written, or is gone by now."""
    try:
        file = await app.hub.open_file(session_id, ref)
    except Refused:
        return
    digest, left = sha256(), b""
    async with aclosing(pieces_of(file)) as pieces:
        head = await anext(pieces, b"")
        kind = served_type(file.mime_type, file.name, head[:_HEAD])
        yield comma + b'%b:{"mime_type":%b,"data":"' % (msgspec.json.encode(ref), msgspec.json.encode(kind))
        async for piece in _first(head, pieces):
            digest.update(piece)
            left += piece
            whole = len(left) - len(left) % 3
            yield base64.b64encode(left[:whole])
            left = left[whole:]
    yield base64.b64encode(left) + b'","sha256":"%b"}' % digest.hexdigest().encode()


async def _first(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for piece in rest:
        yield piece


# --- the page -----------------------------------------------------------------------------------------------------------------


def renderer(folder: Path) -> Renderer:
    """Raises `Refused("page_not_built")` where the build did not leave it."""
    try:
        return Renderer((folder / "export.js").read_text("utf-8"), (folder / "export.css").read_text("utf-8"))
    except FileNotFoundError as error:
        raise Refused(
            "page_not_built",
            "The page that shows a transcript was not built here. Run `make setup` in the sources (or install a released wheel), or "
            "export with format=json.",
        ) from error


async def as_page(parts: Renderer, title: str, document: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """One HTML file around the JSON, in which no `<` is left, so that nothing in it ends the element."""
    script, style = _inside(parts.script, "script"), _inside(parts.style, "style")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; media-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="root"></div>\n<script type="application/json" id="palaver-export">'
    ).encode()
    async with aclosing(document):
        async for piece in document:
            yield piece.replace(b"<", b"\\u003c")
    yield f"</script>\n<script>{script}</script>\n</body>\n</html>\n".encode()


def _inside(source: str, element: str) -> str:
    """As it may stand in that element: what would end it, or open a comment, stands there escaped, as strings have it anyway."""
    return source.replace(f"</{element}", f"<\\/{element}").replace("<!--", "<\\!--")


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(source.encode()).digest()).decode()}'"


__all__ = ["as_json", "as_page", "export_file", "export_frame", "renderer"]
