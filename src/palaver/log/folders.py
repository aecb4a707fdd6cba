"""The data folder: its layout, its lock, and which sessions may have something open.

Everything in it is for one person: folders 0700, files 0600, and nothing that another user owns or can write is believed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from palaver.errors import Refused
from palaver.log.disk import FILE_MODE, FOLDER_MODE, Disk, disk_failed, make_folders, nothing, read_file, replace_file
from palaver.log.threads import in_thread

_TRASH = ".trash-"
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_WORKSPACE = re.compile(r"[0-9a-f]{32}")


def check_private(path: Path, *, uid: int | None = None) -> None:
    """Raise `Refused("unsafe_folder")` when another user owns `path` or can write to it; what is not there is safe.

    A link is judged by what it leads to.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    if found.st_uid != (os.getuid() if uid is None else uid):
        raise Refused(
            "unsafe_folder", f"{path} belongs to another user. Make it yours (sudo chown $(id -u) {path}) or name another folder."
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refused("unsafe_folder", f"{path} can be written by other users. Run: chmod go-w {path}")


class Lock:
    """The right to write to a data folder. It falls free when it is released or its process ends, however that ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        os.ftruncate(self._fd, 0)
        fcntl.flock(self._fd, fcntl.LOCK_UN)  # closing alone would leave it to a child that is just being started
        os.close(self._fd)


def _locked(fd: int) -> bool:
    """Take the lock and write our pid into the file; False and closed while someone else has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return False
    os.fchmod(fd, FILE_MODE)
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return True


class DataFolder:
    """`<data>` as `DESIGN.md` 4 lays it out. Markers and session files are used from one event loop.

    `reached` hears of `open.marked`, `session.written`, `session.renamed`, `local.written` and `local.renamed`.
    """

    def __init__(self, root: Path, disk: Disk | None = None, *, reached: Callable[[str], None] = nothing) -> None:
        self.root = root
        self.sessions = root / "sessions"
        self._workspaces = root / "workspaces"
        self._open = root / "open"
        self._disk = disk or Disk()
        self._reached = reached
        self._marked: dict[str, asyncio.Future[None]] = {}
        self._writing: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    def prepare(self, *, uid: int | None = None) -> None:
        """Make the folders that are missing. Raises `Refused("unsafe_folder")` for what others could have put here, and `DiskFailed`."""
        check_private(self.root, uid=uid)
        try:
            for folder in (self.root, self.sessions, self._workspaces, self._open):
                make_folders(self._disk, folder)
            for entry in self.root.iterdir():
                check_private(entry, uid=uid)
            self.root.chmod(FOLDER_MODE)  # one that others could look into was made by hand
        except OSError as error:
            raise disk_failed(f"The data folder {self.root} could not be made ready", error) from error

    def lock(self) -> Lock | None:
        """The only lock on this folder, or None while another process has it: `holder` is its pid. Raises `DiskFailed`."""
        path = self.root / "lock"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
            try:
                return Lock(fd) if _locked(fd) else None
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            raise disk_failed(f"{path} could not be locked", error) from error

    def holder(self) -> int | None:
        """The pid that the lock names. It means something only while `lock` gives None; None: its process is just starting or ending."""
        try:
            return int((self.root / "lock").read_text())
        except (FileNotFoundError, ValueError):
            return None

    # --- which sessions may have something open -----------------------------------------------------------------------------------

    async def mark_open(self, session_id: str) -> None:
        """Something may be open in this session, and a start will find it: on disk when this returns. Raises `DiskFailed`."""
        if session_id not in self._marked:
            self._marked[session_id] = asyncio.ensure_future(self._mark(session_id))
        await asyncio.shield(self._marked[session_id])

    def clear_open(self, session_id: str) -> None:
        """Nothing is open there any more. Not synced: a marker that comes back after a crash only costs a look. Raises `DiskFailed`."""
        self._marked.pop(session_id, None)
        try:
            self._disk.unlink(self._open / session_id)
        except FileNotFoundError:
            pass  # never marked, which is what was asked for
        except OSError as error:
            raise disk_failed(f"The marker of {session_id} could not be removed", error) from error

    def open_sessions(self) -> list[str]:
        """The sessions that a start must look at, oldest first."""
        return sorted(entry.name for entry in self._open.iterdir() if _SESSION_ID.fullmatch(entry.name))

    async def _mark(self, session_id: str) -> None:
        path = self._open / session_id
        try:
            # made here and not in the thread, so that a `clear_open` that comes later cannot overtake it
            if not path.exists():
                self._disk.close(self._disk.create(path))
            await in_thread(partial(self._disk.sync_folder, self._open))
        except OSError as error:
            self._marked.pop(session_id, None)
            raise disk_failed(f"{session_id} could not be marked as open", error) from error
        self._reached("open.marked")

    # --- sessions -----------------------------------------------------------------------------------------------------------------

    def session_folder(self, session_id: str) -> Path:
        """Where this session's files are. Raises `Refused("not_found")` for what is no session's name."""
        if not _SESSION_ID.fullmatch(session_id):
            raise Refused("not_found", f"There is no session {session_id!r}.")
        return self.sessions / session_id

    def session_ids(self) -> Iterator[str]:
        """Every session that is there. Costs a look at each, so nothing that a start waits for may use it."""
        with os.scandir(self.sessions) as entries:
            yield from (entry.name for entry in entries if _SESSION_ID.fullmatch(entry.name))

    def workspace_names(self) -> list[str]:
        """The names of the logs of every folder that was used. Costs a look at the folder, so no start may use it."""
        return sorted(entry.name for entry in self._workspaces.iterdir() if _WORKSPACE.fullmatch(entry.name))

    async def write_session_json(self, session_id: str, data: bytes, *, durable: bool = True) -> None:
        """Replace `session.json`. The durable one comes first and makes the folder if need be; without `durable` it is a cache that a
        power cut may empty, and nothing is written for a session that was removed meanwhile.
        """
        await self._replace(self.session_folder(session_id) / "session.json", data, durable=durable, make=durable)

    async def write_local_json(self, session_id: str, data: bytes) -> None:
        """Replace `local.json`: draft and read mark."""
        await self._replace(self.session_folder(session_id) / "local.json", data, durable=True, make=False)

    def read_session_json(self, session_id: str) -> bytes | None:
        return self._read(self.session_folder(session_id) / "session.json")

    def read_local_json(self, session_id: str) -> bytes | None:
        return self._read(self.session_folder(session_id) / "local.json")

    async def remove_session(self, session_id: str) -> None:
        """Take the folder to a name that no start reads: gone for good when this returns. `empty_trash` then gives back its room."""
        folder = self.session_folder(session_id)
        try:
            await in_thread(partial(self._rename_away, folder))
        except FileNotFoundError as error:
            raise Refused("not_found", f"There is no session {session_id!r}.") from error
        except OSError as error:
            raise disk_failed(f"{session_id} could not be removed", error) from error

    async def empty_trash(self) -> None:
        """Delete what `remove_session` left, in this run or before. Blocks nobody; what cannot be deleted waits for the next start."""
        await asyncio.to_thread(self._empty_trash)

    def _rename_away(self, folder: Path) -> None:
        self._disk.rename(folder, folder.with_name(_TRASH + folder.name))
        self._disk.sync_folder(self.sessions)

    def _empty_trash(self) -> None:
        for entry in list(self.sessions.glob(f"{_TRASH}*")):
            shutil.rmtree(entry, ignore_errors=True)

    async def _replace(self, path: Path, data: bytes, *, durable: bool, make: bool) -> None:
        lock = self._writing.setdefault(path, asyncio.Lock())
        async with lock:  # in the order of the calls: the newest stays
            try:
                await in_thread(partial(self._replace_now, path, data, durable=durable, make=make))
            except FileNotFoundError:
                return  # the session was removed meanwhile
            except OSError as error:
                raise disk_failed(f"{path} could not be written", error) from error

    def _replace_now(self, path: Path, data: bytes, *, durable: bool, make: bool) -> None:
        if make:
            make_folders(self._disk, path.parent)
        replace_file(self._disk, path, data, durable=durable, reached=self._reached)

    def _read(self, path: Path) -> bytes | None:
        try:
            return read_file(self._disk, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise disk_failed(f"{path} could not be read", error) from error
