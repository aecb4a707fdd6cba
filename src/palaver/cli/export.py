"""`export`: a conversation as one file that needs no daemon any more."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from palaver.cli.target import connect, find_session, session_path
from palaver.errors import Refused

STDOUT = "-"


def export(args: argparse.Namespace) -> int:
    session_id, data = asyncio.run(_fetch(args))
    target = args.output or (f"{session_id}.{args.format}" if sys.stdout.isatty() else STDOUT)
    if target == STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return 0
    try:
        with Path(target).expanduser().open("wb" if args.output else "xb") as file:
            file.write(data)
    except OSError as error:
        said = os.strerror(error.errno or 0)
        raise Refused("bad_usage", f"{target} could not be written ({said}). Name another with --output.") from error
    print(target)
    return 0


async def _fetch(args: argparse.Namespace) -> tuple[str, bytes]:
    async with await connect(args) as connection:
        session = await find_session(connection, args.session)
        return session["id"], await connection.fetch(f"{session_path(session['id'], '/export')}?format={args.format}")
