"""Files of a workspace by descriptor: found one folder at a time from its root, and never through a link (SECURITY.md 13).

Here no link is followed at all, not even one that stays inside: a link is a thing of its own that is kept and restored. So what a path
names is what stands there, whoever swaps what for what meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

MAX_FILE = 16 * 1024 * 1024
"""Bytes of a file whose content is kept."""
TEMPORARY = ".palaver-"
"""What our own files are called until they are in their place."""

Kind = Literal["file", "link", "folder", "other"]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK = 1 << 20


class Version(msgspec.Struct, frozen=True, array_like=True):
    """What stands under a name. Two that are equal are the same to everybody who looks."""

    kind: Kind
    mode: int
    """Permissions; 0 of what has none that matter."""
    size: int
    hash: bytes = b""
    """Of a file's bytes or a link's target; empty where it was not read."""
    stamp: tuple[int, ...] = ()
    """Where it was not read: by which a change shows."""


def open_root(root: Path) -> int:
    """A descriptor of the workspace. Raises `OSError`."""
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_folder(at: int, name: str) -> int:
    """A folder right below another one. Raises `OSError` for whatever else stands there."""
    return os.open(name, _FOLDER, dir_fd=at)


@contextmanager
def folder_of(root: int, path: str) -> Iterator[int]:
    """The folder that a path is in. Raises `OSError` where a part of the way is missing, no folder or a link."""
    at = os.dup(root)
    try:
        for name in path.split("/")[:-1]:
            below = open_folder(at, name)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def look(at: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def stamp(found: os.stat_result) -> tuple[int, int, int, int, int, int]:
    """What differs after any change of a file, its times set back too."""
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode, found.st_ino, found.st_dev


def version(at: int, name: str, found: os.stat_result) -> tuple[Version, bytes | None]:
    """What stands there, and its content where that is kept. Raises `OSError` when it is changed meanwhile or cannot be read."""
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        target = os.fsencode(os.readlink(name, dir_fd=at))
        return Version("link", 0, len(target), digest(target)), target
    if stat.S_ISDIR(mode):
        return Version("folder", stat.S_IMODE(mode) & 0o777, 0), None
    if not stat.S_ISREG(mode):
        return Version("other", 0, 0, stamp=stamp(found)), None
    permissions = stat.S_IMODE(mode) & 0o777
    if found.st_size > MAX_FILE:
        return Version("file", permissions, found.st_size, stamp=stamp(found)), None
    data = _content(at, name)
    if data is None:
        return Version("file", permissions, found.st_size, stamp=stamp(found)), None
    return Version("file", permissions, len(data), digest(data)), data


def _content(at: int, name: str) -> bytes | None:
    """All of a regular file; None where it grew past what is kept. Never waits. Raises `OSError`."""
    file = os.open(name, _FILE, dir_fd=at)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{name} is no regular file any more")
        first = os.read(file, _BLOCK)
        if len(first) < _BLOCK and not os.read(file, 1):
            return first
        blocks, size = [first], len(first)
        os.lseek(file, size, os.SEEK_SET)
        while block := os.read(file, _BLOCK):
            blocks.append(block)
            size += len(block)
            if size > MAX_FILE:
                return None
        return b"".join(blocks)
    finally:
        os.close(file)


def digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=20).digest()


def now(root: int, path: str) -> tuple[Version | None, bytes | None, os.stat_result | None]:
    """What stands under a path at this moment; nothing, too, where the way to it is gone. Raises `OSError` where it cannot be read."""
    try:
        with folder_of(root, path) as at:
            name = path.rpartition("/")[2]
            found = look(at, name)
            if found is None:
                return None, None, None
            return *version(at, name, found), found
    except (FileNotFoundError, NotADirectoryError):
        return None, None, None


__all__ = [
    "MAX_FILE",
    "TEMPORARY",
    "Kind",
    "Version",
    "digest",
    "folder_of",
    "look",
    "now",
    "open_folder",
    "open_root",
    "stamp",
    "version",
]
