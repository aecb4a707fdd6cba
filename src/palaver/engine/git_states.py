"""What git says of the folders that are shown: found out beside everything else, kept, and looked at again while somebody looks.

A folder is looked at when it is shown and its state is older than a few seconds, or something ran in it since. Nothing waits for git for
long: what is not known yet is left out, and watchers hear of it when it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from palaver.errors import ToolFailed
from palaver.tools.git import git_status

FRESH_S = 5.0
WAIT_S = 0.2
"""How long an answer waits for folders that were never looked at."""
AT_A_TIME = 2
MOST = 1000


class GitStates:
    """`env` is what a child of ours gets; `changed` hears of a folder whose state is another one now."""

    def __init__(self, env: Callable[[], Mapping[str, str]], changed: Callable[[str], None], ticks: Callable[[], float]) -> None:
        self._env, self._changed, self._ticks = env, changed, ticks
        self._states: dict[str, dict[str, Any] | None] = {}
        self._looked: dict[str, float] = {}
        """When; without those where something ran since."""
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_A_TIME)

    def of(self, folder: str) -> dict[str, Any] | None:
        """`{branch, dirty}` as last seen; None where there is no repository, or nobody has looked yet. It is looked at again now."""
        self._look(folder)
        return self._states.get(folder)

    async def known(self, folders: Iterable[str]) -> None:
        """Returns when each of them has been looked at once, or a moment has passed."""
        tasks = {task for folder in set(folders) if folder not in self._states and (task := self._look(folder))}
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT_S)

    def spoil(self, folder: str) -> None:
        """Something ran there: what was seen may be true no more."""
        self._looked.pop(folder, None)

    async def stop(self) -> None:
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _look(self, folder: str) -> asyncio.Task[None] | None:
        task = self._looking.get(folder)
        if task is None and self._ticks() - self._looked.get(folder, -FRESH_S) >= FRESH_S:
            self._looked[folder] = self._ticks()
            task = self._looking[folder] = asyncio.ensure_future(self._find_out(folder))
            task.add_done_callback(lambda _: self._looking.pop(folder, None))
        return task

    async def _find_out(self, folder: str) -> None:
        async with self._room:
            state = await _state(folder, self._env())
        before = self._states.pop(folder, None)
        self._states[folder] = state
        while len(self._states) > MOST:
            self._looked.pop(oldest := next(iter(self._states)), None)
            del self._states[oldest]
        if state != before:
            self._changed(folder)


async def _state(folder: str, env: Mapping[str, str]) -> dict[str, Any] | None:
    try:
        status = await git_status(Path(folder), env)
    except (ToolFailed, OSError):
        return None  # no git on this machine, or it makes nothing of the folder: nothing is said of it
    return None if status is None else {"branch": status.branch, "dirty": bool(status.dirty)}
