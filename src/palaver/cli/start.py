"""A daemon for whoever needs one: the one that runs, else a new one that outlives this command."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path

from palaver.cli.target import connect, data_of
from palaver.client.connect import Connection
from palaver.errors import Failed, Refused

_START_S = 20.0
_LOOK_S = 0.05


async def connect_or_start(args: argparse.Namespace) -> Connection:
    """A connection to the daemon that was meant; one that was named by its address is never started."""
    try:
        return await connect(args)
    except Refused as error:
        if error.code != "no_daemon":
            raise
    return await _started(args, data_of(args))


async def _started(args: argparse.Namespace, data: Path) -> Connection:
    """Start `palaver serve` and wait until it answers. Several commands may do so at once: one of the daemons stays."""
    log, begin = _open_log(data)
    command = [sys.executable, "-P", "-m", "palaver.cli.main", "serve", "--data", str(data)]
    if args.config is not None:
        command += ["--config", str(Path(args.config).expanduser().absolute())]
    with os.fdopen(log, "ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", start_new_session=True)
    loop = asyncio.get_running_loop()
    until = loop.time() + _START_S
    while True:
        try:
            return await connect(args)
        except Refused as error:
            if error.code != "no_daemon":
                raise
        status = process.poll()
        if status or loop.time() > until:
            raise _not_started(data, begin, status)
        await asyncio.sleep(_LOOK_S)


def _open_log(data: Path) -> tuple[int, int]:
    """`<data>/daemon.log`, for what a daemon without a terminal has to say, and where the new part begins."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = data / "daemon.log"
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(log, 0o600)
    return log, os.fstat(log).st_size


def _not_started(data: Path, begin: int, status: int | None) -> Refused | Failed:
    path = data / "daemon.log"
    with path.open("rb") as log:
        log.seek(begin)
        said = log.read(8192).decode("utf-8", "replace").strip().splitlines()
    why = said[-1].removeprefix("palaver: ") if said else f"it said nothing; see {path}"
    if status == 2:
        return Refused("bad_settings", why)
    how = f"ended with {status}" if status is not None else f"did not answer within {_START_S:.0f} s"
    return Failed("not_started", f"The daemon {how}: {why}")
