"""The power goes at every change of the disk in turn, and all that no sync covered is gone (promises 1, 2 and 4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from engines import PERSON, WITHIN, Engine, built, engine
from storm_log import Told, check_effects

from disks import LossyDisk
from palaver.errors import DiskFailed
from palaver.views.transcript import Transcript, show
from palaver.wire import events as e
from palaver.wire import requests as r
from palaver.wire.codec import decode_event

Check = Callable[[Told], bool]


class Person:
    """Uses the daemon until the power goes; keeps what was acknowledged and what it was shown."""

    def __init__(self, one: Engine) -> None:
        self.one = one
        self.promises: list[tuple[str, Check]] = []
        self.seen: dict[str, list[bytes]] = {}
        self.draft: str | None = None
        self.readers: list[asyncio.Task[None]] = []

    async def reads(self, session_id: str) -> None:
        async for batch in self.one.daemon.hub.follow(session_id, 0, tail=True):
            self.seen[session_id] += batch.lines

    async def opens(self, mode: str) -> str:
        session_id = await self.one.opens(mode)
        self.promises.append((session_id, lambda log: log.recorded[0].seq == 1))
        self.seen[session_id] = []
        self.readers.append(asyncio.ensure_future(self.reads(session_id)))
        return session_id

    async def says(self, session_id: str, text: str, delivery: str = "auto") -> str:
        reply = await self.one.says(session_id, text, delivery=delivery)
        message_id = reply["message_id"]
        self.promises.append((session_id, lambda log: message_id in log.message_ids()))
        return str(reply["turn_id"])

    async def asked(self, session_id: str) -> str:
        state = await self.one.until(session_id, lambda state: bool(state.asks))
        return next(iter(state.asks))

    async def a_day(self) -> None:
        """Raises `DiskFailed` when the power goes while something is asked for, `TimeoutError` when it goes while nothing is."""
        hub = self.one.daemon.hub
        first = await self.opens("ask")
        turn_id = await self.says(first, "run the command `./note a` then ask me Which with A or B then read the file note")
        ask = await self.asked(first)
        await hub.answer_approval(ask, r.ApprovalAnswer(action="approve", scope="workspace"), PERSON)
        self.promises.append((first, lambda log, ask=ask: ask in {one.approval_id for one in log.all(e.ApprovalGranted)}))  # type: ignore[misc]
        ask = await self.asked(first)
        answers = msgspec.convert({"answers": {"choice": {"selected": ["B"]}}}, r.QuestionAnswer)
        await hub.answer_question(ask, answers, PERSON)
        self.promises.append((first, lambda log, ask=ask: ask in {one.question_id for one in log.all(e.QuestionAnswered)}))  # type: ignore[misc]
        await self.one.turn_ends(first, turn_id)
        second = await self.opens("auto")
        turn_id = await self.says(second, "write 200 words then wait 600 seconds")
        await self.says(second, "run the command `./note c`", "queue")
        await self.one.until(second, lambda state: bool(state.turn and state.turn.output and state.turn.output.parts))
        await hub.cancel(second, None, True, PERSON)
        self.promises.append((second, lambda log: len(log.all(e.TurnCancelRequested)) == 1))
        await self.one.turn_ends(second, turn_id)
        await hub.put_draft(second, {"text": "half", "attachments": [], "rev": 0}, PERSON)
        self.draft = second
        await hub.close(second, PERSON)
        self.promises.append((second, lambda log: log.state.closed))


async def lose(folder: Path, lose_at: int | None, torn: float) -> tuple[Person, range]:
    """One day on a disk that loses power; the daemon is dropped as it stands. Also gives the numbers of the day's changes."""
    disk = LossyDisk(folder / "graveyard", lose_at=lose_at, torn=torn)
    one = built(folder, disk)
    first = disk.changes + 1
    note = one.workspace / "note"
    note.write_text('#!/bin/sh\necho "$1" >> effects\n')
    note.chmod(0o755)
    person = Person(one)
    one.daemon.sessions.start()
    try:
        with suppress(DiskFailed, asyncio.CancelledError):
            await until_lost(disk, asyncio.ensure_future(person.a_day()))
    finally:
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        disk.lose()
        await one.daemon.log.shut()
    return person, range(first, disk.changes + 1)


async def until_lost(disk: LossyDisk, day: asyncio.Future[None]) -> None:
    async with asyncio.timeout(WITHIN):
        while not (day.done() or disk.lost):
            await asyncio.wait([day], timeout=0.02)
    if not day.done():
        day.cancel()
    await day


async def find(folder: Path, person: Person) -> None:
    """Start again on a good disk, and compare."""
    async with engine(folder) as one:
        async with asyncio.timeout(WITHIN):
            await one.daemon.sessions.recovered()
            for session_id, check in person.promises:
                await one.session(session_id)
                assert check(Told(one.data / "sessions" / session_id)), session_id
            logs = [Told(one.data / "sessions" / session_id) for session_id in person.seen]
            for log in logs:
                await one.until(log.id, lambda state: state.turn is None or state.only_waits)
                log = Told(one.data / "sessions" / log.id)
                log.check()
                seen = person.seen[log.id]
                assert log.lines[: len(seen)] == seen, f"{log.id}: a reader was shown what is gone"
                check_follower(seen, log)
            check_effects([Told(folder) for folder in (one.data / "sessions").iterdir()], one.workspace / "effects")
            if person.draft is not None:
                local = json.loads((one.data / "sessions" / person.draft / "local.json").read_bytes())
                assert local["text"] == "half"


def check_follower(seen: list[bytes], log: Told) -> None:
    """Who followed until the loss and goes on from the cursor ends with the fold of the log."""
    shown = Transcript()
    for line in [*seen, *log.lines[len(seen) :]]:
        show(shown, decode_event(line))
    assert shown.entries == log.transcript.entries


def one_loss(folder: Path, lose_at: int | None, torn: float) -> range:
    folder.mkdir()
    person, changes = asyncio.run(lose(folder, lose_at, torn))
    asyncio.run(find(folder, person))
    return changes


@pytest.mark.timeout(300)
def test_no_acknowledged_command_and_nothing_shown_is_lost_wherever_the_power_goes(tmp_path: Path) -> None:
    """Promises 1, 2, 4: at every change in turn, of writes, syncs, names and removals."""
    changes = one_loss(tmp_path / "whole", None, 0.0)
    assert len(changes) > 50
    for lose_at in changes:
        one_loss(tmp_path / str(lose_at), lose_at, (0.0, 0.5, 1.0)[lose_at % 3])
