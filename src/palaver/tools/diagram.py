"""`diagram`: a drawing as text. The source becomes an artifact; DOT is drawn as SVG too, where Graphviz is installed."""

from __future__ import annotations

import os
import re
import tempfile
from typing import Annotated, Literal

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools.arguments import Arguments, arguments, refuse, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.environment import find_program
from palaver.tools.processes import Ended, run
from palaver.wire.events import ArtifactAdded
from palaver.wire.values import Part, Preview, Stream, ToolCall, ToolResult

_LARGEST_SOURCE = 256 * 1024
_LARGEST_SVG = 4 * 1024 * 1024
_TIMEOUT_S = 20.0
_NAMES_FILES = re.compile(r"\b(image|imagepath|shapefile|fontpath|stylesheet)\s*=|<\s*img\b", re.IGNORECASE)
"""What makes `dot` open a file that the source names."""
_ENDINGS = {"mermaid": ("mmd", "text/vnd.mermaid"), "dot": ("dot", "text/vnd.graphviz")}


class DiagramArguments(Arguments, frozen=True, kw_only=True):
    source: Annotated[str, Meta(min_length=1, description="The diagram in its language, without a code fence.")]
    format: Annotated[Literal["mermaid", "dot"], Meta(description="The language.")]


class Diagram:
    """Keeps a diagram for the person to look at. It touches nothing of the workspace."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "diagram",
            "Keep a diagram for the person to look at: Mermaid, or Graphviz DOT.",
            schema_of(DiagramArguments),
            ToolKind.EXEC,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        asked = _arguments(call)
        drawn = " and draw it with dot" if asked.format == "dot" else ""
        return Description(title=f"Keep a {asked.format} diagram{drawn}", preview=Preview(command=asked.source))

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        asked = _arguments(call)
        ending, mime_type = _ENDINGS[asked.format]
        svg, note = await _drawn(context, asked) if asked.format == "dot" else (None, "")
        refs = [await _kept(context, call, f"diagram.{ending}", asked.source.encode(), mime_type)]
        if svg is not None:
            refs.append(await _kept(context, call, "diagram.svg", svg, "image/svg+xml"))
        text = f"The diagram is kept as {' and '.join(refs)}.{note}"
        return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text=text),), artifacts=tuple(refs))


def _arguments(call: ToolCall) -> DiagramArguments:
    asked = arguments(call, DiagramArguments)
    size = len(asked.source.encode())
    if not asked.source.strip():
        raise refuse("diagram: the source is blank. Send the diagram's text.")
    if asked.source.lstrip().startswith("```"):
        raise refuse("diagram: the source stands in a code fence. Send it without the lines of ```.")
    if size > _LARGEST_SOURCE:
        raise refuse(f"diagram: the source has {size} bytes, more than {_LARGEST_SOURCE}. Draw less of it at a time.")
    return asked


async def _kept(context: ToolContext, call: ToolCall, name: str, data: bytes, mime_type: str) -> str:
    ref = await context.artifact(name, data, mime_type)
    context.note(ArtifactAdded(ref=ref, mime_type=mime_type, size=len(data), tool_call_id=call.id))
    return ref


async def _drawn(context: ToolContext, asked: DiagramArguments) -> tuple[bytes | None, str]:
    """The SVG, or why there is none. Raises `ToolFailed` for DOT that `dot` cannot read."""
    if (names := _NAMES_FILES.search(asked.source)) is not None:
        return None, f" It was not drawn: {names[0].strip()!r} makes dot open files. Leave it out to have it drawn."
    try:
        program = find_program("dot", context.env.get("PATH", os.defpath), context.workspace)
    except ToolFailed:
        return None, " It was not drawn, since Graphviz is not installed here."
    taken = _Taken()
    with tempfile.TemporaryFile() as source, tempfile.TemporaryDirectory(prefix="palaver-dot-") as empty:
        source.write(asked.source.encode())
        source.seek(0)
        ended = await run([program, "-Tsvg"], folder=empty, env=context.env, sink=taken.take, timeout_s=_TIMEOUT_S, stdin=source.fileno())
    return _svg(taken, ended), ""


def _svg(taken: _Taken, ended: Ended) -> bytes:
    if ended.why == "timeout":
        raise ToolFailed(f"dot took longer than {_TIMEOUT_S:g} s. Draw fewer nodes and edges.", code="tool_timeout")
    if ended.why != "exited":
        raise ToolFailed(f"The drawing is larger than {_LARGEST_SVG} bytes. Draw fewer nodes and edges.")
    if ended.status != 0:
        said = taken.errors.decode("utf-8", "replace").strip() or f"it ended with {ended.status}"
        raise ToolFailed(f"dot cannot read this: {said[:1_000]}. Correct the source.")
    return bytes(taken.svg)


class _Taken:
    def __init__(self) -> None:
        self.svg = bytearray()
        self.errors = b""

    def take(self, stream: Stream, data: bytes) -> bool:
        if stream == "stderr":
            self.errors = (self.errors + data)[:4_000]
            return True
        self.svg += data
        return len(self.svg) <= _LARGEST_SVG


__all__ = ["Diagram", "DiagramArguments"]
