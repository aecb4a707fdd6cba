"""The engine on a disk that breaks, in the test's own loop, and the few orders that these tests give it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from palaver.core.state import State
from palaver.daemon import Daemon, build
from palaver.engine.actor import EVERYONE, Actor
from palaver.engine.session import Session
from palaver.log.disk import Disk
from palaver.log.folders import DataFolder
from palaver.settings import load
from palaver.wire import requests as r

PERSON = Actor("user", EVERYONE)
WITHIN = 30.0


@dataclass
class Engine:
    daemon: Daemon
    data: Path
    workspace: Path

    async def opens(self, mode: str = "auto") -> str:
        new = r.NewSession(workspace_path=str(self.workspace), mode=mode, agent="demo")
        created = await self.daemon.hub.create(new, PERSON)
        return str(created["id"])

    async def says(self, session_id: str, text: str, **more: Any) -> dict[str, Any]:
        body = {"role": "user", "parts": [{"type": "text", "text": text}], **more}
        return await self.daemon.hub.add_message(session_id, msgspec.convert(body, r.PostMessage), PERSON)

    async def session(self, session_id: str) -> Session:
        return await self.daemon.sessions.get(session_id)

    async def until(self, session_id: str, true_of: Callable[[State], bool]) -> State:
        session = await self.session(session_id)
        async with asyncio.timeout(WITHIN):
            return await session.until(true_of)

    async def turn_ends(self, session_id: str, turn_id: str) -> State:
        return await self.until(session_id, lambda state: state.last_turn is not None and state.last_turn.id == turn_id)


def built(folder: Path, disk: Disk | None = None, *, reached: Callable[[str], None] = lambda point: None) -> Engine:
    """Everything of the daemon below HTTP, not started. `folder` is made when it is not there."""
    config, workspace = folder / "config" / "config.toml", folder / "workspace"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.touch()
    workspace.mkdir(exist_ok=True)
    data = DataFolder(folder / "data", disk, reached=reached)
    data.prepare()
    env = {"PALAVER_DISCOVER": "0", "PATH": "/usr/bin:/bin"}
    daemon = build(load(str(config), env), data, env=env, disk=disk, reached=reached, demo_pace_s=0.0)
    return Engine(daemon, data.root, workspace)


@asynccontextmanager
async def engine(folder: Path, disk: Disk | None = None, *, reached: Callable[[str], None] = lambda point: None) -> AsyncIterator[Engine]:
    """It runs, and is ended as after SIGTERM."""
    one = built(folder, disk, reached=reached)
    one.daemon.sessions.start()
    try:
        yield one
    finally:
        await one.daemon.close()


async def until(true_of: Callable[[], bool], within: float = WITHIN) -> None:
    """Waits for what nobody tells of, such as a file or a process."""
    deadline = time.monotonic() + within
    while not true_of():
        assert time.monotonic() < deadline, "it did not come to be in time"
        await asyncio.sleep(0.005)
