"""A daemon in one process that publishes events of one session when it is told to. `python fan_host.py FOLDER`

Prints its port, the token and the session to read. Then a line of stdin `EVENTS TOGETHER` publishes so many there, `TOGETHER` with each
wake-up of the readers, and prints how many it has published there by then; `EVENTS TOGETHER alone` does so where nobody reads.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

import uvloop

from palaver.daemon import Daemon, build
from palaver.engine.actor import EVERYONE, Actor
from palaver.engine.session import Session
from palaver.life import spare_the_collector
from palaver.log.folders import DataFolder
from palaver.serve.app import make_app, serve_app
from palaver.serve.tokens import Tokens
from palaver.settings import load
from palaver.wire.commands import NoteFact
from palaver.wire.events import Notice
from palaver.wire.requests import NewSession

PAUSE_S = 0.0003
"""Between two events, as the floor has it: the readers fall asleep, and waking them is part of what a write costs."""
TEXT = "as long as an event usually is: " + "x" * 60


async def publish(session: Session, events: int, together: int) -> None:
    for _ in range(events // together):
        for _ in range(together - 1):
            session.report_soon(NoteFact(turn_id=None, fact=Notice(level="info", code="bench", text=TEXT)))
        await session.report(NoteFact(turn_id=None, fact=Notice(level="info", code="bench", text=TEXT)))
        await asyncio.sleep(PAUSE_S)


async def new_session(daemon: Daemon, folder: Path) -> Session:
    created = await daemon.hub.create(NewSession(str(folder)), Actor("user", EVERYONE))
    session = await daemon.sessions.get(created["id"])
    session.followers += 1  # it stays in memory
    return session


async def main(folder: Path) -> None:
    (folder / "config.toml").touch()
    data = DataFolder(folder / "data")
    data.prepare()
    daemon = build(load(str(folder / "config.toml"), {}), data, env={"PALAVER_DISCOVER": "0"})
    daemon.sessions.start()
    session, alone = [await new_session(daemon, folder) for _ in range(2)]
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as sock:
        port = sock.getsockname()[1]
        app = make_app(daemon.hub, Tokens(data.root, clock=time.time), port=port)
        serving = asyncio.ensure_future(serve_app(app, sock, stop))
        print(port, (data.root / "token").read_text().strip(), session.id, flush=True)
        published = 0
        while line := (await loop.run_in_executor(None, sys.stdin.readline)).split():
            await publish(alone if line[2:] else session, int(line[0]), int(line[1]))
            published += 0 if line[2:] else int(line[0])
            print(published, flush=True)
        stop.set()
        await serving
    await daemon.close()


if __name__ == "__main__":
    sys.setswitchinterval(0.0001)  # as the daemon has it
    spare_the_collector()
    uvloop.run(main(Path(sys.argv[1])))
