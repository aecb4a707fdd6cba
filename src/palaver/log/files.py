"""The log as files: `<root>/<key>/events.ndjson`, one event per line, appended and never rewritten.

Beside it stand `checkpoint`, which makes opening cheap, and `torn-<n>`, what a crash left half written. How lines become safe is in
`group.py`, what opening repairs in `repair.py`, how a line is found in `lines.py`.
"""

from __future__ import annotations

import asyncio
import re
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from palaver.errors import Refused
from palaver.log import Checkpoint, Opened, checkpoint
from palaver.log.disk import Disk, disk_failed, nothing, replace_file
from palaver.log.group import OpenLog, Writers
from palaver.log.lines import Entry, find_line, read_lines
from palaver.log.repair import CHECKPOINT_NAME, make_ready
from palaver.log.threads import in_thread

_KEY = re.compile(r"(sessions|workspaces)/[A-Za-z0-9][A-Za-z0-9_-]*")


class FileLog:
    """Implements `Log`, from one event loop. Every call but `open` and `close` is for a log that is open.

    `reached` hears, from a thread, of each point between two effects on the disk: `log.written`, `log.synced`, `checkpoint.written`,
    `checkpoint.renamed`.
    """

    def __init__(self, root: Path, disk: Disk | None = None, *, reached: Callable[[str], None] = nothing) -> None:
        self._root = root
        self._disk = disk or Disk()
        self._reached = reached
        self._writers = Writers(self._disk, reached)
        self._logs: dict[str, OpenLog] = {}
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self, key: str, *, create: bool = False) -> Opened:
        """As `Log.open`; a log that is open already is closed and opened again. Raises `DiskFailed`."""
        if not _KEY.fullmatch(key):
            raise Refused("not_found", f"There is no log {key!r}.")
        async with self._one_at_a_time(key):
            await self._let_go(key)
            try:
                ready = await in_thread(partial(make_ready, self._disk, self._root / key, create=create))
            except FileNotFoundError as error:
                raise Refused("not_found", f"There is no log {key!r}.") from error
            except OSError as error:
                raise disk_failed(f"{self._root / key} could not be opened", error) from error
            self._logs[key] = OpenLog(self._writers, ready)
        kept = ready.kept and Checkpoint(ready.kept.seq, ready.kept.data)
        return Opened(ready.lines, kept, ready.cut_bytes, ready.read_only, ready.newer)

    def append(self, key: str, expected_seq: int, lines: Sequence[bytes]) -> Future[None]:
        """As `Log.append`. Lines wait for one pass of the loop and the sync that is running; nothing lingers beyond that."""
        return self._logs[key].append(expected_seq, lines)

    async def read(self, key: str, after: int, *, up_to: int | None = None, limit: int = 262_144) -> list[bytes]:
        """As `Log.read`; the newest lines come from memory. Raises `DiskFailed`."""
        log = self._logs.get(key)
        if log is None:  # closed meanwhile: its session was deleted
            raise Refused("not_found", f"There is no log {key!r}.")
        last = log.safe if up_to is None else min(up_to, log.safe)
        if after >= last:
            return []
        if after >= log.recent_after:
            return _about(log.recent[after - log.recent_after : last - log.recent_after], limit)
        try:
            return await log.use(partial(read_lines, self._disk, log.fd, log.index, log.end, after, last, limit))
        except OSError as error:
            raise disk_failed(f"{self._root / key} could not be read", error) from error

    async def save_checkpoint(self, key: str, seq: int, data: bytes) -> None:
        """As `Log.save_checkpoint`. Raises `DiskFailed`, and the checkpoint before stays."""
        log = self._logs[key]
        if not 1 <= seq <= log.safe:
            raise ValueError(f"a checkpoint of line {seq} of {key}, which has {log.safe} safe lines")
        async with log.checkpointing:
            try:
                await log.use(partial(self._save, self._root / key, log.fd, list(log.index), log.end, seq, data))
            except OSError as error:
                raise disk_failed(f"The checkpoint of {key} could not be kept", error) from error

    async def close(self, key: str) -> None:
        async with self._one_at_a_time(key):
            await self._let_go(key)

    async def shut(self) -> None:
        """Close every log and end the threads."""
        for key in list(self._logs):
            await self.close(key)
        self._writers.end()

    def _save(self, folder: Path, fd: int, index: list[Entry], end: int, seq: int, data: bytes) -> None:
        offset, line = find_line(self._disk, fd, index, end, seq)
        content = checkpoint.to_bytes(seq, offset, line, index, data)
        replace_file(self._disk, folder / CHECKPOINT_NAME, content, reached=self._reached)

    def _one_at_a_time(self, key: str) -> asyncio.Lock:
        return self._opening.setdefault(key, asyncio.Lock())

    async def _let_go(self, key: str) -> None:
        if log := self._logs.get(key):
            await log.settled()
            del self._logs[key]
            self._disk.close(log.fd)


def _about(lines: list[bytes], limit: int) -> list[bytes]:
    """The first lines, until they have `limit` bytes: one at least."""
    length = 0
    for number, line in enumerate(lines, 1):
        length += len(line) + 1
        if length >= limit:
            return lines[:number]
    return lines
