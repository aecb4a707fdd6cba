"""Every session's news in one sequence, for `GET /v1/events`: from now on, and the newest ones again after a short break."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from palaver.engine.follow import Bell

KEPT = 10_000


@dataclass(frozen=True)
class AllBatch:
    gap: dict[str, Any] | None = None
    hello: dict[str, Any] | None = None
    items: Sequence[tuple[int, bytes]] = ()
    deleted: Sequence[str] = ()


class Feed:
    def __init__(self, hello: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """Numbers begin at the clock in microseconds, so that those of another run are never taken for ours."""
        self._hello = hello
        self._first = self._next = time.time_ns() // 1000
        self._items: list[bytes | str] = []
        """A line, or the id of a session that was deleted."""
        self._bell = Bell()

    def publish(self, lines: Sequence[bytes | str]) -> None:
        self._items.extend(lines)
        self._next += len(lines)
        if len(self._items) > 2 * KEPT:
            self._first += len(self._items) - KEPT
            del self._items[:-KEPT]
        self._bell.ring()

    @property
    def is_followed(self) -> bool:
        return self._bell.is_awaited

    async def follow(self, after: int | None) -> AsyncGenerator[AllBatch, None]:
        """From now on without a number; after one that is remembered; after any other `gap`, then from now on."""
        hello = True
        while True:
            rings, head = self._bell.rings, self._next - 1
            known = after is not None and self._first - 1 <= after <= head
            if hello or after is None or not known:  # at the beginning, and where a slow reader was left behind
                gap = None if known or after is None else {"oldest_seq": self._first, "head_seq": head}
                hello, after = False, after if known else head
                yield AllBatch(gap, {**await self._hello(), "head_seq": head})
                continue
            start = after + 1 - self._first
            news = self._items[start:]
            if not news:
                await self._bell.wait(rings)
                continue
            first = self._first + start
            after = self._next - 1
            numbered = list(enumerate(news, first))
            yield AllBatch(
                items=[(number, item) for number, item in numbered if isinstance(item, bytes)],
                deleted=[item for _, item in numbered if isinstance(item, str)],
            )
