"""Bytes from outside as structs: what is no JSON, and what has the wrong shape, is refused here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from palaver.errors import Invalid, Refused
from palaver.serve.guard import Receive

T = TypeVar("T")

JSON_LIMIT = 4 * 1024 * 1024
BASE64_LIMIT = 34 * 1024 * 1024
NESTING = 64
_DRAINED = 64 * 1024 * 1024
"""How much of a body that is too large is read and thrown away, so that its sender gets to see the answer."""

_NUL_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(.+)`")
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def decode(body: bytes, shape: type[T]) -> T:
    """The body as a struct; no body counts as `{}`. Raises `Refused("bad_json")`, or `Invalid` with the path of what is wrong."""
    body = body or b"{}"
    _check(body)
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise _invalid(error) from error
    except (ValueError, RecursionError) as error:
        raise Refused("bad_json", f"The body is not JSON: {error}") from error


def decode_query(query: bytes, shape: type[T]) -> T:
    """The query string as a struct. Raises `Invalid`."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        fields: dict[str, Any] = {name: value for name, value in pairs if "\0" not in value}
        if len(fields) < len(dict(pairs)):
            raise Invalid("The query holds a NUL character: leave it out")
        return msgspec.convert(fields, shape, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from error
    except ValueError as error:
        raise Invalid(f"The query cannot be read: {error}") from error


def _check(body: bytes) -> None:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused("bad_json", f"The body is not UTF-8: byte {error.start} is not part of a character") from error
    if b"\\u0000" in body and _NUL_ESCAPE.search(body):
        raise Refused("bad_json", "The body holds a NUL character (\\u0000): leave it out")
    if too_deep(body):
        raise Refused("bad_json", f"The body is nested deeper than {NESTING} levels, or its brackets do not match")


def too_deep(body: bytes) -> bool:
    """Whether objects and arrays stand more than `NESTING` deep, in time that grows with the length of the body only.

    Each pass takes away the innermost pairs of brackets; what is left after `NESTING` passes is deeper, or does not match.
    """
    if body.count(b"[") + body.count(b"{") <= NESTING:
        return False
    brackets = _STRING.sub(b"", body).translate(None, _ALL_BUT_BRACKETS)
    for _ in range(NESTING):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if not brackets:
            return False
    return True


def _invalid(error: msgspec.ValidationError) -> Invalid:
    """msgspec's words: what is wrong, then where. A field that is missing or unknown is itself the place."""
    message, _, place = str(error).partition(" - at `")
    path = place.removesuffix("`").removeprefix("$")
    if field := _FIELD.fullmatch(message):
        path = f"{path}.{field[1]}"
    return Invalid(message, path=path.removeprefix("."))


class Disconnected(Exception):
    """The client went away in the middle of its request: nobody is there to answer."""


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole body. Raises `Refused("too_large")`."""
    return b"".join([piece async for piece in body_pieces(receive, limit)])


async def body_pieces(receive: Receive, limit: int) -> AsyncIterator[bytes]:
    """The body as it comes. Raises `Refused("too_large")` once more than `limit` came, after the rest was thrown away."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        more = message.get("more_body", False)
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            if piece:
                yield piece
        elif size > _DRAINED:
            break
    if size > limit:
        raise Refused("too_large", f"The body is larger than {limit} bytes: send less, or a file as an attachment")
