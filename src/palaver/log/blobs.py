"""Big values as files of a session: attachments that came in, artifacts that came out. An event names them by `ref` and hash.

A file is written and synced, its folder too, before anyone learns its `ref`; so the line that names it can never be without it.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from palaver.errors import Refused, ToolFailed
from palaver.log.disk import Disk, disk_failed, make_folders, read_file, replace_file
from palaver.log.folders import DataFolder
from palaver.log.threads import in_thread

GROWING_LIMIT = 64 * 1024 * 1024
NAME_BYTES = 120
ENDING_BYTES = 16

_REF = re.compile(r"(attachments|artifacts/[A-Za-z0-9][A-Za-z0-9_-]*)/([^/\0]+)")
_PLACE = re.compile(r"attachments|artifacts/[A-Za-z0-9][A-Za-z0-9_-]*")
_FORBIDDEN = re.compile(r'[:*?"<>|]')
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.ENAMETOOLONG, errno.ENXIO)


class Stored(NamedTuple):
    ref: str
    """`attachments/<name>` or `artifacts/<turn_id>/<name>`."""
    size: int
    sha256: str


class Blobs:
    """The files of every session in one data folder."""

    def __init__(self, folder: DataFolder, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()

    async def put(self, session_id: str, place: str, name: str, data: bytes | AsyncIterator[bytes], *, limit: int | None = None) -> Stored:
        """Keep `data` in `place` ("attachments" or "artifacts/<turn_id>") under a safe name that nothing else has.

        Raises `Refused("too_large")` beyond `limit` bytes, and `DiskFailed`; nothing stays behind then.
        """
        file = await self._new(session_id, place, name)
        stored = None
        try:
            async for block in _blocks(data):
                if limit is not None and file.size + len(block) > limit:
                    raise Refused("too_large", f"{name!r} has more than {limit} bytes. Send a smaller file.")
                await file.write(block)
            stored = await file.finish()
        finally:
            await file.close(discard=stored is None)
        return stored

    async def grow(self, session_id: str, turn_id: str, name: str, *, limit: int = GROWING_LIMIT) -> Growing:
        """A new artifact of this turn that takes a call's output as it comes."""
        return Growing(await self._new(session_id, f"artifacts/{turn_id}", name), limit)

    def open_blob(self, session_id: str, ref: str) -> BinaryIO:
        """The file behind `ref`, to be closed by the caller. Raises `Refused("not_found")`: no `../`, link or pipe leads anywhere."""
        match = _REF.fullmatch(ref)
        if match is None or match[2] in (".", ".."):
            raise _missing(ref)
        try:
            return os.fdopen(_open_below(self._folder.session_folder(session_id), ref.split("/")), "rb")
        except UnicodeEncodeError as error:
            raise _missing(ref) from error
        except OSError as error:
            if error.errno in _NOT_THERE:
                raise _missing(ref) from error
            raise disk_failed(f"{ref} could not be opened", error) from error

    async def read_blob(self, session_id: str, ref: str) -> bytes:
        """The whole file. Raises as `open_blob`."""
        return await in_thread(partial(self._read, session_id, ref))

    async def list_blobs(self, session_id: str, place: str) -> list[tuple[str, int]]:
        """Each ref in `place` ("attachments", "artifacts", "artifacts/<turn_id>") with its size, by name."""
        return await in_thread(partial(self._list, session_id, place))

    async def copy(self, session_id: str, ref: str, to_session: str) -> None:
        """Give another session the same file under the same `ref`: a second name where the disk can do that, else a copy."""
        self.open_blob(session_id, ref).close()
        source, target = self._folder.session_folder(session_id), self._folder.session_folder(to_session)
        try:
            await in_thread(partial(self._copy, source / ref, target, ref))
        except OSError as error:
            raise disk_failed(f"{ref} could not be copied", error) from error

    async def _new(self, session_id: str, place: str, name: str) -> _NewFile:
        if not _PLACE.fullmatch(place):
            raise ValueError(f"no place for files: {place!r}")
        session = self._folder.session_folder(session_id)
        try:
            folder = await in_thread(partial(_make_place, self._disk, session, place))
            return await in_thread(partial(_NewFile.create, self._disk, folder, place, safe_name(name)))
        except FileNotFoundError as error:
            raise Refused("not_found", f"There is no session {session_id!r}.") from error
        except OSError as error:
            raise disk_failed(f"{name!r} could not be stored", error) from error

    def _read(self, session_id: str, ref: str) -> bytes:
        with self.open_blob(session_id, ref) as file:
            return file.read()

    def _list(self, session_id: str, place: str) -> list[tuple[str, int]]:
        session = self._folder.session_folder(session_id)
        files = sorted(path for path in (session / place).rglob("*") if path.is_file() and not path.is_symlink())
        return [(path.relative_to(session).as_posix(), path.stat().st_size) for path in files]

    def _copy(self, source: Path, session: Path, ref: str) -> None:
        place, _, name = ref.rpartition("/")
        target = _make_place(self._disk, session, place) / name
        try:
            self._disk.link(source, target)
        except FileExistsError:
            return  # copied before
        except OSError:  # a disk without second names, or too many of them: copy, and let that say what is wrong
            replace_file(self._disk, target, read_file(self._disk, source))
        self._disk.sync_folder(target.parent)


class Growing:
    """An artifact that grows while its call runs. `write` never waits; `finish` does, for all of it."""

    def __init__(self, file: _NewFile, limit: int) -> None:
        self._file = file
        self._limit = limit
        self._taken = 0
        self._waiting: list[bytes] = []
        self._drain: asyncio.Future[None] | None = None

    @property
    def ref(self) -> str:
        return self._file.ref

    def write(self, data: bytes) -> None:
        """Take `data`. Raises `ToolFailed` beyond the limit and `DiskFailed` when an earlier piece could not be written."""
        if self._taken + len(data) > self._limit:
            raise ToolFailed(f"The call's output passed {self._limit} bytes. Write less, or into a file of the workspace.")
        if self._drain is not None and self._drain.done():
            self._drain.result()  # a drain that went well has left its place
        self._taken += len(data)
        self._waiting.append(data)
        if self._drain is None:
            self._drain = asyncio.ensure_future(self._write_waiting())

    async def finish(self) -> Stored:
        """All that was taken is on disk, its name too. Called once, also after a failure. Raises `DiskFailed`."""
        try:
            if self._drain is not None:
                await asyncio.shield(self._drain)
            return await self._file.finish()
        finally:
            await self._file.close()

    async def _write_waiting(self) -> None:
        while self._waiting:
            blocks, self._waiting = self._waiting, []
            await self._file.write(b"".join(blocks))
        self._drain = None


class _NewFile:
    """A file that is being written, in threads, one call after the other."""

    def __init__(self, disk: Disk, fd: int, path: Path, ref: str) -> None:
        self.ref = ref
        self.size = 0
        self._disk = disk
        self._fd: int | None = fd
        self._path = path
        self._hash = hashlib.sha256()

    @classmethod
    def create(cls, disk: Disk, folder: Path, place: str, name: str) -> _NewFile:
        path, fd = _create_unique(disk, folder, name)
        return cls(disk, fd, path, f"{place}/{path.name}")

    async def write(self, data: bytes) -> None:
        await self._do(lambda fd: self._write(fd, data))

    async def finish(self) -> Stored:
        """Synced, and its folder too. Call `close` after it."""
        await self._do(self._sync)
        return Stored(self.ref, self.size, self._hash.hexdigest())

    async def close(self, *, discard: bool = False) -> None:
        """Let go of it; with `discard` it never was."""
        await self._do(lambda fd: self._close(fd, discard))

    async def _do(self, step: Callable[[int], None]) -> None:
        if self._fd is None:
            raise ValueError(f"{self.ref} is closed")
        try:
            await in_thread(partial(step, self._fd))
        except OSError as error:
            raise disk_failed(f"{self.ref} could not be written", error) from error

    def _write(self, fd: int, data: bytes) -> None:
        self._disk.write_at(fd, data, self.size)
        self._hash.update(data)
        self.size += len(data)

    def _sync(self, fd: int) -> None:
        self._disk.sync(fd)
        self._disk.sync_folder(self._path.parent)

    def _close(self, fd: int, discard: bool) -> None:
        self._fd = None
        self._disk.close(fd)
        if discard:
            self._disk.unlink(self._path)


def safe_name(name: str) -> str:
    """What a file may be called: the last part of a path, without control, bidi, invisible and path characters; never empty or hidden.

    At most 120 bytes of UTF-8; a short ending such as `.png` survives the cut.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    visible = "".join(char for char in last if unicodedata.category(char) not in _HIDDEN)
    stem, dot, ending = _FORBIDDEN.sub("_", visible).strip(" .").rpartition(".")
    if not dot or len(ending.encode()) > ENDING_BYTES:
        stem, dot, ending = stem + dot + ending, "", ""
    room = NAME_BYTES - len((dot + ending).encode())
    return (stem.encode()[:room].decode(errors="ignore").strip(" .") or "file") + dot + ending


def _names(name: str) -> Iterator[str]:
    """The name, then the name with a number before its ending."""
    path = PurePath(name)
    return chain([name], (f"{path.stem}-{number}{path.suffix}" for number in count(2)))


def _create_unique(disk: Disk, folder: Path, name: str) -> tuple[Path, int]:
    for candidate in _names(name):
        with suppress(FileExistsError):
            return folder / candidate, disk.create(folder / candidate)
    raise AssertionError("numbers do not run out")


def _make_place(disk: Disk, session: Path, place: str) -> Path:
    """The folder for files in an existing session. Raises `FileNotFoundError` when there is no such session."""
    if not session.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(session))
    make_folders(disk, session / place)
    return session / place


async def _blocks(data: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(data, bytes):
        yield data
    else:
        async for block in data:
            yield block


def _open_below(folder: Path, names: Sequence[str]) -> int:
    """A descriptor of a plain file below `folder`, found name by name and never through a link. Raises `OSError`."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names[:-1]:
        at = _step(at, name, os.O_DIRECTORY)
    fd = _step(at, names[-1], os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "is no plain file", names[-1])
    return fd


def _step(at: int, name: str, flags: int) -> int:
    """Open `name` in the folder `at`, which is closed."""
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=at)
    finally:
        os.close(at)


def _missing(ref: str) -> Refused:
    return Refused("not_found", f"This session has no file {ref!r}.")
