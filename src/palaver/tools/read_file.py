"""`read_file`: the lines of a text file with their numbers, or an image."""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from typing import Annotated

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools.arguments import Arguments, arguments, refuse, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.output import SHOWN
from palaver.tools.paths import plain, read, spot
from palaver.wire.values import Location, Part, ToolCall, ToolResult

_LINES = 2_000
_LINE = 2_000
_LARGEST_IMAGE = 5 * 1024 * 1024
_LOOKED_AT = 8_192


class ReadFileArguments(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(min_length=1, description="The file, relative to the workspace; or the ref of an artifact or attachment.")]
    start_line: Annotated[int, Meta(ge=1, description="First line, from 1.")] | None = None
    end_line: Annotated[int, Meta(ge=1, description="Last line.")] | None = None


class ReadFile:
    """Reads one file of the workspace, a part of it when it is long."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "read_file",
            f"Read a file. Each line comes as its number, a tab and its text; at most {_LINES} lines or {SHOWN} characters at a time. "
            "Images are shown.",
            schema_of(ReadFileArguments),
            ToolKind.READ,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        asked = _arguments(call)
        with spot(context, asked.path, only_look=True) as place:
            label, path = place.label, plain(place.path)
        return Description(title=_title(label, asked), locations=(Location(label, asked.start_line),), reads=(path,))

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        asked = _arguments(call)
        label, data = await asyncio.to_thread(_read, context, asked.path)
        kind = image_type(data)
        if kind is not None:
            return await _image(context, call, label, data, kind)
        text, cut = show_lines(label, data, asked.start_line, asked.end_line)
        return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text=text),), truncated=cut)


def _arguments(call: ToolCall) -> ReadFileArguments:
    asked = arguments(call, ReadFileArguments)
    if asked.start_line is not None and asked.end_line is not None and asked.end_line < asked.start_line:
        raise refuse("read_file: end_line is before start_line. Swap them.")
    return asked


def _title(label: str, asked: ReadFileArguments) -> str:
    if asked.start_line is None and asked.end_line is None:
        return f"Read {label}"
    return f"Read {label}, lines {asked.start_line or 1}–{asked.end_line or 'end'}"


def _read(context: ToolContext, path: str) -> tuple[str, bytes]:
    with spot(context, path) as place:
        return place.label, read(place)


def image_type(data: bytes) -> str | None:
    """The type of an image that models take, told by its first bytes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


async def _image(context: ToolContext, call: ToolCall, label: str, data: bytes, kind: str) -> ToolResult:
    if len(data) > _LARGEST_IMAGE:
        raise ToolFailed(f"{label} is an image of {len(data)} bytes; a model takes {_LARGEST_IMAGE}. Make it smaller first.")
    ref = await context.artifact(f"{call.id}.{kind.removeprefix('image/')}", data, kind)
    parts = (
        Part(type="text", text=f"{label}: an image, {len(data)} bytes."),
        Part(type="image", ref=ref, mime_type=kind, name=PurePath(label).name),
    )
    return ToolResult(id=call.id, ok=True, parts=parts, artifacts=(ref,))


def show_lines(label: str, data: bytes, start: int | None, end: int | None) -> tuple[str, bool]:
    """The lines asked for, numbered, and whether some of those asked for are missing."""
    if b"\0" in data[:_LOOKED_AT]:
        return f"{label}: binary file, {len(data)} bytes.", False
    if not data:
        return f"{label} is empty.", False
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")  # on LF alone: U+2028 or a form feed ends no line of code
    if not lines[-1]:
        lines.pop()
    first = start or 1
    if first > len(lines):
        raise ToolFailed(f"{label} has {len(lines)} lines, so none from {first}. Ask for an earlier start_line.")
    wanted = lines[first - 1 : end]
    shown = _numbered(wanted, first)
    last = first + len(shown) - 1
    notes = []
    if len(shown) < len(wanted):
        notes.append(f"lines {first}–{last} of {len(lines)}; read on with start_line {last + 1}")
    elif last < len(lines) or first > 1:
        notes.append(f"lines {first}–{last} of {len(lines)}")
    if wanted[0].endswith(b"\r"):
        notes.append("lines end with CRLF")
    if "�" in "".join(shown):
        notes.append("bytes that are not UTF-8 are shown as �")
    note = f"\n[{'; '.join(notes)}]" if notes else ""
    return "\n".join(shown) + note, len(shown) < len(wanted)


def _numbered(lines: list[bytes], first: int) -> list[str]:
    """As many as fit, one at least."""
    shown: list[str] = []
    room = SHOWN
    for number, line in enumerate(lines[:_LINES], first):
        row = f"{number:>6}\t{_cut(line)}"
        room -= len(row) + 1
        if room < 0 and shown:
            break
        shown.append(row)
    return shown


def _cut(line: bytes) -> str:
    text = line.removesuffix(b"\r").decode("utf-8", "replace")
    return text if len(text) <= _LINE else f"{text[:_LINE]} [… {len(text) - _LINE} characters more in this line]"


__all__ = ["ReadFile", "ReadFileArguments", "image_type", "show_lines"]
