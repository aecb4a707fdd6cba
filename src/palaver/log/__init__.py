"""What we save: lines, appended and read. Two verbs, so that a distributed log can stand behind them too.

A *key* names one log: `sessions/<session_id>` or `workspaces/<hash>`. The log never looks into a line beyond its version: the
engine numbers and encodes events, the log keeps them, in order, and says when the disk has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Checkpoint(NamedTuple):
    seq: int
    data: bytes
    """What the engine handed over: folded state and offsets. A cache, never the truth."""


class Opened(NamedTuple):
    head: int
    """The number of the last line; 0 for a log that has none. Lines are numbered from 1 without gaps."""
    checkpoint: Checkpoint | None
    """Only one that the log has confirmed: same seq, same byte offset, same hash of that line."""
    cut_bytes: int
    """Length of a torn last line that was cut off (and is kept beside the log for whoever wants to look)."""
    read_only: str | None
    """Why nothing can be appended: a newer major version, or a disk that takes no writes."""
    newer: bool = False
    """It is the version: no disk's fault, and no repair will help."""


class Log(Protocol):
    async def open(self, key: str, *, create: bool = False) -> Opened:
        """Make a log ready: repair its tail, sync it, check its checkpoint. Raises `Refused("not_found")`."""

    def append(self, key: str, expected_seq: int, lines: Sequence[bytes]) -> asyncio.Future[None]:
        """Take lines now, in the order of the calls; the future is done when one sync has covered them.

        `expected_seq` is the number of the line before the first one. When a write or a sync fails, the file is cut back to its last
        safe line and every append that waited fails with `DiskFailed`, those taken meanwhile too; the next one continues from the
        safe head. Cancelling the future changes nothing.
        """

    async def read(self, key: str, after: int, *, up_to: int | None = None, limit: int = 262_144) -> list[bytes]:
        """Whole lines with a number beyond `after` (and at most `up_to`), about `limit` bytes of them; empty at the end.

        Only synced lines are ever returned. Costs what it returns, however long the log is.
        """

    async def save_checkpoint(self, key: str, seq: int, data: bytes) -> None:
        """Keep `data` as the fold of the lines up to `seq`, which must be synced. Replaces the file in one step."""

    async def close(self, key: str) -> None:
        """Let go of the log's file and index; what was appended before is safe first."""


__all__ = ["Checkpoint", "Log", "Opened"]
