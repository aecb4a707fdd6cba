"""The floor of accepting: our server and its doors, but whoever decides and records only says yes. `python no_log_app.py FOLDER`

Prints its port and the token.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import Any, cast

import uvloop

from palaver import __version__
from palaver.engine.actor import Actor
from palaver.life import spare_the_collector
from palaver.serve.app import make_app, serve_app
from palaver.serve.seam import Hub
from palaver.serve.tokens import Tokens
from palaver.wire import requests as r


class Yes:
    """Of a hub, what this measurement asks."""

    version = __version__

    async def add_message(self, session_id: str, post: r.PostMessage, actor: Actor) -> dict[str, Any]:
        return {"message_id": "msg_01j00000000000000000000000", "turn_id": None, "delivered": "stored"}


async def main(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as sock:
        port = sock.getsockname()[1]
        app = make_app(cast(Hub, Yes()), Tokens(folder, clock=time.time), port=port)
        print(port, (folder / "token").read_text().strip(), flush=True)
        await serve_app(app, sock, asyncio.Event())


if __name__ == "__main__":
    sys.setswitchinterval(0.0001)  # as the daemon has it
    spare_the_collector()
    uvloop.run(main(Path(sys.argv[1])))
