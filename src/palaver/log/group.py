"""Group commit: whatever waits when a sync ends is the next group, one write and one sync.

All bookkeeping happens on the event loop. A thread is handed one group, writes it, syncs it and reports back, so nothing here needs a
lock, and a line is safe only after the loop has heard of its sync.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import Future
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

from palaver.errors import DiskFailed
from palaver.log.disk import Disk, disk_failed
from palaver.log.lines import BLOCK, extended
from palaver.log.repair import Ready
from palaver.log.threads import in_thread, patience

THREADS = 6
RECENT = 32_768
"""Bytes of the newest lines that an open log keeps in memory (at most twice that), so that following it live reads no file."""

T = TypeVar("T")


class _Group(NamedTuple):
    """What one write and one sync cover, and who waits for it."""

    log: OpenLog
    lines: list[bytes]
    waiting: list[Future[None]]
    data: bytes
    start: int
    """The byte where it is written, and to which the file is cut back if that fails."""


class _Failure(NamedTuple):
    error: Exception
    read_only: str | None
    """Why the log takes nothing any more; None when the file was cut back."""


class OpenLog:
    """One open file: what is taken, what is safe, and who waits. Everything but `use`'s job runs on the loop."""

    def __init__(self, writers: Writers, ready: Ready) -> None:
        self.fd = ready.fd
        self.head = self.safe = self.recent_after = ready.lines
        """The number of the last line taken; of the last line synced; of the line before `recent`."""
        self.end = ready.end
        """The byte after the last safe line."""
        self.index = ready.entries
        self.recent: list[bytes] = []
        self.checkpointing = asyncio.Lock()
        self.loop = asyncio.get_running_loop()
        self._recent_bytes = 0
        self._read_only = ready.read_only
        self._writers = writers
        self._lines: list[bytes] = []
        self._waiting: list[Future[None]] = []
        self._busy = False
        self._uses: set[Future[None]] = set()

    def append(self, expected_seq: int, lines: Sequence[bytes]) -> Future[None]:
        done: Future[None] = self.loop.create_future()
        if self._read_only is not None:
            done.set_exception(DiskFailed(self._read_only))
        elif expected_seq != self.head:
            done.set_exception(DiskFailed(f"Line {expected_seq} is not the last one ({self.head} is). Go on from there."))
        elif not lines and not self._busy:
            done.set_result(None)
        else:
            self._take(lines, done)
        return done

    def _take(self, lines: Sequence[bytes], done: Future[None]) -> None:
        for line in lines:
            if b"\n" in line:
                raise ValueError("a line of a log cannot hold a line end")
        self.head += len(lines)
        self._lines.extend(lines)
        self._waiting.append(done)
        if not self._busy:
            self._busy = True
            self.loop.call_soon(self._hand_over)  # and not at once: whoever runs in this pass of the loop still joins

    def _hand_over(self) -> None:
        lines, self._lines = self._lines, []
        waiting, self._waiting = self._waiting, []
        if lines:
            self._writers.write(_Group(self, lines, waiting, b"\n".join(lines) + b"\n", self.end))
        else:
            self.written(_Group(self, lines, waiting, b"", self.end), None)  # they only waited for what is safe now

    def written(self, group: _Group, failure: _Failure | None) -> None:
        """A thread is done with this group."""
        if failure is None:
            self._advance(group)
            for done in group.waiting:
                if not done.done():
                    done.set_result(None)
        else:
            self._fall_back(group, failure)
        self._busy = bool(self._waiting)
        if self._busy:
            self.loop.call_soon(self._hand_over)

    def _advance(self, group: _Group) -> None:
        end = self.end + len(group.data)
        if end - self.index[-1].offset > BLOCK:
            self.index.extend(extended(self.index, self.safe, self.end, group.lines))
        self.safe += len(group.lines)
        self.end = end
        self.recent.extend(group.lines)
        self._recent_bytes += len(group.data)
        if self._recent_bytes > 2 * RECENT:
            self._forget()

    def _forget(self) -> None:
        old = 0
        while self._recent_bytes > RECENT:
            self._recent_bytes -= len(self.recent[old]) + 1
            old += 1
        del self.recent[:old]
        self.recent_after += old

    def _fall_back(self, group: _Group, failure: _Failure) -> None:
        failed = [*group.waiting, *self._waiting]
        self._lines, self._waiting = [], []
        self.head = self.safe
        self._read_only = failure.read_only
        for done in failed:
            if not done.done():
                done.set_exception(failure.error)

    async def use(self, job: Callable[[], T]) -> T:
        """Run `job` in a thread; the file stays open until it is done, also when the caller is cancelled."""
        use: Future[None] = self.loop.create_future()
        self._uses.add(use)
        try:
            return await in_thread(job)
        finally:
            self._uses.discard(use)
            use.set_result(None)

    async def settled(self) -> None:
        """Nothing waits and no thread uses the file. What failed meanwhile was told to whoever appended it."""
        while self._busy or self._uses:
            last = self.append(self.head, ())
            await asyncio.wait((last, *self._uses))
            last.exception()


class Writers:
    """A few threads that write and sync groups, one group at a time each. They start when they are needed."""

    def __init__(self, disk: Disk, reached: Callable[[str], None]) -> None:
        self._disk = disk
        self._reached = reached
        self._due: SimpleQueue[_Group | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0

    def write(self, group: _Group) -> None:
        self._unfinished += 1
        patience().begun()
        if self._unfinished > len(self._threads) < THREADS:
            # a daemon thread: a disk that hangs must not keep the process from ending, and nothing unsynced was promised
            thread = threading.Thread(target=self._run, name=f"log-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._due.put(group)

    def end(self) -> None:
        for _ in self._threads:
            self._due.put(None)

    def _run(self) -> None:
        while (group := self._due.get()) is not None:
            failure = self._write(group)
            try:
                group.log.loop.call_soon_threadsafe(self._hear, group, failure)
            except RuntimeError:
                return  # the loop has ended: nobody is left to hear of it

    def _hear(self, group: _Group, failure: _Failure | None) -> None:
        self._unfinished -= 1
        patience().ended()
        group.log.written(group, failure)

    def _write(self, group: _Group) -> _Failure | None:
        fd = group.log.fd
        try:
            self._disk.write_at(fd, group.data, group.start)
            self._reached("log.written")
            self._disk.sync(fd)
            self._reached("log.synced")
        except OSError as error:
            return _Failure(disk_failed("The log could not be written", error), self._cut_back(group))
        except Exception as bug:  # must reach those who wait, and rise from there
            return _Failure(bug, self._cut_back(group))
        return None

    def _cut_back(self, group: _Group) -> str | None:
        """Leave the file as it was. The next sync covers the cut: until then a crash can bring back lines that nobody was promised."""
        fd = group.log.fd
        try:
            self._disk.truncate(fd, group.start)
        except OSError as error:
            with suppress(OSError):
                if self._disk.size(fd) == group.start:
                    return None  # nothing was written, as where a disk has become read-only: there is nothing to undo
            return f"A failed write to the log could not be undone ({error.strerror or error}). Check the disk, then open the log again."
        return None
