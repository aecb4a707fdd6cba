"""Values that are too big for one line: their largest strings go to files of the session, and keep their first 2 KiB.

The cut value carries its references wherever it goes, so that the whole can always be had: by clients through `data.refs`, by the
model and the tools through `restored`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec

from palaver.wire.values import CallError, FileRef, Message, Part, Refs, ToolResult

LIMIT = 48 * 1024
HEAD = 2048
ALWAYS_FITS = LIMIT // 6
"""Code points that fit whatever they are: JSON needs at most six bytes for one of the basic plane, twelve for the others' pairs."""

Store = Callable[[bytes], Awaitable[FileRef]]
"""Keeps bytes as a file of the session; on disk when it returns."""
Load = Callable[[str], Awaitable[bytes]]
T = TypeVar("T")


def head(text: str) -> str:
    """The first 2 KiB, whole code points."""
    return text.encode()[:HEAD].decode(errors="ignore")


async def cut(value: Any, store: Store, limit: int = LIMIT) -> tuple[Any, Refs | None]:
    """JSON data that fits into `limit` bytes, and where the rest is."""
    size = len(msgspec.json.encode(value))
    if size <= limit:
        return value, None
    refs: Refs = {}
    strings = sorted(_strings(value, ""), key=lambda found: len(found[1]), reverse=True)
    for pointer, text in strings:
        if size <= limit or len(text) <= HEAD:
            break
        kept = head(text)
        refs[pointer] = await store(text.encode())
        value = _set(value, pointer, kept)
        size -= len(msgspec.json.encode(text)) - len(msgspec.json.encode(kept))
    return value, refs or None


async def cut_parts(parts: tuple[Part, ...], prefix: str, store: Store, limit: int = LIMIT) -> tuple[tuple[Part, ...], Refs | None]:
    """Text parts that fit; one that was cut says so and names its file itself."""
    if sum(len(part.text or "") for part in parts) <= min(ALWAYS_FITS, limit // 6):
        return parts, None
    raw, refs = await cut(msgspec.to_builtins(parts), store, limit)
    if refs is None:
        return parts, None
    whole = list(parts)
    for pointer, ref in refs.items():
        index = int(pointer.split("/")[1])
        whole[index] = msgspec.structs.replace(parts[index], text=raw[index]["text"], truncated=True, ref=ref.ref)
    return tuple(whole), {prefix + pointer: ref for pointer, ref in refs.items()}


async def cut_message(message: Message, store: Store, limit: int = LIMIT - 2048) -> tuple[Message, Refs | None]:
    parts, refs = await cut_parts(message.parts, "/parts", store, limit)
    return (message if refs is None else msgspec.structs.replace(message, parts=parts)), refs


async def cut_result(result: ToolResult, store: Store, limit: int = LIMIT - 2048) -> tuple[ToolResult, Refs | None]:
    if result.error is not None and len(result.error.message) > HEAD // 4:  # parts say it whole
        result = msgspec.structs.replace(result, error=CallError(result.error.code, head(result.error.message)))
    parts, refs = await cut_parts(result.parts, "/parts", store, limit)
    return (result if refs is None else msgspec.structs.replace(result, parts=parts, truncated=True)), refs


async def cut_struct(value: T, store: Store, limit: int) -> tuple[T, Refs | None]:
    raw, refs = await cut(msgspec.to_builtins(value), store, limit)
    return (value, None) if refs is None else (msgspec.convert(raw, type(value)), refs)


async def restored(value: Any, refs: Refs | None, load: Load) -> Any:
    """The whole of a cut value."""
    for pointer, ref in (refs or {}).items():
        value = _set(value, pointer, (await load(ref.ref)).decode())
    return value


async def whole_parts(parts: tuple[Part, ...], load: Load) -> tuple[Part, ...]:
    """Text parts with their whole text, for the model."""
    if not any(part.truncated and part.ref for part in parts):
        return parts
    return tuple(
        [
            msgspec.structs.replace(part, text=(await load(part.ref)).decode(), truncated=False, ref=None)
            if part.type == "text" and part.truncated and part.ref
            else part
            for part in parts
        ]
    )


def _strings(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _strings(inner, f"{pointer}/{index}")


def _set(value: Any, pointer: str, text: str) -> Any:
    """A copy in which one string is another."""
    if not pointer:
        return text
    _, step, *_ = pointer.split("/", 2)
    rest = pointer[len(step) + 1 :]
    if isinstance(value, dict):
        key = step.replace("~1", "/").replace("~0", "~")
        return {**value, key: _set(value[key], rest, text)}
    return [_set(inner, rest, text) if index == int(step) else inner for index, inner in enumerate(value)]
