"""The log in memory: for tests, and for whoever wants a conversation that leaves nothing behind."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass, field

from palaver.errors import DiskFailed, Refused
from palaver.log import Checkpoint, Opened


@dataclass
class _Kept:
    lines: list[bytes] = field(default_factory=list)
    checkpoint: Checkpoint | None = None


class MemoryLog:
    """Implements `Log`. A line is safe when it is taken; closing forgets nothing, the end of the process does."""

    def __init__(self) -> None:
        self._logs: dict[str, _Kept] = {}

    async def open(self, key: str, *, create: bool = False) -> Opened:
        if key not in self._logs:
            if not create:
                raise Refused("not_found", f"There is no log {key!r}.")
            self._logs[key] = _Kept()
        log = self._logs[key]
        return Opened(len(log.lines), log.checkpoint, 0, None)

    def append(self, key: str, expected_seq: int, lines: Sequence[bytes]) -> Future[None]:
        log = self._logs[key].lines
        done: Future[None] = asyncio.get_running_loop().create_future()
        if expected_seq != len(log):
            done.set_exception(DiskFailed(f"Line {expected_seq} is not the last one ({len(log)} is). Go on from there."))
            return done
        if any(b"\n" in line for line in lines):
            raise ValueError("a line of a log cannot hold a line end")
        log.extend(lines)
        done.set_result(None)
        return done

    async def read(self, key: str, after: int, *, up_to: int | None = None, limit: int = 262_144) -> list[bytes]:
        found: list[bytes] = []
        length = 0
        for line in self._logs[key].lines[after:up_to]:
            found.append(line)
            length += len(line) + 1
            if length >= limit:
                break
        return found

    async def save_checkpoint(self, key: str, seq: int, data: bytes) -> None:
        log = self._logs[key]
        if not 1 <= seq <= len(log.lines):
            raise ValueError(f"a checkpoint of line {seq} of {key}, which has {len(log.lines)} safe lines")
        log.checkpoint = Checkpoint(seq, data)

    async def close(self, key: str) -> None:
        """Nothing to let go of: the lines stay until the process ends."""
