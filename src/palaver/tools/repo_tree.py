"""`repo_tree`: the files of the workspace as a tree, a few levels deep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools.arguments import Arguments, arguments, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.listing import list_files
from palaver.tools.paths import check_file, plain, spot
from palaver.wire.values import Location, Part, ToolCall, ToolResult

_LINES = 600
_DEPTH = 3


class RepoTreeArguments(Arguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(min_length=1, description="Folder, relative to the workspace.")] = "."
    depth: Annotated[int, Meta(ge=1, le=32, description=f"Levels shown; {_DEPTH} unless given.")] = _DEPTH


class RepoTree:
    """Shows what there is. What .gitignore leaves out is not there."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "repo_tree",
            "List the files of a folder as a tree. Folders below `depth` are shown with the number of their files. What .gitignore names "
            "is left out.",
            schema_of(RepoTreeArguments),
            ToolKind.READ,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        asked = arguments(call, RepoTreeArguments)
        with spot(context, asked.path, only_look=True) as place:
            label, path = place.label, plain(place.path)
        return Description(title=f"List {'the workspace' if label == '.' else label}", locations=(Location(label),), reads=(path,))

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        asked = arguments(call, RepoTreeArguments)
        with spot(context, asked.path) as place:
            if not place.is_folder:
                check_file(place)
                raise ToolFailed(f"{place.label} is a file. Use read_file, or name a folder.")
            listing, label = await list_files(context, place), place.label
        text, cut = tree_text(grown(listing.paths), asked.depth)
        notes = []
        if not listing.paths:
            text = f"{label} has no files, or .gitignore leaves all of them out."
        if cut:
            notes.append(f"{cut} lines more: name a folder, or a smaller depth")
        if listing.more:
            notes.append(f"only the first {len(listing.paths)} files were looked at")
        note = f"\n[{'; '.join(notes)}]" if notes else ""
        part = Part(type="text", text=text + note)
        return ToolResult(id=call.id, ok=True, parts=(part,), truncated=bool(cut) or listing.more)


@dataclass
class Folder:
    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    count: int = 0
    """Of the files below it, at any depth."""


def tree_text(root: Folder, depth: int, most: int = _LINES) -> tuple[str, int]:
    """The tree, folders first, and how many of its lines were left out."""
    lines = list(_lines(root, depth, ""))
    return "\n".join(lines[:most]), max(0, len(lines) - most)


def grown(paths: Iterable[str]) -> Folder:
    """The tree of these paths."""
    root = Folder()
    for path in paths:
        *folders, name = path.split("/")
        here = root
        here.count += 1
        for folder in folders:
            here = here.folders.setdefault(folder, Folder())
            here.count += 1
        here.files.append(name)
    return root


def _lines(folder: Folder, depth: int, indent: str) -> Iterator[str]:
    for name, below in sorted(folder.folders.items()):
        while not below.files and len(below.folders) == 1 and depth > 1:  # a chain of single folders is one line
            [(inner, below)] = below.folders.items()
            name = f"{name}/{inner}"
        if depth > 1:
            yield f"{indent}{plain(name)}/"
            yield from _lines(below, depth - 1, indent + "  ")
        else:
            yield f"{indent}{plain(name)}/ ({below.count} file{'' if below.count == 1 else 's'})"
    for name in sorted(folder.files):
        yield f"{indent}{plain(name)}"


__all__ = ["Folder", "RepoTree", "RepoTreeArguments", "grown", "tree_text"]
