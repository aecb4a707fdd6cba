"""`serve`, and `palaver` alone: run the daemon here, or see to it that one runs."""

from __future__ import annotations

import argparse
import asyncio
import os

from palaver.settings import data_folder, load


def serve(args: argparse.Namespace) -> int:
    """Raises `Refused("bad_settings")`, which ends with 2, before anything is touched."""
    settings = load(args.config, os.environ, {"server.port": args.port})
    from palaver.life import serve as run_daemon

    return run_daemon(settings, data_folder(args.data, os.environ), settings.server.port, args.print_url, args.no_token)


def start_and_say(args: argparse.Namespace) -> int:
    return asyncio.run(_start_and_say(args))


async def _start_and_say(args: argparse.Namespace) -> int:
    from palaver.cli.start import connect_or_start

    async with await connect_or_start(args) as connection:
        await connection.health()
        print(f"Palaver is at {connection.url}")
        print("  palaver open          its page, signed in")
        print("  palaver run 'TEXT'    ask an agent in this folder")
        print("  palaver --help        everything else")
    return 0
