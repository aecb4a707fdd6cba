"""Disks that break, for whoever must show that a promise holds: real files below, real `OSError`s above.

`LossyDisk` loses every write, name and removal that no sync covered, `FailingDisk` refuses calls by name, `CountingDisk` counts what is
read. Each is a `Disk` and is handed to what shall stand on it.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from palaver.log.disk import Disk


class CountingDisk(Disk):
    """Counts the bytes that are read and the calls that change something."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.calls: Counter[str] = Counter()

    def read_at(self, fd: int, length: int, offset: int) -> bytes:
        block = super().read_at(fd, length, offset)
        self.read_bytes += len(block)
        return block

    def write_at(self, fd: int, data: bytes, offset: int) -> None:
        self.calls["write_at"] += 1
        super().write_at(fd, data, offset)

    def sync(self, fd: int) -> None:
        self.calls["sync"] += 1
        super().sync(fd)


class FailingDisk(Disk):
    """Fails the calls that `fail` names. A write that fails has written half of its bytes, as a full disk does."""

    def __init__(self) -> None:
        self._failing: dict[str, tuple[int, int]] = {}

    def fail(self, call: str, *, times: int = 1_000_000, code: int = errno.ENOSPC) -> None:
        self._failing[call] = (times, code)

    def heal(self) -> None:
        self._failing.clear()

    def _check(self, call: str) -> None:
        times, code = self._failing.get(call, (0, 0))
        if times:
            self._failing[call] = (times - 1, code)
            raise OSError(code, os.strerror(code))

    def create(self, path: Path) -> int:
        self._check("create")
        return super().create(path)

    def open(self, path: Path, *, write: bool) -> int:
        if write:
            self._check("open")
        return super().open(path, write=write)

    def write_at(self, fd: int, data: bytes, offset: int) -> None:
        try:
            self._check("write_at")
        except OSError:
            super().write_at(fd, data[: len(data) // 2], offset)
            raise
        super().write_at(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        self._check("truncate")
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._check("sync")
        super().sync(fd)

    def sync_folder(self, path: Path) -> None:
        self._check("sync_folder")
        super().sync_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename")
        super().rename(source, target)

    def make_folder(self, path: Path) -> None:
        self._check("make_folder")
        super().make_folder(path)

    def link(self, source: Path, target: Path) -> None:
        self._check("link")
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        self._check("unlink")
        super().unlink(path)


class _Undo(NamedTuple):
    """How to take back one change, and what makes it last: the sync of this inode's data or of this folder's names."""

    synced_by: int | Path
    undo: Callable[[], None]


class LossyDisk(Disk):
    """Loses, when the power goes, what no sync covered. Keeps an undo of every change until a sync covers it.

    The power goes at `lose()`, or by itself at the change number `lose_at` (from 1), before that change is made. From then on every
    call fails, and the files are as a power cut leaves them: open them with another disk. With `torn` that share of each
    file's oldest lost write is on the medium all the same.
    """

    def __init__(self, graveyard: Path, *, lose_at: int | None = None, torn: float = 0.0) -> None:
        graveyard.mkdir(parents=True, exist_ok=True)
        self.lost = False
        self.changes = 0
        self._graveyard = graveyard
        self._lose_at = lose_at
        self._torn = torn
        self._undos: list[_Undo] = []
        self._tears: dict[int, Callable[[], None]] = {}
        self._descriptors: dict[int, int] = {}
        self._names = itertools.count()
        self._lock = threading.RLock()

    def goes_at(self, change: int | None) -> None:
        """At that change, counted from 1, the power goes."""
        self._lose_at = change

    def lose(self) -> None:
        """The power goes now."""
        with self._lock:
            if not self.lost:
                self.lost = True
                for change in reversed(self._undos):
                    change.undo()
                for tear in self._tears.values():
                    tear()
                for fd in self._descriptors.values():
                    os.close(fd)

    def _change(self) -> None:
        self._alive()
        self.changes += 1
        if self.changes == self._lose_at:
            self.lose()
            self._alive()

    def _alive(self) -> None:
        if self.lost:
            raise OSError(errno.EIO, "the power is off")

    def _kept(self, fd: int) -> tuple[int, int]:
        """The inode, and a descriptor of it that stays open until the power goes."""
        inode = os.fstat(fd).st_ino
        if inode not in self._descriptors:
            self._descriptors[inode] = os.dup(fd)
        return inode, self._descriptors[inode]

    # --- data ---------------------------------------------------------------------------------------------------------------------

    def open(self, path: Path, *, write: bool) -> int:
        with self._lock:
            self._alive()
            return super().open(path, write=write)

    def read_at(self, fd: int, length: int, offset: int) -> bytes:
        with self._lock:
            self._alive()
            return super().read_at(fd, length, offset)

    def write_at(self, fd: int, data: bytes, offset: int) -> None:
        with self._lock:
            self._change()
            inode, kept = self._kept(fd)
            size, old = os.fstat(fd).st_size, os.pread(fd, len(data), offset)
            super().write_at(fd, data, offset)

            def undo() -> None:
                os.pwrite(kept, old, offset)
                os.ftruncate(kept, size)

            self._undos.append(_Undo(inode, undo))
            if self._torn:
                part = data[: int(len(data) * self._torn)]
                self._tears.setdefault(inode, lambda: _write_if_named(kept, part, offset))

    def truncate(self, fd: int, size: int) -> None:
        with self._lock:
            self._change()
            inode, kept = self._kept(fd)
            before = os.fstat(fd).st_size
            tail = os.pread(fd, max(0, before - size), size)
            super().truncate(fd, size)

            def undo() -> None:
                os.ftruncate(kept, before)
                os.pwrite(kept, tail, size)

            self._undos.append(_Undo(inode, undo))

    def sync(self, fd: int) -> None:
        with self._lock:
            self._change()
            inode = os.fstat(fd).st_ino
            self._undos = [change for change in self._undos if change.synced_by != inode]
            self._tears.pop(inode, None)

    # --- names --------------------------------------------------------------------------------------------------------------------

    def create(self, path: Path) -> int:
        with self._lock:
            self._change()
            fd = super().create(path)
            self._undos.append(_Undo(path.parent, lambda: path.unlink(missing_ok=True)))
            return fd

    def make_folder(self, path: Path) -> None:
        with self._lock:
            self._change()
            super().make_folder(path)
            self._undos.append(_Undo(path.parent, lambda: shutil.rmtree(path)))

    def rename(self, source: Path, target: Path) -> None:
        with self._lock:
            self._change()
            buried = self._bury(target) if target.is_file() else None
            super().rename(source, target)

            def undo() -> None:
                os.rename(target, source)
                if buried is not None:
                    os.link(buried, target)

            self._undos.append(_Undo(target.parent, undo))

    def link(self, source: Path, target: Path) -> None:
        with self._lock:
            self._change()
            super().link(source, target)
            self._undos.append(_Undo(target.parent, target.unlink))

    def unlink(self, path: Path) -> None:
        with self._lock:
            if not path.exists():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._change()
            buried = self._bury(path)
            super().unlink(path)
            self._undos.append(_Undo(path.parent, lambda: os.link(buried, path)))

    def sync_folder(self, path: Path) -> None:
        with self._lock:
            self._change()
            self._undos = [change for change in self._undos if change.synced_by != path]

    def _bury(self, path: Path) -> Path:
        """A second name, from which an unsynced removal can be taken back."""
        buried = self._graveyard / str(next(self._names))
        os.link(path, buried)
        return buried


def _write_if_named(fd: int, data: bytes, offset: int) -> None:
    if os.fstat(fd).st_nlink:
        os.pwrite(fd, data, offset)
