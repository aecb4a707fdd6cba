"""Opening a log's file: what it holds, what a crash left at its end, and whether we may write to it.

Only lines that a sync covers count, so the file is synced here before any of it is believed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from palaver.log import checkpoint
from palaver.log.checkpoint import Kept
from palaver.log.disk import Disk, make_folders
from palaver.log.lines import BLOCK, START, Entry, Scan, find_line, scan
from palaver.wire.codec import VERSION

FILE_NAME = "events.ndjson"
CHECKPOINT_NAME = "checkpoint"


class Ready(NamedTuple):
    """An open file whose first lines, up to the byte `end`, are on the medium."""

    fd: int
    lines: int
    end: int
    entries: list[Entry]
    kept: Kept | None
    cut_bytes: int
    read_only: str | None
    newer: bool


class _Versioned(msgspec.Struct):
    v: Any = VERSION


_versions = msgspec.json.Decoder(_Versioned)


def make_ready(disk: Disk, folder: Path, *, create: bool) -> Ready:
    """Open, check, repair and sync. Raises `FileNotFoundError`, or another `OSError` when the disk will not do it."""
    if create:
        make_folders(disk, folder.parent)
        with suppress(FileExistsError):
            disk.make_folder(folder)  # its name is synced below, with that of the file
    fd, refusal = _open(disk, folder / FILE_NAME, create=create)
    try:
        return _examine(disk, folder, fd, refusal)
    except BaseException:
        disk.close(fd)
        raise


def _open(disk: Disk, path: Path, *, create: bool) -> tuple[int, str | None]:
    """The descriptor, and why it can only be read."""
    try:
        return disk.open(path, write=True), None
    except FileNotFoundError:
        if not create:
            raise
        return disk.create(path), None
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return disk.open(path, write=False), f"{path} cannot be written ({error.strerror}). Make it writable and open it again."


def _examine(disk: Disk, folder: Path, fd: int, refusal: str | None) -> Ready:
    size = disk.size(fd)
    kept = checkpoint.load(disk, folder / CHECKPOINT_NAME, fd, size)
    found = scan(disk, fd, size, kept.entries, kept.known) if kept else scan(disk, fd, size)
    whole = _without_garbage(disk, fd, found, kept.known if kept else START)
    newer = _newer(disk, fd, whole)
    refusal = newer or refusal
    cut = 0
    if refusal is None and whole.end < size:
        try:
            _cut(disk, folder, fd, whole.end, size)
            cut = size - whole.end
        except OSError as error:
            refusal = f"A torn write at the end of {folder} could not be cut off ({error.strerror}). Make room and open it again."
    disk.sync(fd)
    if whole.lines == 0:
        # nothing was ever promised here, so a crash may have come before the names of file and folder were synced
        disk.sync_folder(folder)
        disk.sync_folder(folder.parent)
    return Ready(fd, whole.lines, whole.end, whole.entries, kept, cut, refusal, newer is not None)


def _without_garbage(disk: Disk, fd: int, found: Scan, floor: Entry) -> Scan:
    """Without the last lines that are no JSON object, but never below what a checkpoint confirmed."""
    lines, end, entries = found
    while lines > floor.before and _version(last := _line(disk, fd, found, lines)) is None:
        lines, end = lines - 1, end - len(last) - 1
        entries = [entry for entry in entries if entry.offset <= end]
    return Scan(lines, end, entries)


def _newer(disk: Disk, fd: int, whole: Scan) -> str | None:
    """Why this version may not write here. Versions only grow along a log, so its first and last line speak for the rest."""
    for number in {1, whole.lines} if whole.lines else ():
        version = _version(_line(disk, fd, whole, number))
        if version is not None and (not isinstance(version, int) or version > VERSION):
            return f"This log was written by a newer version (v {version}; this one knows v {VERSION}). Update Palaver to write to it."
    return None


def _line(disk: Disk, fd: int, found: Scan, number: int) -> bytes:
    return find_line(disk, fd, found.entries, found.end, number)[1]


def _version(line: bytes) -> Any:
    """What a line says of its version; None when it is no JSON object."""
    try:
        return _versions.decode(line).v
    except msgspec.DecodeError:
        return None


def _cut(disk: Disk, folder: Path, fd: int, end: int, size: int) -> None:
    """Keep what lies beyond `end` beside the log, then cut it off."""
    torn = disk.create(next(path for path in _torn_names(folder) if not path.exists()))
    try:
        for offset in range(end, size, BLOCK):
            disk.write_at(torn, disk.read_at(fd, min(BLOCK, size - offset), offset), offset - end)
        disk.sync(torn)
    finally:
        disk.close(torn)
    disk.sync_folder(folder)
    disk.truncate(fd, end)


def _torn_names(folder: Path) -> Iterator[Path]:
    number = 1
    while True:
        yield folder / f"torn-{number}"
        number += 1
