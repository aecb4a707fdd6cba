"""`attach`: follow a session, and take part in it from the keyboard."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from palaver.cli.conversation import HELP, Conversation, first_of, follow, raw, type_lines
from palaver.cli.keyboard import Keyboard
from palaver.cli.narrate import Envelope, Narrator
from palaver.cli.screen import Said, Screen, one_line
from palaver.cli.target import Session, connect, find_session, session_path
from palaver.client.connect import Connection

_LOOK_BACK = 400
"""How many events are searched for the beginning of the last turn."""


def attach(args: argparse.Namespace) -> int:
    """Leaving is no failure: Ctrl-C, Ctrl-D and /quit end with 0, and what runs goes on."""
    try:
        asyncio.run(_attach(args))
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            print()  # the prompt that comes next begins a line of its own
    return 0


async def _attach(args: argparse.Namespace) -> None:
    async with await connect(args) as connection:
        session = await find_session(connection, args.session)
        if args.json:
            await _print_log(connection, session["id"], args.after or 0)
        else:
            await _converse(connection, session, args.after)


async def _print_log(connection: Connection, session_id: str, after: int) -> None:
    async for envelope in connection.events(session_id, after):
        if "seq" in envelope:
            print(raw(envelope), flush=True)


async def _converse(connection: Connection, session: Session, after: int | None) -> None:
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    screen = Screen(sys.stdout, sys.stdout)
    screen.say(Said("card", f"{one_line(session.get('title') or 'a new conversation')}  ({session['id']})"))
    if interactive:
        screen.say(Said("note", HELP))
    conversation = Conversation(
        connection,
        session["id"],
        screen,
        interactive=interactive,
        messages=True,
        narrator=Narrator(),
        clock=asyncio.get_running_loop().time,
    )

    async def take(envelope: Envelope) -> bool:
        await conversation.show(envelope)
        return bool(envelope["type"] == "deleted")

    start = await _last_turn(connection, session) if after is None else after
    following = follow(connection.events(session["id"], start, sys.stdout.isatty()), take)
    if interactive:
        await first_of(following, type_lines(Keyboard().line, conversation.typed))
    else:
        await following


async def _last_turn(connection: Connection, session: Session) -> int:
    """The cursor just before what began the last turn; the beginning, or a piece back, where none is found."""
    after: int = max(0, session["head_seq"] - _LOOK_BACK)
    query = {"format": "json", "after": after, "limit": _LOOK_BACK}
    events: list[dict[str, Any]] = (await connection.request("GET", session_path(session["id"], "/events"), query=query)).body["events"]
    for at in range(len(events) - 1, -1, -1):
        if events[at]["type"] == "turn_started":
            return _before_messages(events[:at], events[at])
    return after


def _before_messages(before: list[dict[str, Any]], started: dict[str, Any]) -> int:
    first: int = started["seq"]
    for event in before:
        if event["type"] == "message_added" and event["data"]["message"]["id"] in started["data"]["message_ids"]:
            seq: int = event["seq"]
            first = min(first, seq)
    return first - 1
