"""Which daemon: the one that was named, else the one of this data folder.

With an address given (`--url` or `$PALAVER_URL`) only `$PALAVER_TOKEN` is sent, never the token of the data folder: an address may
come from anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from palaver.client.connect import Connection
from palaver.errors import Failed, Refused


class DaemonFile(msgspec.Struct, frozen=True):
    """`<data>/daemon.json`: written when the daemon listens, removed when it ends cleanly."""

    pid: int
    url: str
    token_file: str | None = None
    version: str | None = None
    started_at: str | None = None


def read_daemon_file(data: Path) -> DaemonFile | None:
    """What the file says; None when there is none, or when it is not what a daemon writes."""
    try:
        return msgspec.json.decode((data / "daemon.json").read_bytes(), type=DaemonFile)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise Failed("unreadable", f"{data / 'daemon.json'} cannot be read ({error.strerror}). Check its mode and owner.") from error


async def reach(data: Path, url: str | None, env: Mapping[str, str]) -> Connection:
    """A connection to the daemon to speak to; the caller closes it.

    Without an address it has answered already, and proved itself. Raises `Refused("no_daemon")` when none is running.
    """
    if named := url or env.get("PALAVER_URL"):
        return Connection(named, env.get("PALAVER_TOKEN", "").strip() or None)
    found = read_daemon_file(data)
    if found is None:
        raise no_daemon(data, "")
    if not is_running(found.pid):
        raise no_daemon(data, f" (the last one, process {found.pid}, is gone)")
    connection = Connection(found.url, _token(found))
    try:
        await connection.health()
    except Failed as error:
        await connection.close()
        raise no_daemon(data, f" ({found.url} does not answer)") from error
    except Refused as error:
        await connection.close()
        raise no_daemon(data, f" (what answers at {found.url} is another program)") from error
    return connection


def no_daemon(data: Path, why: str) -> Refused:
    return Refused("no_daemon", f"No daemon is running for {data}{why}. Start it with `palaver serve`.")


def is_running(pid: int) -> bool:
    """Whether some process has this number; not whether it is ours."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _token(found: DaemonFile) -> str | None:
    if found.token_file is None:
        return None
    try:
        return Path(found.token_file).read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise Failed("no_token", f"The token file {found.token_file} cannot be read. Check its mode and owner.") from error
