"""One session in a terminal: what happens is told, what is asked is shown whole, what is typed answers it.

The ask that a line answers is the oldest one that is open, and only once it has been on the screen for 400 ms: what was typed
before it came, or while another one took its place, decides nothing (SECURITY.md 20).
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Literal

from palaver.cli import asks
from palaver.cli.narrate import Envelope, Narrator
from palaver.cli.screen import Said, Screen, one_line
from palaver.cli.target import session_path
from palaver.client.connect import Connection
from palaver.client.refs import whole
from palaver.errors import Failed, Refused

ARMED_S = 0.4

ASKING = ("approval_requested", "question_asked")
_SETTLING = {"approval_granted": "approval_id", "approval_denied": "approval_id", "question_answered": "question_id"}

HELP = (
    "A line is sent as a message; while something is asked, begin it with >\n"
    "/cancel stops the turn, /quit or Ctrl-D leaves; what runs goes on"
)


class Conversation:
    """`show` takes the envelopes in order, `typed` the lines. Both belong to one loop."""

    def __init__(
        self,
        connection: Connection,
        session_id: str,
        screen: Screen,
        *,
        interactive: bool,
        messages: bool,
        narrator: Narrator,
        clock: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._screen = screen
        self._interactive = interactive
        self._messages = messages
        self._narrator = narrator
        self._clock = clock
        self._live = False
        self._open: dict[str, asks.Item] = {}
        """The asks that are open, the oldest first."""
        self._marked: str | None = None
        self._armed_at = 0.0
        self._answers: dict[str, Any] = {}
        """To the marked ask's questions, so far."""

    @property
    def waiting(self) -> list[asks.Item]:
        return list(self._open.values())

    async def show(self, envelope: Envelope, *, told: bool = True) -> None:
        """Take one envelope; with `told` false only what is asked counts."""
        kind = envelope["type"]
        if kind in ASKING:
            item = asks.item_of(envelope)
            self._open[item["id"]] = item
        elif kind in _SETTLING:
            self._open.pop(envelope["data"][_SETTLING[kind]], None)
        elif kind == "caught_up":
            await self._catch_up()
        if told:
            for said in self._narrator.take(envelope):
                self._screen.say(said)
        if self._live and (kind in ASKING or kind in _SETTLING):
            await self._mark()

    async def typed(self, line: str) -> Literal["stay", "leave"]:
        """Do what a line says. A refusal by the daemon is shown, and the conversation goes on."""
        try:
            return await self._do(line)
        except (Refused, Failed) as error:
            self._note(f"! {one_line(str(error))}")
            return "stay"

    async def cancel(self, turn_id: str | None = None) -> None:
        body = {"turn_id": turn_id} if turn_id else {}
        await self._connection.request("POST", session_path(self._session_id, "/cancel"), body)

    async def _catch_up(self) -> None:
        """From here on asks are shown as they come; first those that the replay did not bring, from before its first event."""
        if self._live:
            return
        self._live = True
        known = await inbox(self._connection, self._session_id)
        self._open = {item["id"]: {**item, "session_title": self._title_of(item)} for item in known}
        await self._mark()

    def _title_of(self, item: asks.Item) -> str | None:
        """Told where the ask comes from another session, one that this one started."""
        return item.get("session_title") if item["session_id"] != self._session_id else None

    async def _mark(self) -> None:
        oldest = next(iter(self._open), None)
        if oldest == self._marked:
            return
        self._marked, self._answers = oldest, {}
        if oldest is None:
            return
        item = self._open[oldest]
        try:
            item = {**item, "data": await whole(self._connection, item["session_id"], item["data"])}
        except (Refused, Failed) as error:
            self._screen.say(Said("card", asks.card(item)))
            self._note(f"! it cannot be shown whole, so it cannot be answered here: {one_line(str(error))}")
            self._armed_at = math.inf
            return
        self._open[oldest] = item
        self._screen.say(Said("card", asks.card(item)))
        self._ask()

    def _ask(self) -> None:
        """Show what may be typed, and take no answer until it was there to be read."""
        if self._marked is not None and self._interactive:
            self._screen.say(Said("card", asks.prompt(self._open[self._marked], self._answers)))
        self._armed_at = self._clock() + ARMED_S

    async def _do(self, line: str) -> Literal["stay", "leave"]:
        words = line.strip()
        if words == "/quit":
            return "leave"
        if words == "/cancel":
            await self.cancel()
        elif words == "/help":
            self._note(HELP)
        elif words.startswith(">") and self._messages:
            await post_message(self._connection, self._session_id, words[1:].strip())
        elif self._marked is not None and await self._answered(words):
            pass
        elif words in ("y", "n", "s", "w"):
            self._note("nothing is asked, so this was not sent")
        elif words.startswith("/") and not words.startswith("//"):
            self._note(f"there is no {one_line(words.split()[0])} here: /cancel /quit /help. Begin with // to send it as it stands.")
        elif words and self._messages:
            await post_message(self._connection, self._session_id, words.removeprefix("/") if words.startswith("//") else words)
        elif words:
            self._note("answer with one of the words above")
        return "stay"

    async def _answered(self, line: str) -> bool:
        """Whether the line was meant for the marked ask, be it that it answers or that it comes too early."""
        assert self._marked is not None
        item = self._open[self._marked]
        reply = asks.answer(item, line, self._answers)
        if isinstance(reply, asks.Unclear):
            if item["kind"] != "question" and len(line.split()) > 1:
                return False  # a message, not an answer
            self._note(reply.says)
        elif self._armed_at == math.inf:
            self._note("it was not shown whole, so it cannot be answered here")
        elif self._clock() < self._armed_at:
            self._note("typed before it could be read, so it does not count: type it again")
        elif isinstance(reply, asks.More):
            self._answers = reply.answers
            self._ask()
        else:
            await self._connection.request("POST", reply.path, {**reply.body, "client_answer_id": secrets.token_hex(8)})
        return True

    def _note(self, text: str) -> None:
        self._screen.say(Said("note", text))


async def inbox(connection: Connection, session_id: str) -> list[asks.Item]:
    """What waits for a person in this session or in one that it started, the oldest first."""
    items = (await connection.request("GET", "/v1/inbox")).body["items"]
    mine = [item for item in items if session_id == item["session_id"] or session_id in item.get("path", ())]
    return sorted(mine, key=lambda item: str(item.get("requested_at", "")))


async def post_message(connection: Connection, session_id: str, text: str, **options: Any) -> dict[str, Any]:
    """Send a message once, also when the connection breaks on the way: the second try counts as the first."""
    body = {"role": "user", "parts": [{"type": "text", "text": text}], "client_message_id": secrets.token_hex(12)}
    body.update({key: value for key, value in options.items() if value is not None})
    path = session_path(session_id, "/messages")
    try:
        answer = await connection.request("POST", path, body)
    except Failed as error:
        if error.code != "unreachable":
            raise
        answer = await connection.request("POST", path, body)
    reply: dict[str, Any] = answer.body
    return reply


async def follow(envelopes: AsyncGenerator[Envelope, None], take: Callable[[Envelope], Awaitable[bool]]) -> None:
    """Give envelopes to `take` until it says True."""
    async with aclosing(envelopes):
        async for envelope in envelopes:
            if await take(envelope):
                return


async def type_lines(lines: Callable[[], Awaitable[str | None]], typed: Callable[[str], Awaitable[Literal["stay", "leave"]]]) -> None:
    """Give lines to `typed` until it leaves or the input ends."""
    while (line := await lines()) is not None:
        if await typed(line) == "leave":
            return


async def first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run them side by side until the first one ends, then stop the others. Raises what that one raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def raw(envelope: Envelope) -> str:
    """A logged envelope as the API writes it, for `--json`."""
    import msgspec

    return msgspec.json.encode(envelope).decode()
