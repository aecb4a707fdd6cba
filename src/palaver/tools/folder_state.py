"""What a folder's files look like from outside, so that a change to any of them shows: size, time and mode, never content."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from palaver.tools.base import Look, ToolContext

MAX_FILES = 50_000
"""Beyond these a change is not seen: a folder of that size is looked at in part rather than for minutes."""
SKIPPED = frozenset((".git", "node_modules", ".venv", "__pycache__"))
"""What tools keep for themselves: it changes without anybody's work having changed."""

FolderState = Mapping[bytes, tuple[int, int, int]]
"""Size, time of change in nanoseconds and mode, by path below the folder."""


def look(folder: Path, most: int = MAX_FILES) -> FolderState:
    """Blocks on the disk: call it in a thread. What cannot be read is not there."""
    state = dict[bytes, tuple[int, int, int]]()
    for path, found in _files(os.fsencode(folder)):
        if len(state) == most:
            break
        state[path] = (found.st_size, found.st_mtime_ns, found.st_mode)
    return state


def hash_of(state: FolderState) -> str:
    total = sha256()
    for path, facts in sorted(state.items()):
        total.update(b"%d %d %d %d " % (len(path), *facts) + path)
    return total.hexdigest()


async def look_at(context: ToolContext) -> Look:
    """How a workspace is now: by content where that is kept track of, else by what its files look like."""
    if context.look is not None:
        return await context.look()
    return await asyncio.to_thread(look_from_outside, context.workspace)


def look_from_outside(folder: Path) -> Look:
    state = look(folder)
    return Look(hash_of(state), {os.fsdecode(path): facts for path, facts in state.items()})


def changed(before: Look, after: Look) -> list[str]:
    """The paths that came, went or are different, in order."""
    return sorted(path for path in before.files.keys() | after.files.keys() if before.files.get(path) != after.files.get(path))


def _files(folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Everything below that is no folder, in an order that depends on names alone; no link is followed."""
    waiting = [b""]
    while waiting:
        below = waiting.pop()
        folders = []
        for entry in _entries(os.path.join(folder, below)):
            path = os.path.join(below, entry.name)
            try:
                if not entry.is_dir(follow_symlinks=False):
                    yield path, entry.stat(follow_symlinks=False)
                elif os.fsdecode(entry.name) not in SKIPPED:
                    folders.append(path)
            except OSError:
                continue  # it went away meanwhile
        waiting += reversed(folders)


def _entries(folder: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []  # it went away, or is closed to us


__all__ = ["MAX_FILES", "SKIPPED", "FolderState", "changed", "hash_of", "look", "look_at", "look_from_outside"]
