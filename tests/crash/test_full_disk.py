"""A disk that is full, or fails: clients hear of it, the engine's own reports are kept, nothing that was said is lost (DESIGN 1)."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest
from engines import PERSON, WITHIN, Engine, engine, until
from storm_log import Told, check_effects

from disks import FailingDisk
from palaver.engine.clock import Clock
from palaver.engine.session import Session, Surroundings
from palaver.errors import DiskFailed
from palaver.log.disk import Disk
from palaver.log.memory import MemoryLog
from palaver.tools.processes import Marks, find_marked
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.ids import ItemId, MessageId, SessionId, StepId, TurnId
from palaver.wire.values import Author, Message, Part, SessionInfo
from palaver_daemon import palaver
from story import CAN

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class FailsAt(Disk):
    """Fails the calls number `first` to `last` of those that write or sync, counted from `arm()` on."""

    def __init__(self, first: int, last: int) -> None:
        self._numbers = range(first, last + 1)
        self._count: int | None = None
        self.failed = 0

    def arm(self) -> None:
        self._count = 0

    def _check(self) -> None:
        if self._count is not None:
            self._count += 1
            if self._count in self._numbers:
                self.failed += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write_at(self, fd: int, data: bytes, offset: int) -> None:
        self._check()
        super().write_at(fd, data, offset)

    def sync(self, fd: int) -> None:
        self._check()
        super().sync(fd)


def told(engine: Engine, session_id: str) -> Told:
    return Told(engine.data / "sessions" / session_id)


async def says(engine: Engine, session_id: str, text: str) -> str:
    """As a person does it: the same message again until it is taken."""
    async with asyncio.timeout(WITHIN):
        while True:
            try:
                return str((await engine.says(session_id, text, client_message_id="once"))["turn_id"])
            except DiskFailed:
                await asyncio.sleep(0.01)


async def note(workspace: Path) -> None:
    path = workspace / "note"
    path.write_text('#!/bin/sh\necho "$1" >> effects\n')
    path.chmod(0o755)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_turn_ends_well_whatever_write_or_sync_of_it_fails(tmp_path: Path, times: int) -> None:
    """Promises 2, 4 and 5: a failure costs time, and neither a report nor the text in flight nor a second effect."""

    async def with_failure_at(number: int) -> bool:
        disk = FailsAt(number, number + times - 1)
        async with engine(tmp_path / str(number), disk) as one:
            await note(one.workspace)
            session_id = await one.opens()
            disk.arm()
            text = "think about it then run the command `./note a` then write 30 words then read the file note"
            turn_id = await says(one, session_id, text)
            state = await one.turn_ends(session_id, turn_id)
            assert state.last_turn is not None and state.last_turn.outcome == "completed", (number, state.last_turn)
            log = told(one, session_id)
        log.check()
        check_effects([log], one.workspace / "effects")
        check_texts(log)
        assert (one.workspace / "effects").read_text() == "a\n", number
        return disk.failed > 0

    failed = await asyncio.gather(*map(with_failure_at, range(1, 40)))
    assert sum(failed) > 20, "the turn is shorter than the row of failures"


def check_texts(log: Told) -> None:
    """Adding up the deltas gives the texts of the messages (DESIGN 3, the tail)."""
    grown: dict[str, str] = {}
    for delta in log.all(e.ModelOutputDelta):
        assert delta.offset == len(grown.get(delta.part_id, "")), delta
        grown[delta.part_id] = grown.get(delta.part_id, "") + delta.text
    whole = {part.id: part.text for event in log.all(e.ModelOutputCompleted) for part in event.message.parts if part.text}
    assert grown == whole


async def test_a_client_hears_507_and_its_message_counts_when_it_comes_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with engine(tmp_path, disk) as one:
        session_id = await one.opens()
        before = told(one, session_id).lines
        disk.fail("sync")
        for _ in range(3):
            with pytest.raises(DiskFailed):
                await one.says(session_id, "write 3 words", client_message_id="m")
        session = await one.session(session_id)
        assert session.ahead == session.safe, "ahead becomes safe again"
        assert told(one, session_id).lines == before
        disk.heal()
        reply = await one.says(session_id, "write 3 words", client_message_id="m")
        await one.turn_ends(session_id, reply["turn_id"])
        log = told(one, session_id)
    log.check()
    assert len(log.of_client_message("m")) == 1


async def test_what_changes_nothing_is_answered_as_soon_as_the_disk_is_well(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with engine(tmp_path, disk) as one:
        session_id = await one.opens()
        disk.fail("sync")
        with pytest.raises(DiskFailed):
            await one.says(session_id, "write 3 words")
        disk.heal()
        assert await one.daemon.hub.cancel(session_id, None, True, PERSON) == {"turn_id": None}


async def test_a_cancel_that_cannot_be_written_stops_the_processes_all_the_same(tmp_path: Path) -> None:
    """DESIGN 1: 507, the group is gone, nothing is run again when the disk is well, and the turn ends cancelled."""
    disk = FailingDisk()
    async with engine(tmp_path, disk) as one:
        await note(one.workspace)
        session_id = await one.opens()
        turn_id = (await one.says(session_id, "run the command `./note a; printf words; sleep 600`"))["turn_id"]
        await until(lambda: (one.workspace / "effects").exists())
        marks = Marks((one.data / "mark").read_text().strip(), "")
        assert find_marked(marks)
        disk.fail("sync")
        with pytest.raises(DiskFailed):
            await one.daemon.hub.cancel(session_id, None, True, PERSON)
        await until(lambda: not find_marked(marks), 3)
        disk.heal()
        state = await one.turn_ends(session_id, turn_id)
        assert state.last_turn is not None and state.last_turn.outcome == "cancelled"
        log = told(one, session_id)
    log.check()
    assert (one.workspace / "effects").read_text() == "a\n"


async def test_text_that_comes_while_the_disk_is_full_is_not_lost(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with engine(tmp_path, disk) as one:
        session_id = await one.opens()
        turn_id = (await one.says(session_id, "write 2000 words then wait 0.4 seconds then write 2000 words"))["turn_id"]
        await one.until(session_id, lambda state: bool(state.turn and state.turn.output and state.turn.output.parts))
        disk.fail("sync", times=2)
        state = await one.turn_ends(session_id, turn_id)
        assert state.last_turn is not None and state.last_turn.outcome == "completed"
        log = told(one, session_id)
    check_texts(log)


async def test_a_log_that_cannot_be_cut_back_is_read_only_until_it_is_opened_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with engine(tmp_path, disk) as one:
        session_id = await one.opens()
        turn_id = (await one.says(session_id, "write 3 words"))["turn_id"]
        await one.turn_ends(session_id, turn_id)
        before = told(one, session_id).lines
        disk.fail("sync")
        disk.fail("truncate")
        with pytest.raises(DiskFailed):
            await one.says(session_id, "write 4 words")
        disk.heal()
        for _ in range(2):
            with pytest.raises(DiskFailed):
                await one.says(session_id, "write 5 words")
        assert (await one.daemon.hub.events(session_id, 0, 1000)).lines == before, "readers get what is safe"
    async with engine(tmp_path) as again:
        await again.daemon.sessions.recovered()
        session = await again.session(session_id)
        await session.until(lambda state: state.turn is None)
        turn_id = (await again.says(session_id, "write 6 words"))["turn_id"]
        await again.turn_ends(session_id, turn_id)
        log = told(again, session_id)
        assert log.lines[: len(before)] == before
    log.check()


async def test_a_daemon_ends_in_time_though_its_disk_takes_nothing(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with asyncio.timeout(WITHIN):
        async with engine(tmp_path, disk) as one:
            session_id = await one.opens()
            await one.says(session_id, "write 20 words then wait 600 seconds")
            await one.until(session_id, lambda state: bool(state.turn and state.turn.steps))
            disk.fail("sync")
    async with engine(tmp_path) as again:
        state = await again.until(session_id, lambda state: state.turn is None)
        assert state.last_turn is not None and state.last_turn.outcome == "interrupted"
        told(again, session_id).check()


@pytest.mark.timeout(10)
async def test_waiting_for_what_was_told_lets_the_loop_run() -> None:
    """The disk may have taken it in this very pass of the loop, and the session hears of it only in the next."""

    async def nothing_to_do(session: object, work: object = None) -> None:
        return None

    around = Surroundings(MemoryLog(), Clock(), nothing_to_do, nothing_to_do, lambda *_: None, lambda _: None)
    session = Session(SessionId("sess_1"), around)
    await around.log.open(session.key, create=True)
    at = "2026-01-01T00:00:00.000Z"
    info = SessionInfo(SessionId("sess_1"), at, "/", None, True, None, "demo", "loop", "demo", "ask", "queue", CAN)
    await session.submit(c.CreateSession(session=info))
    message = Message(MessageId("msg_1"), "user", (Part("text", text="x"),), at, Author("user"))
    await session.submit(c.AddMessage(message=message, turn_id=TurnId("turn_1"), item_id=ItemId("item_1")))
    session.report_soon(c.BeginStep(turn_id=TurnId("turn_1"), step_id=StepId("step_1")))
    await session.told()
    assert session.safe.turn is not None and session.safe.turn.steps == 1


async def test_sessions_that_cannot_be_created_leave_nothing_open(tmp_path: Path) -> None:
    disk = FailingDisk()
    async with engine(tmp_path, disk) as one:
        await one.opens()
        for call in ("sync", "write_at", "rename"):
            disk.fail(call)
            with pytest.raises(DiskFailed):
                await one.opens()
            before = len(os.listdir("/dev/fd"))
            for _ in range(5):
                with pytest.raises(DiskFailed):
                    await one.opens()
            assert len(os.listdir("/dev/fd")) <= before, call
            disk.heal()
        await one.opens()


async def test_the_answer_over_http_is_507_and_says_what_to_do(tmp_path: Path) -> None:
    """API, Errors: `disk`."""
    disk = FailingDisk()
    async with palaver(tmp_path, disk=disk) as here, here.chat() as chat:
        disk.fail("write_at")
        answer = await chat.refused("POST", "messages", {"role": "user", "parts": [{"type": "text", "text": "write 3 words"}]})
        assert (answer.status, answer.code) == (507, "disk")
        assert "try again" in answer.json["detail"]
        assert (await chat.get())["status"] == "active", "reading goes on"
        disk.heal()
        assert (await chat.runs("write 3 words"))["outcome"] == "completed"
