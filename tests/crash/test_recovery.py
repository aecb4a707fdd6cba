"""What a start looks at, and what it makes of what it finds (promise 6)."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path

import pytest
from engines import PERSON, Engine, built, engine
from storm_log import Told

from palaver.log.disk import Disk
from palaver.wire import events as e
from palaver.wire import requests as r

pytestmark = pytest.mark.anyio
OLD = 2000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class LookingDisk(Disk):
    """Counts each call, and the files that are opened by the folder that holds them."""

    def __init__(self) -> None:
        self.calls = Counter[str]()
        self.folders = Counter[str]()

    def open(self, path: Path, *, write: bool) -> int:
        self.calls["open"] += 1
        self.folders[path.parent.name] += 1
        return super().open(path, write=write)

    def read_at(self, fd: int, length: int, offset: int) -> bytes:
        self.calls["read"] += 1
        return super().read_at(fd, length, offset)

    def sync(self, fd: int) -> None:
        self.calls["sync"] += 1
        super().sync(fd)


async def leaves_three_open(folder: Path) -> set[str]:
    async with engine(folder) as one:
        ids = [await one.opens("ask") for _ in range(3)]
        for id in ids:
            await one.says(id, "run the command `true`")
        for id in ids:
            await one.until(id, lambda state: bool(state.asks))
        closed = await one.opens()
        await one.daemon.hub.close(closed, PERSON)
        await one.daemon.hub.list(limit=10)  # the list is made now, not when the next daemon is asked for it
    assert {path.name for path in (folder / "data" / "open").iterdir()} == set(ids)
    return set(ids)


def with_old_ones(folder: Path, number: int) -> None:
    sessions = folder / "data" / "sessions"
    opened = {path.name for path in (folder / "data" / "open").iterdir()}
    closed = next(path for path in sessions.iterdir() if path.name not in opened)
    for count in range(number):
        shutil.copytree(closed, sessions / f"sess_old{count}")


async def starts(folder: Path) -> LookingDisk:
    disk = LookingDisk()
    async with engine(folder, disk) as one:
        await one.daemon.sessions.recovered()
        seen = LookingDisk()
        seen.calls, seen.folders = disk.calls.copy(), disk.folders.copy()
    return seen


async def test_a_start_costs_what_is_open_and_not_what_there_has_ever_been(tmp_path: Path) -> None:
    """T-06, DESIGN 4: with 2 000 old sessions and with none the same files are opened, as often."""
    left = await leaves_three_open(tmp_path / "few")
    shutil.copytree(tmp_path / "few", tmp_path / "many", symlinks=True)
    with_old_ones(tmp_path / "many", OLD)
    few, many = await starts(tmp_path / "few"), await starts(tmp_path / "many")
    assert {name for name in many.folders if name.startswith("sess_")} == left
    assert many.folders.total() == few.folders.total()
    assert abs(many.calls.total() - few.calls.total()) <= 4, "but for how lines meet in one sync"


async def abandoned(one: Engine) -> None:
    """As kill -9 leaves it, but for this process: nothing is written any more."""
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()
    await one.daemon.log.shut()


def crashed_day(folder: Path, mode: str, text: str, until: str) -> str:
    """A session that was left in the middle of a turn."""

    async def day() -> str:
        one = built(folder)
        one.daemon.sessions.start()
        session_id = await one.opens(mode)
        await one.says(session_id, text)
        session = await one.session(session_id)
        async with asyncio.timeout(20):
            await session.until(lambda state: state.turn is not None and _is_at(until, session_id, one))
        await abandoned(one)
        return session_id

    return asyncio.run(day())


def _is_at(type: str, session_id: str, one: Engine) -> bool:
    return f'"type":"{type}"'.encode() in (one.data / "sessions" / session_id / "events.ndjson").read_bytes()


def test_a_session_that_no_marker_names_is_recovered_when_it_is_opened(tmp_path: Path) -> None:
    """A folder that was copied into place: its open turn ends, and is not run again (promise 6)."""
    session_id = crashed_day(tmp_path, "auto", "write 3 words then wait 600 seconds", "model_output_delta")
    (tmp_path / "data" / "open" / session_id).unlink()

    async def next_day() -> Told:
        async with engine(tmp_path) as one:
            state = await one.until(session_id, lambda state: state.turn is None)
            assert state.last_turn is not None and state.last_turn.outcome == "interrupted"
        return Told(tmp_path / "data" / "sessions" / session_id)

    log = asyncio.run(next_day())
    log.check()
    message = log.all(e.ModelOutputCompleted)[-1].message
    assert message.interrupted and message.parts[0].text


def test_a_log_that_makes_no_sense_costs_its_session_and_no_other(tmp_path: Path) -> None:
    sound = crashed_day(tmp_path, "auto", "write 3 words then wait 600 seconds", "model_output_delta")
    for name, line in (
        ("sess_a", b"no envelope\n"),
        ("sess_b", b'{"v":1,"seq":1,"ts":"","session_id":"sess_b","type":"turn_started","data":{}}\n'),
    ):
        folder = tmp_path / "data" / "sessions" / name
        folder.mkdir(mode=0o700)
        (folder / "events.ndjson").write_bytes(line + line)
        (tmp_path / "data" / "open" / name).touch()

    async def next_day() -> None:
        async with engine(tmp_path) as one, asyncio.timeout(8):
            await one.daemon.sessions.recovered()
            await one.until(sound, lambda state: state.turn is None)

    asyncio.run(next_day())
    Told(tmp_path / "data" / "sessions" / sound).check()


def test_an_end_that_comes_before_the_start_was_done_leaves_the_rest_to_the_next_start(tmp_path: Path) -> None:
    """Or the processes of an open call would be left with a log that calls it ended."""
    session_id = crashed_day(tmp_path, "auto", "run the command `printf begun; sleep 600`", "tool_output_delta")
    folder = tmp_path / "data" / "sessions" / session_id
    before = Told(folder).lines

    async def short_day() -> None:
        one = built(tmp_path)
        one.daemon.sessions.start()
        async with asyncio.timeout(20):
            while not any(task.done() for task in one.daemon.sessions._loaded.values()):
                await asyncio.sleep(0)
        await one.daemon.close()

    asyncio.run(short_day())
    assert Told(folder).lines == before

    async def next_day() -> None:
        async with engine(tmp_path) as one:
            await one.until(session_id, lambda state: state.turn is None)

    asyncio.run(next_day())
    log = Told(folder)
    log.check()
    assert log.all(e.TurnCompleted)[-1].cause == "crash"


async def test_a_client_that_goes_away_in_the_middle_of_its_answer_changes_nothing(tmp_path: Path) -> None:
    """STYLE, `send`: the grant, the answer and what the grant settles come whole; the folder's log takes the next rule."""
    answering: asyncio.Task[object] | None = None

    def reached(point: str) -> None:
        if point == "answer.granted" and answering is not None:
            answering.cancel()

    async with engine(tmp_path, reached=reached) as one:
        ids = [await one.opens("ask") for _ in range(2)]
        for id in ids:
            await one.says(id, "run the command `touch here`")
        asks = [next(iter((await one.until(id, lambda state: bool(state.asks))).asks)) for id in ids]
        answer = r.ApprovalAnswer(action="approve", scope="workspace")
        answering = asyncio.ensure_future(one.daemon.hub.answer_approval(asks[0], answer, PERSON))
        await asyncio.wait([answering])
        assert answering.cancelled()
        for id in ids:
            state = await one.until(id, lambda state: state.turn is None)
            assert state.last_turn is not None and state.last_turn.outcome == "completed"
        adding = asyncio.ensure_future(one.daemon.hub.add_rule(rule(one, "first"), PERSON))
        await asyncio.sleep(0)
        adding.cancel()
        await asyncio.wait([adding])
        await one.daemon.hub.add_rule(rule(one, "second"), PERSON)


def rule(one: Engine, word: str) -> r.NewRule:
    return r.NewRule(workspace=str(one.workspace), decision="allow", tool="shell", command=word)


def test_an_ask_whose_deadline_passed_expires_before_its_turn_is_judged(tmp_path: Path) -> None:
    """Promise 6: what no longer waits for anyone ends interrupted."""
    config = tmp_path / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text("[approval]\ndeadline_s = 0.2\n")
    session_id = crashed_day(tmp_path, "ask", "run the command `true`", "approval_requested")

    async def next_day() -> Told:
        async with asyncio.timeout(20):
            while one_is_early(tmp_path, session_id):
                await asyncio.sleep(0.01)
        async with engine(tmp_path) as one:
            state = await one.until(session_id, lambda state: state.turn is None)
            assert state.last_turn is not None and state.last_turn.outcome == "interrupted"
        return Told(tmp_path / "data" / "sessions" / session_id)

    log = asyncio.run(next_day())
    log.check()
    assert [one.cause for one in log.all(e.ApprovalDenied)] == ["expired"]


def one_is_early(folder: Path, session_id: str) -> bool:
    from palaver.engine.clock import Clock

    asked = Told(folder / "data" / "sessions" / session_id).all(e.ApprovalRequested)[0]
    return Clock().until(asked.deadline) > 0


@pytest.mark.parametrize("cancelled", [True, False])
async def test_what_waits_for_the_end_of_a_cancelled_turn_is_not_run_by_a_restart(tmp_path: Path, cancelled: bool) -> None:
    """Promise 6: the turn ends cancelled, what was to follow it waits in the queue, paused."""
    folder = tmp_path

    async def day() -> str:
        gone = asyncio.Event()

        def reached(point: str) -> None:
            if point == "cancel.stopped":
                gone.set()
                raise asyncio.CancelledError  # the end is never reported

        one = built(folder, reached=reached)
        one.daemon.sessions.start()
        session_id = await one.opens()
        await one.says(session_id, "write 3 words then wait 600 seconds")
        await one.until(session_id, lambda state: bool(state.turn and state.turn.output and state.turn.output.parts))
        if cancelled:
            await one.daemon.hub.cancel(session_id, None, True, PERSON)
            await one.says(session_id, "run the command `touch late`", delivery="queue")
        else:
            await one.says(session_id, "run the command `touch late`", delivery="interrupt")
        await gone.wait()
        await abandoned(one)
        return session_id

    session_id = await asyncio.to_thread(lambda: asyncio.run(day()))
    async with engine(folder) as again:
        await again.daemon.sessions.recovered()
        state = await again.until(session_id, lambda state: state.turn is None)
        assert state.last_turn is not None and state.last_turn.outcome == "cancelled"
        assert len(state.queue) == 1 and state.queue[0].paused
        assert not (again.workspace / "late").exists()
        await again.daemon.hub.resume_queue(session_id, PERSON)
        await again.turn_ends(session_id, state.queue[0].turn_id)
        assert (again.workspace / "late").exists()
        log = Told(again.data / "sessions" / session_id)
    log.check()


async def test_a_grant_on_disk_lets_its_turn_go_on_after_a_restart(tmp_path: Path) -> None:
    """DESIGN 4: the crash between the grant and the answer only delays."""

    async def day() -> str:
        gone = asyncio.Event()

        def reached(point: str) -> None:
            if point == "answer.granted":
                gone.set()
                raise asyncio.CancelledError  # the answer is never written

        one = built(tmp_path, reached=reached)
        one.daemon.sessions.start()
        session_id = await one.opens("ask")
        await one.says(session_id, "run the command `touch here` then write 3 words")
        state = await one.until(session_id, lambda state: bool(state.asks))
        answer = r.ApprovalAnswer(action="approve", scope="workspace")
        answering = asyncio.ensure_future(one.daemon.hub.answer_approval(next(iter(state.asks)), answer, PERSON))
        await gone.wait()
        await asyncio.wait([answering])
        await abandoned(one)
        return session_id

    session_id = await asyncio.to_thread(lambda: asyncio.run(day()))
    async with engine(tmp_path) as again:
        state = await again.until(session_id, lambda state: state.turn is None)
        assert state.last_turn is not None and state.last_turn.outcome == "completed"
        assert (again.workspace / "here").exists()
        log = Told(again.data / "sessions" / session_id)
    log.check()
    assert [one.by for one in log.all(e.ApprovalGranted)] == ["policy"]
