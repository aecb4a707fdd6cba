"""Files that come in and go out: uploads read piece by piece, and answers that no browser will run."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from palaver.errors import Invalid, Refused
from palaver.serve.guard import SAFE_HEADERS, Header, Receive, Scope, Send, media_type, values
from palaver.serve.seam import OpenedFile

UPLOAD_LIMIT = 25 * 1024 * 1024 + 64 * 1024
"""25 MiB of file and what multipart wraps around it."""

_PIECE = 256 * 1024
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")
_AUDIO = re.compile(r"audio/[a-z0-9][a-z0-9.+-]*")
_BY_NAME = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "oga": "audio/ogg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "aac": "audio/aac",
    "m4a": "audio/mp4",
    "weba": "audio/webm",
}
_BY_HEAD = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"....ftypavi[fs]", re.DOTALL), "image/avif"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"OggS"), "audio/ogg"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"ID3"), "audio/mpeg"),
)
_HEAD = 4096


def served_type(mime_type: str, name: str, head: bytes) -> str:
    """What a stored file is served as: pictures and sound as such, everything else as text or as bytes.

    What was said at the upload counts, then the name's ending, then how the file begins. None of them makes a browser run anything.
    """
    said = mime_type.partition(";")[0].strip().lower()
    by_name = _BY_NAME.get(name.rpartition(".")[2].lower(), "")
    by_head = next((kind for pattern, kind in _BY_HEAD if pattern.match(head)), "")
    for kind in (said, by_name, by_head):
        if kind in _IMAGES or _AUDIO.fullmatch(kind):
            return kind
    return "text/plain; charset=utf-8" if _is_text(head) else "application/octet-stream"


def _is_text(head: bytes) -> bool:
    """UTF-8 without NUL, as far as it was read; a character may be cut at the end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head[:_HEAD])
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def safe_name(name: str) -> str:
    """A name without path, control, bidi and other invisible characters."""
    kept = "".join(char for char in name if unicodedata.category(char)[0] != "C" and char not in '/\\:"<>|?*\u2028\u2029')
    return kept.strip(". ")[:200] or "file"


def file_headers(file: OpenedFile, head: bytes) -> list[Header]:
    return [
        (b"content-type", served_type(file.mime_type, file.name, head).encode("ascii")),
        (b"content-length", str(file.size).encode("ascii")),
        (b"content-disposition", download_name(file.name)),
        (b"content-security-policy", b"sandbox; default-src 'none'"),
    ]


def download_name(name: str) -> bytes:
    """What a browser keeps a file as."""
    name = safe_name(name)
    plain = name.encode("ascii", "replace").decode("ascii").replace("?", "_")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}".encode("ascii")


async def pieces_of(file: OpenedFile) -> AsyncGenerator[bytes, None]:
    """The file's bytes, as many as its size says; the event loop never waits for the disk."""
    descriptor = await asyncio.to_thread(os.open, file.path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        left = file.size
        while left and (piece := await asyncio.to_thread(os.read, descriptor, min(left, _PIECE))):
            left -= len(piece)
            yield piece
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class FileAnswer:
    """A stored file, piece by piece."""

    file: OpenedFile

    async def __call__(self, receive: Receive, send: Send) -> None:
        async with aclosing(pieces_of(self.file)) as pieces:
            head = await anext(pieces, b"")
            headers = [*file_headers(self.file, head[:_HEAD]), *SAFE_HEADERS]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": head, "more_body": True})
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def text_of(file: OpenedFile, limit: int) -> str:
    """The whole file as a string. Raises `Refused`: `too_large`, or `not_text` for one that only HTTP can give."""
    if file.size > limit:
        raise Refused("too_large", f"The file is larger than {limit} bytes: fetch it over HTTP")
    try:
        return b"".join([piece async for piece in pieces_of(file)]).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused("not_text", "The file is not text: fetch it over HTTP") from error


class Upload(NamedTuple):
    name: str
    mime_type: str
    pieces: AsyncIterator[bytes]


def form_type(scope: Scope) -> str | None:
    """The content type of a form with its boundary; None for JSON."""
    headers = scope["headers"]
    return values(headers, b"content-type")[0] if media_type(headers) == "multipart/form-data" else None


async def read_multipart(content_type: str, body: AsyncIterator[bytes]) -> Upload:
    """The one part named `file`; its bytes are read as they come. Raises `Invalid` where there is none."""
    upload = _Multipart(content_type)
    async for piece in body:
        upload.feed(piece)
        if upload.found:
            return Upload(upload.name, upload.mime_type, upload.rest(body))
    raise Invalid("The form has no file part named `file`", path="file")


async def one_piece(data: bytes) -> AsyncIterator[bytes]:
    yield data


class _Multipart:
    """Collects what the parser calls back with; only the first part named `file` is kept."""

    def __init__(self, content_type: str) -> None:
        from python_multipart.multipart import MultipartParser, parse_options_header

        self._options = parse_options_header
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary or len(boundary) > 200:
            raise Invalid("The content type multipart/form-data names no boundary")
        self.found = False
        self.name = "file"
        self.mime_type = "application/octet-stream"
        self._inside = False
        self._ended = False
        self._field = b""
        self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._data = bytearray()
        self._parser: Any = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
        )

    def feed(self, piece: bytes) -> None:
        from python_multipart.exceptions import FormParserError

        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise Invalid(f"The multipart body cannot be read: {error}") from error

    async def rest(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The file's bytes, to the end of the body: an upload that breaks off is refused, not kept."""
        while True:
            if self._data:
                taken, self._data = bytes(self._data), bytearray()
                yield taken
            piece = await anext(body, None)
            if piece is None:
                break
            self.feed(piece)
        if not self._ended:
            raise Invalid("The multipart body ends before its last boundary: send it again")

    def _begin(self) -> None:
        self._headers = {}

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        if len(self._value) > 8192:
            raise Refused("too_large", "A header inside the multipart body is larger than 8 KiB")

    def _header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _headers_finished(self) -> None:
        options = self._options(self._headers.get(b"content-disposition", b""))[1]
        if self.found or options.get(b"name") != b"file":
            return
        self.found = self._inside = True
        self.name = options.get(b"filename", b"file").decode("utf-8", "replace")
        self.mime_type = self._headers.get(b"content-type", b"application/octet-stream").decode("latin-1")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._data += data[start:end]

    def _part_end(self) -> None:
        self._inside = False

    def _end(self) -> None:
        self._ended = True
