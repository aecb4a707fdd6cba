"""The engine of a data folder, in the test's own event loop, with the demo model at full speed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from palaver.daemon import build
from palaver.log.folders import DataFolder
from palaver.settings import load
from serving import Daemon, serving


@asynccontextmanager
async def daemon_in(folder: Path, **options: Any) -> AsyncIterator[Daemon]:
    """The whole daemon but its process: hub, doors and a socket. `folder` is made when it is not there."""
    config = folder / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.touch()
    data = DataFolder(folder / "data")
    data.prepare()
    settings = load(str(config), {"PALAVER_DISCOVER": "0"})
    built = build(settings, data, env={"PALAVER_DISCOVER": "0"}, demo_pace_s=0.0)
    built.sessions.start()
    try:
        async with serving(data.root, built.hub, **options) as daemon:
            yield daemon
    finally:
        await built.close()
