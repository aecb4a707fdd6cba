"""The file calls that promises rest on, in one place: what a test can make fail, lose power or count.

Everything here blocks and runs in threads. Files are 0600 and folders 0700 by mode, whatever the umask says. A write is a promise only
after `sync`, a new or renamed entry only after `sync_folder` of the folder that holds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from palaver.errors import DiskFailed

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def nothing(point: str) -> None:
    """Told which point between two effects was reached, and does not care."""


class Disk:
    """The real one. Every call raises `OSError`."""

    def open(self, path: Path, *, write: bool) -> int:
        """A descriptor of a file that is there; never one behind a link."""
        return os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW)

    def create(self, path: Path) -> int:
        """A descriptor of a new, empty file. Raises `FileExistsError`."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        os.fchmod(fd, FILE_MODE)  # a umask can only have taken bits that we need
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def read_at(self, fd: int, length: int, offset: int) -> bytes:
        """`length` bytes, or fewer at the end of the file."""
        block = os.pread(fd, length, offset)
        while len(block) < length and (more := os.pread(fd, length - len(block), offset + len(block))):
            block += more
        return block

    def write_at(self, fd: int, data: bytes, offset: int) -> None:
        """All of `data`; when it raises, any part of it may have been written."""
        done = os.pwrite(fd, data, offset)
        while done < len(data):
            done += os.pwrite(fd, memoryview(data)[done:], offset + done)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Everything that was written to this file is on the medium. macOS: past the drive's own cache too (not tested there)."""
        if sys.platform == "darwin":
            try:
                fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                    raise
                os.fsync(fd)  # a file system that has no full sync
        else:
            os.fdatasync(fd)

    def sync_folder(self, path: Path) -> None:
        """The names in this folder are on the medium."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def make_folder(self, path: Path) -> None:
        """Raises `FileExistsError`. The parent must be there."""
        os.mkdir(path, FOLDER_MODE)
        os.chmod(path, FOLDER_MODE)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        """A second name for the same bytes. Raises `FileExistsError`."""
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def remove_folder(self, path: Path) -> None:
        os.rmdir(path)


def make_folders(disk: Disk, path: Path) -> None:
    """Make a folder and its missing parents; each new name is on the medium when this returns."""
    if not path.is_dir():
        make_folders(disk, path.parent)
        with suppress(FileExistsError):  # someone made it meanwhile
            disk.make_folder(path)
        disk.sync_folder(path.parent)


def replace_file(disk: Disk, path: Path, data: bytes, *, durable: bool = True, reached: Callable[[str], None] = nothing) -> None:
    """Give a file new contents in one step: a reader sees the old or the new, after a crash too.

    Without `durable` a power cut may leave an older or an empty file, which is only good for what can be made again. Two calls for one
    path must not overlap. `reached` hears of `<stem>.written` and `<stem>.renamed`.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with suppress(FileNotFoundError):  # only a crash leaves one
        disk.unlink(temporary)
    fd = disk.create(temporary)
    try:
        disk.write_at(fd, data, 0)
        if durable:
            disk.sync(fd)
    finally:
        disk.close(fd)
    reached(f"{path.stem}.written")
    disk.rename(temporary, path)
    reached(f"{path.stem}.renamed")
    if durable:
        disk.sync_folder(path.parent)


def read_file(disk: Disk, path: Path) -> bytes:
    """The whole file. Raises `FileNotFoundError`."""
    fd = disk.open(path, write=False)
    try:
        return disk.read_at(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)


def disk_failed(what: str, error: OSError) -> DiskFailed:
    """`what` is half a sentence: what could not be done."""
    return DiskFailed(f"{what}: {error.strerror or error}. Check the disk's free space and permissions, then try again.")
