"""Many clients at once, doing whatever clients may do, in an order that chance gives: every promise holds, nothing accepted is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from palaver_daemon import Chat, Here, Json, Reader, check_ended, palaver, row_of

pytestmark = pytest.mark.anyio
HANDS = 6
DEEDS = 25
"""Of each of them."""
EXPECTED = (200, 201, 202, 204, 404, 409, 422)
WORDS = (
    "write 3 words",
    "think about it then write 2 words",
    "run the command `rm -f x`",
    "run the command `printf ab; printf cd >&2`",
    "ask me which with red or blue",
    "read the file notes.txt then write 4 words",
    "run the command `rm -f y` then fail",
    "fail",
    "wait 30 seconds",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Hand:
    """A client that has seen little and does something."""

    def __init__(self, here: Here, chat: Chat, random: Random, accepted: list[Json]) -> None:
        self._here, self._chat, self._random = here, chat, random
        self._accepted = accepted
        self._deeds: list[Callable[[], Awaitable[object]]] = [
            *[self.say] * 6,
            *[self.answer] * 5,
            *[self.touch_queue] * 4,
            self.cancel,
            self.retry,
            self.look,
            self.change,
        ]

    async def work(self) -> None:
        for _ in range(DEEDS):
            await self._random.choice(self._deeds)()

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._here.answer(method, path if path.startswith("/v1") else f"{self._chat.path}/{path}".rstrip("/"), body)
        assert answer.status in EXPECTED, (method, path, body, answer.body)
        return answer.json if answer.body and answer.status < 300 else None

    async def say(self) -> None:
        delivery = self._random.choice(("auto", "queue", "steer", "steer", "interrupt"))
        said: Json = {"role": "user", "parts": [{"type": "text", "text": self._random.choice(WORDS)}], "delivery": delivery}
        if self._random.random() < 0.2:
            said["client_message_id"] = f"m{self._random.randrange(5)}"
        if self._random.random() < 0.1:
            said["auto_run"] = False
        if reply := await self._ask("POST", "messages", said):
            self._accepted.append(reply)

    async def answer(self) -> None:
        items = [item for item in await self._here.inbox() if item["session_id"] == self._chat.id]
        if not items:
            return
        item = self._random.choice(items)
        if item["kind"] == "question":
            answers: Json = {"answers": {"choice": {"selected": [self._random.choice(("red", "blue"))]}}}
            await self._ask("POST", f"/v1/questions/{item['id']}", self._random.choice((answers, {"declined": True})))
        else:
            answers = {"action": self._random.choice(("approve", "deny")), "scope": self._random.choice(("once", "session"))}
            await self._ask("POST", f"/v1/approvals/{item['id']}", answers)

    async def touch_queue(self) -> None:
        items = (await self._ask("GET", "queue"))["items"]
        item = self._random.choice(items)["id"] if items else "item_no"
        other = self._random.choice(items)["id"] if items else None
        match self._random.randrange(6):
            case 0:
                await self._ask("DELETE", f"queue/{item}")
            case 1:
                if reply := await self._ask("POST", f"queue/{item}/promote"):
                    assert reply["message_id"]
            case 2:
                await self._ask("PATCH", f"queue/{item}", {"parts": [{"type": "text", "text": "write 5 words"}]})
            case 3:
                await self._ask("PATCH", f"queue/{item}", {"before": other})
            case 4:
                await self._ask("POST", "queue/pause")
            case _:
                await self._ask("POST", "queue/resume")

    async def cancel(self) -> None:
        await self._ask("POST", "cancel", {"keep_queue": self._random.random() < 0.7})

    async def retry(self) -> None:
        if turn := (await self._ask("GET", ""))["last_turn_id"]:
            await self._ask("POST", f"turns/{turn}/retry")

    async def look(self) -> None:
        page = await self._ask("GET", "transcript")
        assert page["as_of_seq"] >= 1

    async def change(self) -> None:
        await self._ask("PATCH", "", {"mode": self._random.choice(("ask", "auto")), "title": f"T{self._random.randrange(9)}"})


@pytest.mark.parametrize("seed", range(4))
async def test_many_hands_leave_a_session_whole(tmp_path: Path, seed: int) -> None:
    """Promises 1, 2, 4, 5, 8: over HTTP, with readers that come and go, and again after a restart."""
    random = Random(seed)
    async with palaver(tmp_path) as here, here.chat() as chat, here.reader(chat.id, tail=True) as tail:
        (here.workspace / "notes.txt").write_text("milk\n")
        accepted: list[Json] = []
        readers: list[Reader] = []

        async def comes_and_goes() -> None:
            while True:
                async with here.reader(chat.id, tail=random.random() < 0.5) as reader:
                    await reader.until(lambda: [one for one in reader.controls if one.event == "caught_up"])
                    readers.append(reader)

        visitor = asyncio.create_task(comes_and_goes())
        await asyncio.gather(*(Hand(here, chat, Random(f"{seed} {hand}"), accepted).work() for hand in range(HANDS)))
        visitor.cancel()
        await _quiet(chat)
        log = await chat.check()
        check_ended(log)
        await tail.reached(len(log))
        told, session = await chat.transcript(), await chat.get()
        assert told == chat.reader.page() == tail.page()
        assert tail.transcript.tails == {}
        assert readers and all(reader.events == log[: len(reader.events)] for reader in readers)
        _nothing_lost(log, session, accepted)
        assert (await here.ask("GET", "/v1/sessions"))["sessions"][0] == row_of(session)
    async with palaver(tmp_path) as here, here.chat(chat.id) as again:
        assert (await again.transcript(), await again.get()) == (told, session)
        sent = await again.say("write 2 words", auto_run=True)
        await _quiet(again)
        assert (await again.ended(sent["turn_id"]))["outcome"] in ("completed", "cancelled")
        check_ended(await again.check())


async def _quiet(chat: Chat) -> None:
    """Cancel until nothing runs; the queue stays as it is."""
    while True:
        if (await chat.post("cancel"))["turn_id"] is None:
            return
        await chat.idle()


def _nothing_lost(log: list[Json], session: Json, accepted: list[Json]) -> None:
    """A message that was accepted was read by a turn, waits as stored or queued, or was taken out of the queue by a command."""
    text = [event["type"] for event in log]
    assert text.count("turn_started") >= 1
    read = {id for event in log if event["type"] == "turn_started" for id in event["data"]["message_ids"]}
    read |= {event["data"]["message_id"] for event in log if event["type"] == "message_delivered"}
    queued = {item["message_id"] for event in log if event["type"] == "queue_changed" for item in event["data"]["items"]}
    added = {event["data"]["message"]["id"] for event in log if event["type"] == "message_added"}
    stored = {event["data"]["message"]["id"] for event in log if event["type"] == "message_added" and event["turn_id"] is None}
    dropped = any(event["type"] == "turn_cancel_requested" and not event["data"]["keep_queue"] for event in log)
    for reply in accepted:
        id = reply["message_id"]
        assert id in added | queued, (reply, "is not in the log")
        assert id in read | queued | stored or dropped, (reply, "was not read")
    still = {item["message_id"] for item in session["queue"]["items"]}
    assert not still & read, "what waits in the queue has not run"
