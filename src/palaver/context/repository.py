"""The folders that are worked in, each with its index: brought up to date when somebody asks, and only by what has changed.

Listing is ripgrep's, reading and parsing a process of its own, the search a thread: the event loop waits for none of them.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from palaver.context.bundle import SECRET, Found, bundle
from palaver.context.chunks import Chunk, chunks
from palaver.context.index import MOST_FILES, Index, Known, Look
from palaver.context.rank import ranked
from palaver.context.words import asked
from palaver.errors import ToolFailed
from palaver.tools.base import ToolContext
from palaver.tools.git import git_status
from palaver.tools.git_status import summary
from palaver.tools.listing import Listing, list_files
from palaver.tools.paths import read, spot
from palaver.tools.processes import MARK, run
from palaver.wire.values import Stream

SECONDS = 4.0
"""How long a turn waits for an index: what is not read by then is read the next time, and known by its name until then."""
FEW = 8
"""Files of which nothing needs to be found: the tree names them all."""
_READ = 12
"""Files that excerpts are taken from."""
_LARGEST_READ = 1 << 20


@dataclass
class Repositories:
    """`cache` is a folder of ours: what is in it may be deleted at any time."""

    cache: Path
    seconds: float = SECONDS
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def bundle(self, reach: ToolContext, question: str, room: int) -> str:
        """What the folder holds, as far as the question is about it, in at most `room` tokens. Raises `ToolFailed`."""
        if _is_empty(reach.workspace):
            return ""  # and no program is started to find that out
        listing = await self._listing(reach)
        if not listing.paths:
            return ""
        few = len(listing.paths) <= FEW
        git, best = await asyncio.gather(_git(reach), _nothing() if few else self._ranked(reach, listing, question))
        quoted = [known for known in best[:_READ] if not SECRET.search(known.path)]
        excerpts = await asyncio.to_thread(_excerpts, reach, quoted, asked(question))
        return await asyncio.to_thread(bundle, Found(listing.paths, listing.more, git, best, excerpts), room)

    async def ranked(self, reach: ToolContext, question: str) -> list[Known]:
        """The files that the question is about, the best first; without a question those that define most. Raises `ToolFailed`."""
        return await self._ranked(reach, await self._listing(reach), question)

    async def _listing(self, reach: ToolContext) -> Listing:
        with spot(reach, ".") as place:
            return await list_files(reach, place)

    async def _ranked(self, reach: ToolContext, listing: Listing, question: str) -> list[Known]:
        name = sha256(os.fsencode(os.path.realpath(reach.workspace))).hexdigest()[:32]
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            path = self.cache / f"index-{name}.sqlite"
            changed = await asyncio.to_thread(self._changed, path, reach.workspace, listing.paths[:MOST_FILES])
            if changed:
                await self._read(path, reach, changed)
            return await asyncio.to_thread(_best, path, question)

    def _changed(self, path: Path, workspace: Path, files: Sequence[str]) -> list[tuple[str, Look]]:
        """The files that look different from what is known; those that are gone are forgotten."""
        self.cache.mkdir(mode=0o700, exist_ok=True)
        looks = {file: look for file in files if (look := _look(workspace, file)) is not None}
        index = Index(path)
        try:
            known = index.looks()
            index.forget(known.keys() - looks.keys())
        finally:
            index.close()
        return [(file, look) for file, look in looks.items() if known.get(file) != look]

    async def _read(self, path: Path, reach: ToolContext, changed: list[tuple[str, Look]]) -> None:
        from palaver.context.indexer import Job

        job = Job(str(path), os.path.realpath(reach.workspace), sorted(changed), self.seconds)
        said = bytearray()

        def take(stream: Stream, data: bytes) -> bool:
            said.extend(data)
            return len(said) < 1 << 16

        env = {name: value for name, value in reach.env.items() if name in ("PATH", "TMPDIR", MARK)}
        with tempfile.TemporaryFile() as given:
            given.write(msgspec.msgpack.encode(job))
            given.seek(0)
            command = [sys.executable, "-P", "-m", "palaver.context.indexer"]
            ended = await run(command, folder="/", env=env, sink=take, timeout_s=self.seconds * 3 + 10, stdin=given.fileno())
        if ended.status != 0:
            words = bytes(said[-500:]).decode("utf-8", "replace").strip()
            raise ToolFailed(f"The files of the workspace could not be indexed: {words or ended.why}. Search instead.")


def _is_empty(workspace: Path) -> bool:
    try:
        with os.scandir(workspace) as entries:
            return all(entry.name == ".git" for entry in entries)
    except OSError:
        return False  # whoever lists it says what is wrong


async def _nothing() -> list[Known]:
    return []


async def _git(reach: ToolContext) -> str | None:
    """Git's state in a line. What git cannot say is said by nobody: the files are there all the same."""
    try:
        status = await git_status(reach.workspace, reach.env)
    except ToolFailed as failed:
        return f"Git's state is not known: {failed.message}"
    return summary(status) if status else None


def _look(workspace: Path, file: str) -> Look | None:
    try:
        found = os.lstat(f"{workspace}/{file}")
    except OSError:
        return None  # it went away meanwhile
    return found.st_size, found.st_mtime_ns, found.st_ino


def _best(path: Path, question: str) -> list[Known]:
    index = Index(path)
    try:
        paths = [path for path, _ in ranked(index, question)] if asked(question) else index.largest()
        known = index.known(paths)
        return [known[path] for path in paths if path in known]
    except sqlite3.DatabaseError as error:
        raise ToolFailed(f"The index of the workspace could not be searched: {error}. Use search instead.") from error
    finally:
        index.close()


def _excerpts(reach: ToolContext, files: Sequence[Known], wanted: Sequence[str]) -> list[tuple[str, Chunk]]:
    """Pieces of the best files: the better its file, the more a piece counts."""
    found = list[tuple[float, str, Chunk]]()
    for place, known in enumerate(files):
        try:
            with spot(reach, known.path) as there:
                if there.found is None or there.found.st_size > _LARGEST_READ or there.reach != "workspace":
                    continue
                data = read(there)
        except ToolFailed:
            continue  # it went away, or became something else
        if b"\0" not in data[:8192]:
            pieces = chunks(data.decode("utf-8", "replace"), known.symbols, wanted)[:3]
            found += [(piece.score / (1 + place * 0.35), known.path, piece) for piece in pieces]
    return [(path, piece) for _, path, piece in sorted(found, key=lambda one: (-one[0], one[1], one[2].start))]


__all__ = ["FEW", "SECONDS", "Repositories"]
