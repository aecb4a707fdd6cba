"""`run`: one message, its turn until the end, and an exit status that a script can rely on."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any, Literal

from palaver.cli.conversation import ASKING, Conversation, first_of, follow, inbox, post_message, raw, type_lines
from palaver.cli.keyboard import Keyboard
from palaver.cli.narrate import Envelope, Narrator
from palaver.cli.screen import Said, Screen
from palaver.cli.start import connect_or_start
from palaver.cli.target import Session, find_session, session_path, text_of
from palaver.client.connect import Connection
from palaver.errors import Failed, Refused

COMPLETED, FAILED, CANCELLED, NOBODY_THERE, LEFT = 0, 1, 3, 4, 130
_AFTER_CANCEL_S = 10.0
"""A cancelled turn ends within 2 s; a daemon that does not answer is not waited for much longer."""
_GONE_S = 2.0
"""What takes a message out of the queue and what says where it went are one append: they never come far apart."""


def run(args: argparse.Namespace) -> int:
    text = text_of(args.text)
    return asyncio.run(_run(args, text))


def exit_status(outcome: str) -> int:
    """Of a turn's outcome."""
    return {"completed": COMPLETED, "cancelled": CANCELLED}.get(outcome, FAILED)


async def _run(args: argparse.Namespace, text: str) -> int:
    async with await connect_or_start(args) as connection:
        session, after = await _session(connection, args)
        reply = await post_message(connection, session["id"], text, auto_run=True)
        return await Waiting(connection, session["id"], reply, args).until_the_end(after)


async def _session(connection: Connection, args: argparse.Namespace) -> tuple[Session, int]:
    """The session, and the cursor from which its events are ours."""
    if args.session is not None:
        session = await find_session(connection, args.session)
        return session, session["head_seq"]
    body: dict[str, Any] = {"workspace_path": str(Path(args.workspace).expanduser().absolute())}
    body.update({key: value for key in ("agent", "model", "mode") if (value := getattr(args, key)) is not None})
    created = (await connection.request("POST", "/v1/sessions", body)).body
    return created["session"], 0


class Mine:
    """Which turn is ours, as the events tell: a message that waits may be moved to another one. Pure."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.message_id: str = reply["message_id"]
        self.turn_id: str | None = reply["turn_id"]
        self.item_id: str | None = reply.get("item_id")
        """Its place in the queue, while it has one."""
        self.gone = False
        """It left the queue, and nothing has said yet what became of it."""
        self.status: int | None = None
        self.why = ""
        """Said where the status has no turn's end to go with it."""

    def take(self, envelope: Envelope) -> bool:
        """Whether this envelope belongs to our turn."""
        kind, data = envelope["type"], envelope["data"]
        if kind == "turn_started" and self.message_id in data["message_ids"]:
            self.turn_id, self.item_id, self.gone = envelope["turn_id"], None, False
        elif kind == "message_added" and data["message"]["id"] == self.message_id:
            self.item_id, self.gone = None, False
        elif kind == "message_delivered" and data["message_id"] == self.message_id:
            self.turn_id = data["turn_id"]
        elif kind == "queue_changed":
            self._take_queue(data)
        elif kind == "turn_completed" and envelope["turn_id"] == self.turn_id:
            self.status = exit_status(data["outcome"])
        elif kind == "deleted":
            self.status, self.why = FAILED, "The conversation was deleted."
        return self.turn_id is not None and envelope.get("turn_id") == self.turn_id

    def _take_queue(self, data: dict[str, Any]) -> None:
        item = next((item for item in data["items"] if item["message_id"] == self.message_id), None)
        if item is None:
            self.gone = self.gone or self.item_id is not None
            return
        self.item_id, self.turn_id, self.gone = item["id"], item["turn_id"], False
        if item["paused"]:
            self.status, self.why = FAILED, "The message waits in a paused queue. Resume it with: palaver open"


class Waiting:
    """One turn, waited for. SIGINT and the timeout cancel it and wait for its end; a second SIGINT does not wait."""

    def __init__(self, connection: Connection, session_id: str, reply: dict[str, Any], args: argparse.Namespace) -> None:
        self._connection = connection
        self._session_id = session_id
        self._args = args
        self._mine = Mine(reply)
        self._screen = Screen(sys.stdout, sys.stderr)
        self._interactive = sys.stdin.isatty() and not args.json
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        """Set when there is nothing left to wait for, whatever the events say."""
        self._cancelling: asyncio.Task[None] | None = None
        self._conversation = Conversation(
            connection,
            session_id,
            self._screen,
            interactive=self._interactive,
            messages=False,
            narrator=Narrator(tell_messages=False),
            clock=self._loop.time,
        )

    async def until_the_end(self, after: int) -> int:
        """Follow from `after`; the exit status."""
        if self._args.timeout:
            self._loop.call_later(self._args.timeout, self._stop)
        self._loop.add_signal_handler(signal.SIGINT, self._interrupted)
        try:
            tail = sys.stdout.isatty() and not self._args.json
            works = [follow(self._connection.events(self._session_id, after, tail), self._take), self._until_over()]
            if self._interactive:
                works.append(self._keyboard())
            await first_of(*works)
        finally:
            self._loop.remove_signal_handler(signal.SIGINT)
            if self._cancelling is not None:
                self._cancelling.cancel()
        self._screen.say(Said("end"))
        if self._mine.why:
            self._screen.say(Said("bad", self._mine.why))
        return FAILED if self._mine.status is None else self._mine.status

    async def _take(self, envelope: Envelope) -> bool:
        mine = self._mine.take(envelope)
        if self._args.json:
            if "seq" in envelope:
                print(raw(envelope), flush=True)
        else:
            await self._conversation.show(envelope, told=mine)
        if self._mine.gone:
            self._loop.call_later(_GONE_S, self._end_if_gone)
        if self._mine.status is None and not self._interactive and envelope["type"] in ("caught_up", *ASKING):
            await self._nobody_there()
        return self._mine.status is not None

    async def _nobody_there(self) -> None:
        """Something is asked, and no person can be: print what it is and leave it open for another client."""
        items = await inbox(self._connection, self._session_id)
        if items and self._cancelling is None:
            self._screen.say(Said("end"))
            print(raw(items[0]), file=sys.stderr if self._args.json else sys.stdout, flush=True)
            self._mine.status = NOBODY_THERE
            self._mine.why = f"This waits for an answer. Give it with: palaver attach {self._session_id}"

    async def _keyboard(self) -> None:
        await type_lines(Keyboard().line, self._typed)
        self._interactive = False  # the input ended: from now on nobody is there
        await self._nobody_there()
        if self._mine.status is None:
            await self._until_over()

    async def _typed(self, line: str) -> Literal["stay", "leave"]:
        return await self._conversation.typed(line)

    async def _until_over(self) -> None:
        await self._over.wait()

    def _interrupted(self) -> None:
        if self._cancelling is None:
            self._stop()
        else:
            self._end(LEFT, "")

    def _stop(self) -> None:
        if self._cancelling is None:
            self._screen.say(Said("bad", "cancelling …"))
            self._cancelling = self._loop.create_task(self._cancel())
            self._loop.call_later(_AFTER_CANCEL_S, self._end, CANCELLED, "The turn was told to stop, and has not said that it did.")

    async def _cancel(self) -> None:
        """Take the message out of the queue, or cancel its turn; the end of the turn comes as an event."""
        try:
            if self._mine.item_id is not None and await self._removed(self._mine.item_id):
                self._end(CANCELLED, "The message was taken out of the queue.")
                return
            await self._conversation.cancel(self._mine.turn_id)
        except (Refused, Failed) as error:
            self._end(FAILED, f"It could not be cancelled: {error}")

    async def _removed(self, item_id: str) -> bool:
        try:
            await self._connection.request("DELETE", session_path(self._session_id, f"/queue/{item_id}"))
        except Refused as error:
            if error.code != "item_gone":
                raise
            return False  # its turn began meanwhile
        return True

    def _end_if_gone(self) -> None:
        if self._mine.gone:
            self._end(CANCELLED, "Somebody took the message out of the queue.")

    def _end(self, status: int, why: str) -> None:
        if self._mine.status is None:
            self._mine.status, self._mine.why = status, why
        self._over.set()
