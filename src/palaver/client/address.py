"""Which daemon `connect` means: the one that is named, else the one that the command line would take."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from palaver.client.connect import Connection
from palaver.client.discover import no_daemon, reach, read_daemon_file


async def open_connection(url: str | None, token: str | None, data: str | None, env: Mapping[str, str] = os.environ) -> Connection:
    """What is given is preferred to the environment; a token that is given is sent wherever the daemon is found."""
    named = url or (None if data else env.get("PALAVER_URL"))
    folder = data_folder(data, env)
    if token is None:
        return await reach(folder, named, {} if data and not url else env)
    if named is None:
        found = read_daemon_file(folder)
        if found is None:
            raise no_daemon(folder, "")
        named = found.url
    return Connection(named, token)


def data_folder(given: str | None, env: Mapping[str, str]) -> Path:
    """Where the daemon keeps everything, as its settings say it: what is given, else `$PALAVER_DATA`, else the user's data folder."""
    if chosen := given or env.get("PALAVER_DATA"):
        return Path(chosen).expanduser().absolute()
    home = Path(env.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "palaver"
    shared = env.get("XDG_DATA_HOME", "")
    return (Path(shared) if shared.startswith("/") else home / ".local" / "share") / "palaver"
