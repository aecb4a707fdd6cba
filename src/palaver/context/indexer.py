"""Reads changed files into a folder's index: a process of its own, so that neither the parser's time nor its faults are the daemon's.

    python -P -m palaver.context.indexer < job

It opens each file below the folder component by component and never through a link, and stops when its time is over; what it has not
come to is read the next time.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from palaver.context.index import Index, Look, Row
from palaver.context.symbols import language_of, symbols
from palaver.context.words import IDENTIFIER, bag, joined

LARGEST = 1 << 20
"""Bytes of a file that is read; of a larger one only the name is known."""
_WORDS = 1_500
_REFS = 300
_AT_ONCE = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Job(msgspec.Struct):
    index: str
    folder: str
    files: list[tuple[str, Look]]
    seconds: float


def main() -> None:
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    end = time.monotonic() + job.seconds
    index = Index(Path(job.index))
    rows: list[Row] = []
    try:
        for row in _rows(job):
            rows.append(row)
            if len(rows) == _AT_ONCE:
                index.put(rows)
                rows = []
            if time.monotonic() > end:
                break
        index.put(rows)
    finally:
        index.close()


def _rows(job: Job) -> Iterator[Row]:
    root = os.open(job.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folders = _Folders(root)
    try:
        for path, look in job.files:
            yield _row(path, look, folders.read(path) if look[0] <= LARGEST else None)
    finally:
        folders.close()
        os.close(root)


class _Folders:
    """Files below one folder, with the folder of the last one kept open: neighbours come one after the other."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._name, self._folder = "", -1

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def read(self, path: str) -> bytes | None:
        """Nothing for what is no regular file, is too large or is gone."""
        name, _, last = path.rpartition("/")
        try:
            if name != self._name or self._folder < 0:
                self.close()
                self._folder, self._name = self._opened(name), name
            file = os.open(last, _FILE, dir_fd=self._folder)
        except OSError:
            return None
        with os.fdopen(file, "rb") as opened:
            found = os.fstat(file)
            return opened.read(LARGEST) if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST else None

    def _opened(self, name: str) -> int:
        folder = os.dup(self._root)
        for part in name.split("/") if name else ():
            try:
                below = os.open(part, _FOLDER, dir_fd=folder)
            finally:
                os.close(folder)
            folder = below
        return folder


def _row(path: str, look: Look, data: bytes | None) -> Row:
    if data is None or b"\0" in data[:8192]:
        return Row(path, look, 0, (), "", "")
    text = data.decode("utf-8", "replace")
    language = language_of(path)
    found = symbols(data, language) if language else []
    names = {joined(name): None for name in IDENTIFIER.findall(text) if len(name) > 3}
    return Row(path, look, text.count("\n") + 1, found, bag(text, _WORDS), " ".join(list(names)[:_REFS]))


if __name__ == "__main__":
    main()
