"""Searching what was said: the index is brought up to date when somebody searches, for a moment before the answer and then beside it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from palaver.errors import DiskFailed
from palaver.log.search import SearchIndex

WAIT_S = 1.0
"""How long a search waits for what the index has not got yet."""
REST_S = 0.002
"""Between two slices, so that others get the thread."""


class Searching:
    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self._task: asyncio.Task[None] | None = None
        self._first: str | None = None

    async def search(self, query: str, *, session: str | None, limit: int, cursor: str | None) -> dict[str, Any]:
        """`complete` says whether everything was in the index: a later search may find more."""
        self._first = session or self._first
        complete = cursor is not None or await self._caught_up()
        found = await self._index.find(query, session=session, limit=limit, cursor=cursor)
        return {"hits": [hit._asdict() for hit in found.hits], "next_cursor": found.next_cursor, "complete": complete}

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _caught_up(self) -> bool:
        task = self._begin()
        done, _ = await asyncio.wait({task}, timeout=WAIT_S)
        if done:
            task.result()  # raises what kept it from catching up
        return bool(done)

    def _begin(self) -> asyncio.Task[None]:
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._catch_up())
            self._task.add_done_callback(_heard)
        return self._task

    async def _catch_up(self) -> None:
        while await self._index.catch_up(self._first):
            await asyncio.sleep(REST_S)


def _heard(task: asyncio.Task[None]) -> None:
    """Whoever searches next hears of a disk that fails; what nobody foresaw goes to the loop's own handler."""
    with suppress(asyncio.CancelledError, DiskFailed):
        task.result()
