"""`sessions` and `send`: what there is, and one more message for it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from palaver.cli import target
from palaver.cli.conversation import post_message
from palaver.cli.screen import print_table
from palaver.cli.target import Session, connect, find_session, text_of

_TAIL = 8
"""Of an id, in a terminal: ids sort by time, so it is their ends that differ."""


def list_sessions(args: argparse.Namespace) -> int:
    found, body = asyncio.run(_list(args))
    if args.json:
        print(msgspec.json.encode(body).decode())
    elif not found and sys.stdout.isatty():
        print("There is no conversation yet. Begin one: palaver run 'hello'")
    elif found:
        header = ("id", "status", "title", "agent", "updated", "workspace")
        print_table(header, [_row(session) for session in found], widest=2)
    return 0


async def _list(args: argparse.Namespace) -> tuple[list[Session], dict[str, Any]]:
    workspace = str(Path(args.workspace).expanduser().absolute()) if args.workspace else None
    query = {"status": args.status, "workspace": workspace}
    async with await connect(args) as connection:
        if args.json:
            answer = await connection.request("GET", "/v1/sessions", query={**query, "limit": min(200, args.limit)})
            return [], answer.body
        return [session async for session in target.sessions(connection, limit=args.limit, query=query)], {}


def _row(session: Session) -> list[str]:
    waiting = len(session.get("waiting") or ())
    status = session["status"] + (f" ({waiting})" if waiting else "")
    short = sys.stdout.isatty()
    updated = str(session["updated_at"])
    return [
        session["id"][-_TAIL:] if short else session["id"],
        status,
        session.get("title") or "",
        session.get("agent") or "",
        updated[:16].replace("T", " ") if short else updated,
        session.get("workspace_path") or "",
    ]


def send(args: argparse.Namespace) -> int:
    text = text_of(args.text)
    reply = asyncio.run(_send(args, text))
    print(msgspec.json.encode(reply).decode() if args.json else " ".join([reply["delivered"], reply["turn_id"] or reply["message_id"]]))
    return 0


async def _send(args: argparse.Namespace, text: str) -> dict[str, Any]:
    async with await connect(args) as connection:
        session = await find_session(connection, args.session)
        return await post_message(connection, session["id"], text, delivery=args.delivery)
