"""`repo_map`: the files that a question is about, or that define most, with what each of them defines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

from msgspec import Meta

from palaver.tools.arguments import Arguments, arguments, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.output import SHOWN
from palaver.tools.paths import plain, real_workspace
from palaver.wire.values import Location, Part, ToolCall, ToolResult

_FILES = 30
_SYMBOLS = 40


class Mapped(Protocol):
    """A file with its definitions: name, first line, last line, depth, signature."""

    @property
    def path(self) -> str: ...

    @property
    def lines(self) -> int: ...

    @property
    def symbols(self) -> Sequence[tuple[str, int, int, int, str]]: ...


class Maps(Protocol):
    """Knows what the files of a workspace define."""

    async def ranked(self, reach: ToolContext, question: str) -> Sequence[Mapped]: ...


class RepoMapArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(description="What is looked for: words, or names of the code.")] | None = None


class RepoMap:
    """Shows where things are defined."""

    def __init__(self, maps: Maps) -> None:
        self._maps = maps

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "repo_map",
            "List the files that a query is about, the likeliest first, with the functions and classes that each defines and their lines. "
            "Without a query: the files that define most.",
            schema_of(RepoMapArguments),
            ToolKind.READ,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        asked = arguments(call, RepoMapArguments)
        about = f" about {asked.query[:80]}" if asked.query else ""
        return Description(title=f"Map the workspace{about}", locations=(Location("."),), reads=(plain(real_workspace(context)),))

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        asked = arguments(call, RepoMapArguments)
        found = (await self._maps.ranked(context, asked.query or ""))[:_FILES]
        if not found:
            what = (
                f"Nothing in the workspace is about {asked.query!r}. Use other words, or search." if asked.query else "There are no files."
            )
            return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text=what),))
        text, cut = _told(found)
        return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text=text),), truncated=cut)


def _told(found: Sequence[Mapped]) -> tuple[str, bool]:
    told, size = list[str](), 0
    for file in found:
        shown = file.symbols if len(file.symbols) <= _SYMBOLS else [symbol for symbol in file.symbols if symbol[3] < 2][:_SYMBOLS]
        rows = [f"{plain(file.path)} ({file.lines} lines)", *(f"{symbol[1]:>6}: {'  ' * symbol[3]}{symbol[4]}" for symbol in shown)]
        if len(shown) < len(file.symbols):
            rows.append(f"        [{len(file.symbols) - len(shown)} definitions more]")
        size += sum(map(len, rows)) + len(rows)
        if size > SHOWN and told:
            return "\n".join([*told, f"[{len(found) - len(told)} files more: ask with a query]"]), True
        told.append("\n".join(rows))
    return "\n".join(told), False


__all__ = ["Maps", "RepoMap", "RepoMapArguments"]
