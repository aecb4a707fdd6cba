"""A fold kept beside its log, with the index: a cache that counts only while the log agrees with it.

The file is one line of JSON that says which line of the log it was made from, where that line is and its hash; then the engine's bytes.
Anything that does not fit, an older format too, counts as no checkpoint: the log is folded again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from palaver.log.disk import Disk, read_file
from palaver.log.lines import START, Entry

FORMAT = 1


class _Header(msgspec.Struct, frozen=True):
    format: int
    seq: int
    offset: int
    """Where the line `seq` starts."""
    size: int
    """Of that line, its end included."""
    hash: str
    index: list[Entry]
    data_hash: str


class Kept(NamedTuple):
    """A checkpoint that the log has confirmed."""

    seq: int
    data: bytes
    entries: list[Entry]
    known: Entry
    """The end of the line `seq`: counting goes on from here."""


_headers = msgspec.json.Decoder(_Header)


def to_bytes(seq: int, offset: int, line: bytes, index: Sequence[Entry], data: bytes) -> bytes:
    covered = [entry for entry in index if entry.before < seq]
    header = _Header(FORMAT, seq, offset, len(line) + 1, _hash(line), covered, _hash(data))
    return msgspec.json.encode(header) + b"\n" + data


def load(disk: Disk, path: Path, fd: int, size: int) -> Kept | None:
    """The checkpoint at `path`, if the log in `fd` (of `size` bytes) has exactly the line that it names."""
    try:
        first, _, data = read_file(disk, path).partition(b"\n")
        header = _headers.decode(first)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    if header.format != FORMAT or header.data_hash != _hash(data) or not _agrees(disk, fd, size, header):
        return None
    return Kept(header.seq, data, header.index or [START], Entry(header.seq, header.offset + header.size))


def _agrees(disk: Disk, fd: int, size: int, header: _Header) -> bool:
    if header.seq < 1 or header.offset < 0 or header.size < 1 or header.offset + header.size > size:
        return False
    line = disk.read_at(fd, header.size, header.offset)
    return line.endswith(b"\n") and _hash(line[:-1]) == header.hash


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
