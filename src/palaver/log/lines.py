"""Lines in one file: counting them when it is opened, finding one by its number, reading them as bytes.

Nothing here decodes a line. A line ends at b"\\n" and nowhere else: U+2028 and its kind are text. The index holds one entry for about
every 64 KiB, so finding a line costs one block however long the file is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from palaver.log.disk import Disk

BLOCK = 65_536


class Entry(NamedTuple):
    """`before` lines precede the byte `offset`, where a line starts."""

    before: int
    offset: int


START = Entry(0, 0)


class Scan(NamedTuple):
    """What a file holds: whole lines up to `end`; anything beyond is a torn write."""

    lines: int
    end: int
    entries: list[Entry]


def scan(disk: Disk, fd: int, size: int, index: Sequence[Entry] = (START,), known: Entry = START) -> Scan:
    """Count the lines beyond `known`, block by block. A NUL ends the count: it is what a power cut leaves of a write never synced."""
    count, end = known
    entries = list(index)
    offset = end
    while offset < size:
        block = disk.read_at(fd, min(BLOCK, size - offset), offset)
        if not block:
            break  # somebody made the file shorter
        whole, zero, _ = block.partition(b"\0")
        if lines := whole.count(b"\n"):
            entries.append(Entry(count + 1, offset + whole.index(b"\n") + 1))
            count, end = count + lines, offset + whole.rindex(b"\n") + 1
        if zero:
            break
        offset += len(block)
    return Scan(count, end, entries)


def read_lines(disk: Disk, fd: int, index: Sequence[Entry], end: int, after: int, up_to: int, limit: int) -> list[bytes]:
    """The lines `after` + 1 to `up_to` that lie before the byte `end`, until they have `limit` bytes: one at least."""
    before, offset = index[bisect_right(index, after, key=_before) - 1]
    later = bisect_right(index, up_to, key=_before)
    if later < len(index):
        end = min(end, index[later].offset)
    skip, held = after - before, b""
    while offset < end and (skip or len(held) < limit or b"\n" not in held):
        block = disk.read_at(fd, min(max(BLOCK, len(held)), end - offset), offset)
        if not block:
            break  # somebody made the file shorter
        offset += len(block)
        held += block
        if skip:
            *passed, held = held.split(b"\n", skip)
            skip -= len(passed)
    stop = held.find(b"\n", limit - 1)
    if stop < 0:
        stop = held.rfind(b"\n")
    return held[:stop].split(b"\n")[: up_to - after] if stop >= 0 else []


def find_line(disk: Disk, fd: int, index: Sequence[Entry], end: int, number: int) -> tuple[int, bytes]:
    """Where the line `number` starts, and the line."""
    before, offset = index[bisect_right(index, number - 1, key=_before) - 1]
    *passed, line = read_lines(disk, fd, index, end, before, number, end)
    return offset + sum(len(other) + 1 for other in passed), line


def extended(index: Sequence[Entry], count: int, offset: int, lines: Iterable[bytes]) -> list[Entry]:
    """The entries that `lines` add when they follow `count` lines and start at `offset`."""
    new: list[Entry] = []
    last = index[-1].offset
    for line in lines:
        if offset - last >= BLOCK:
            new.append(Entry(count, offset))
            last = offset
        count += 1
        offset += len(line) + 1
    return new


def _before(entry: Entry) -> int:
    return entry.before
