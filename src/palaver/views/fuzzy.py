"""Paths by a few of their letters, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import NamedTuple


class Named(NamedTuple):
    path: str
    kind: str
    """`file` or `folder`."""


class Best(NamedTuple):
    files: list[Named]
    truncated: bool


def best(query: str, files: Iterable[str], limit: int) -> Best:
    """The files, and the folders that they are in, whose paths have the letters of `query` in this order, in any case.

    A name comes before a part of a name, that before a path, and letters side by side before scattered ones.
    """
    wanted = "".join(query.lower().split())
    scattered = re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)
    found = [(rank, one) for one in _with_folders(files) if (rank := _rank(wanted, scattered, one)) is not None]
    return Best([one for _, one in nsmallest(limit, found)], len(found) > limit)


def _with_folders(files: Iterable[str]) -> Iterator[Named]:
    seen: set[str] = set()
    for path in files:
        yield Named(path, "file")
        folder = path.rpartition("/")[0]
        while folder and folder not in seen:
            seen.add(folder)
            yield Named(folder, "folder")
            folder = folder.rpartition("/")[0]


def _rank(wanted: str, scattered: re.Pattern[str], one: Named) -> tuple[int, int, int] | None:
    """Smaller is better; None where it does not match."""
    path = one.path.lower()
    found = scattered.search(path)
    if found is None:
        return None
    depth, name = path.count("/"), path.rpartition("/")[2]
    if not wanted:
        return 0, depth, 0
    if name.startswith(wanted):
        return (0 if name == wanted or name.partition(".")[0] == wanted else 1), depth, len(name)
    if wanted in name:
        return 2, depth, len(name)
    if wanted in path:
        return 3, depth, len(path)
    within = scattered.search(name)
    return 4, min(span.end() - span.start() for span in (found, within or found)), len(path)
