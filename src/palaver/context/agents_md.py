"""AGENTS.md of the workspace: the one at its root always, those below it once something in their folder was touched.

They are read anew for each turn, opened as every file of the workspace is: never through a link that leads out. Where two of them
disagree the nearest one wins, and the model is told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import PurePosixPath

from palaver.errors import ToolFailed
from palaver.tools.base import ToolContext
from palaver.tools.paths import read, spot

NAME = "AGENTS.md"
LONGEST = 24_000
"""Characters of one file that a model is told."""
_DEEPEST = 32


class AgentsFiles:
    """Those of one workspace, as they were when they were first looked for in this turn. Reads in a thread."""

    def __init__(self, reach: ToolContext) -> None:
        self._reach = reach
        self._found: dict[str, str] = {}
        """Text by folder; empty where there is none."""

    async def told(self, touched: Iterable[str]) -> str:
        """The root's and those above the touched paths, outermost first; nothing where there is none."""
        folders = dict.fromkeys([".", *(folder for path in touched for folder in _folders_above(path))])
        if missing := [folder for folder in folders if folder not in self._found]:
            self._found |= await asyncio.to_thread(lambda: {folder: _read(self._reach, folder) for folder in missing})
        there = [(folder, self._found[folder]) for folder in folders if self._found[folder]]
        return "\n\n".join(_section(folder, text) for folder, text in sorted(there, key=lambda one: (one[0] != ".", one[0])))


def _folders_above(path: str) -> list[str]:
    """The folders between the workspace and this path, the path itself too since it may be one; none for what lies outside."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        return []
    return ["/".join(parts[: depth + 1]) for depth in range(min(len(parts), _DEEPEST))]


def _read(reach: ToolContext, folder: str) -> str:
    """What stands in a folder's AGENTS.md; nothing where none can be read."""
    try:
        with spot(reach, NAME if folder == "." else f"{folder}/{NAME}") as place:
            data = read(place) if place.found is not None and place.reach == "workspace" else b""
    except ToolFailed:
        return ""  # a folder of that name, a pipe, a link that leads out: it instructs nobody
    if b"\0" in data:
        return ""
    text = data.decode("utf-8", "replace").strip()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[… {len(text) - LONGEST} characters more: read the file]"


def _section(folder: str, text: str) -> str:
    if folder == ".":
        return f"# {NAME} of the workspace\n\n{text}"
    return f"# {folder}/{NAME}: for files below {folder}/, where it goes before those above it\n\n{text}"


__all__ = ["LONGEST", "NAME", "AgentsFiles"]
