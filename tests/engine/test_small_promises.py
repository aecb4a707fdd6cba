"""What the engine keeps small, fair and quick: folders that were asked about, readers that break, long pasts, full queues."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import pytest

from palaver.core.fork import forked
from palaver.engine.actor import EVERYONE, Actor
from palaver.engine.clock import Clock
from palaver.engine.follow import Bell
from palaver.engine.workspaces import Workspaces
from palaver.log.files import FileLog
from palaver.log.folders import DataFolder
from palaver.wire import commands as c
from palaver.wire import events as e
from palaver.wire.codec import decode_event
from palaver.wire.values import Rule
from palaver_daemon import palaver

pytestmark = pytest.mark.anyio
LINE = 64 * 1024
ADMIN = Actor("user", EVERYONE)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_folders_that_are_only_asked_about_are_not_kept(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    data.prepare()
    log = FileLog(data.root)
    workspaces = Workspaces(log, data, Clock())
    try:
        for number in range(50):
            assert not (await workspaces.get(f"/nowhere/{number}")).used
        await (await workspaces.get("/used")).use("user")
        gc.collect()
        assert len(workspaces._known) == 1 and len(workspaces._asked) == 1
        assert (await workspaces.get("/used")).used
    finally:
        await log.shut()


async def test_two_who_ask_about_a_new_folder_at_once_rule_in_one_log(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    data.prepare()
    log = FileLog(data.root)
    workspaces = Workspaces(log, data, Clock())
    try:
        first, second = await asyncio.gather(workspaces.get("/new"), workspaces.get("/new"))
        assert first is second
        await asyncio.gather(*(one.add_rule(Rule("allow", tool="shell"), "user") for one in (first, second, await workspaces.get("/new"))))
        again = Workspaces(log, data, Clock())
        assert len((await again.get("/new")).rules) == 3
    finally:
        await log.shut()


async def test_a_reader_whose_direct_write_breaks_hears_of_it_and_wakes_the_others_all_the_same() -> None:
    """Promise 9."""
    bell = Bell()

    def breaks() -> bool:
        raise OSError("its connection is gone")

    broken = asyncio.ensure_future(bell.wait(0, breaks))
    behind = asyncio.ensure_future(bell.wait(0))
    await asyncio.sleep(0)
    bell.ring()
    await asyncio.wait_for(behind, 5)
    with pytest.raises(OSError, match="connection is gone"):
        await broken
    assert not bell._waiting


async def test_a_call_is_looked_for_in_the_whole_log_once(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here, here.chat(mode="auto") as chat:
        await chat.runs("run the command `seq 1 2000`")
        for _ in range(3):
            await chat.runs("hello")
        [call] = [one["data"]["tool_call"]["id"] for one in chat.of("tool_call_started")]
        whole = "".join(one["data"]["text"] for one in chat.of("tool_output_delta"))
        read = ""
        while len(read) < len(whole):
            page = await chat.get(f"calls/{call}/output?stream=stdout&offset={len(read)}&limit=1000")
            read += page["text"]
            assert page["total"] == len(whole)
        assert read == whole
        [(first, last)] = here.built.hub._spans.values()
        completed = chat.of("tool_call_completed")[0]["seq"]
        assert (first, last) == (chat.of("tool_call_started")[0]["seq"], completed)


async def test_a_big_steer_among_a_full_queue_comes_back_in_lines_that_fit(tmp_path: Path) -> None:
    """DESIGN 4: an event stays under 64 KiB; the steer was taken while the queue was empty."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        turn = (await chat.say("wait 600 seconds"))["turn_id"]
        await chat.happens("step_started")
        steers = [("s" * 44_000) + str(number) for number in range(3)]
        for text in steers:
            assert (await chat.say(text, delivery="steer"))["delivered"] == "steered"
        for number in range(197):
            assert (await chat.say(f"later {number}", delivery="queue"))["delivered"] == "queued"
        await chat.post("cancel")
        await chat.ended(turn)
        items = (await chat.get("queue"))["items"]
        assert len(items) == 200
        assert max(map(len, here.lines(chat.id))) < LINE
        for item, text in zip(items, steers, strict=False):
            part = item["message"]["parts"][0]
            name = part["ref"].partition("/")[2]
            assert part["truncated"] and (await here.answer("GET", f"{chat.path}/attachments/{name}")).body.decode() == text


async def test_a_fork_of_a_long_past_is_folded_beside_the_loop(tmp_path: Path) -> None:
    """While it is folded, others are served: the loop is never held for a good part of it."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        session = await here.built.sessions.get(chat.id)
        for number in range(8000):
            session.report_soon(c.NoteFact(turn_id=None, fact=e.Notice(level="info", code="test", text=f"{number}")))
        await session.settled()
        await chat.reader.reached(session.safe.seq)
        gc.disable()  # its pauses are of the whole process, whoever makes the garbage
        began = time.perf_counter()
        forked([decode_event(line) for line in here.lines(chat.id)], session.safe.created, "2026-01-01T00:00:00.000Z", "0" * 26)
        alone = time.perf_counter() - began
        forking = asyncio.ensure_future(here.built.hub.fork(chat.id, None, ADMIN))
        longest, last = 0.0, time.perf_counter()
        try:
            while not forking.done():
                await asyncio.sleep(0)
                longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        finally:
            gc.enable()
        assert (await forking)["head_seq"] >= 8000
        assert longest < alone / 2, (longest, alone)
