"""What a socket that watches is told of all sessions: CLIENTS.md 2."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection

from palaver_daemon import DEADLINE_S, Client, Here, Json, palaver, palaver_process, row_of, until

LOOKED_AWAY_S = 0.2
"""In place of five seconds."""


class Page:
    """A page with a list of sessions: a socket, and all that it was told with the time of it."""

    def __init__(self, ws: ClientConnection) -> None:
        self._ws = ws
        self.frames: list[Json] = []
        self.times: list[float] = []
        self._came = asyncio.Event()

    async def read(self) -> None:
        async for message in self._ws:
            self.frames.append(json.loads(message))
            self.times.append(asyncio.get_running_loop().time())
            self._came.set()

    async def say(self, **frame: Any) -> None:
        await self._ws.send(json.dumps(frame))

    async def until(self, wanted: Callable[[Json], Any]) -> Json:
        """The first frame, past ones too, of which this is true."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                self._came.clear()
                for frame in self.frames:
                    if wanted(frame):
                        return frame
                await self._came.wait()

    async def told(self, type: str, **data: Any) -> Json:
        frame = await self.until(lambda one: one.get("type") == type and all(one["data"].get(key) == data[key] for key in data))
        told: Json = frame["data"]
        return told

    async def shown(self, session_id: str, true_of: Callable[[Json], Any]) -> Json:
        """The session as the first `session_changed` shows it of which this is true."""
        frame = await self.until(
            lambda one: (
                one.get("type") == "session_changed" and one["data"]["session"]["id"] == session_id and true_of(one["data"]["session"])
            )
        )
        session: Json = frame["data"]["session"]
        return session

    def of(self, type: str) -> list[Json]:
        return [frame["data"] for frame in self.frames if frame.get("type") == type]

    async def settle(self) -> None:
        """Everything that was on its way before this is here."""
        mark = f"mark-{len(self.frames)}"
        await self.say(op="request", id=mark, method="GET", path="/v1/health")
        await self.until(lambda one: one.get("id") == mark)


@asynccontextmanager
async def page(client: Client, *, watch: bool = True) -> AsyncIterator[Page]:
    async with client.socket() as ws:
        one = Page(ws)
        reading = asyncio.create_task(one.read())
        try:
            if watch:
                await one.say(op="watch")
                await one.until(lambda frame: frame.get("op") == "watching")
            yield one
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Here, Page]]:
    def quick(built: Any) -> None:
        built.sessions.watch.left_s = LOOKED_AWAY_S

    async with palaver(folder, change=quick) as here, page(here) as one:
        yield here, one


def test_a_new_session_and_each_of_its_turns_come_as_the_lists_object(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (here, one), here.chat(mode="auto") as chat:
            assert (await one.shown(chat.id, lambda session: True))["status"] == "active"
            end = await chat.runs("run the command `true` then write 3 words")
            last = await one.shown(chat.id, lambda session: session.get("last_turn"))
            assert last["last_turn"]["outcome"] == end["outcome"] == "completed"
            frame = next(frame for frame in one.frames if frame.get("type") == "session_changed")
            assert "seq" not in frame and {"v", "ts", "type", "session_id", "data"} <= set(frame)
            listed = (await here.ask("GET", "/v1/sessions"))["sessions"][0]
            newest = await one.shown(chat.id, lambda session: session["head_seq"] == listed["head_seq"])
            assert newest == listed == row_of(await chat.get())

    asyncio.run(run())


def test_a_deleted_session_is_removed_and_never_changes_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (here, one):
            async with here.chat() as chat:
                await chat.say("wait 60 seconds")
                await here.ask("DELETE", chat.path)
            await one.told("session_removed", session_id=chat.id)
            await asyncio.sleep(0.3)  # longer than a change is held back
            await one.settle()
            types = [frame["type"] for frame in one.frames if frame.get("session_id") == chat.id]
            assert types[-1] == "session_removed" and types.count("session_removed") == 1

    asyncio.run(run())


def test_a_session_that_talks_all_the_time_changes_at_most_four_times_a_second(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver(tmp_path, pace_s=0.001) as here, page(here) as one, here.chat(mode="auto") as chat:
            await chat.runs("write 600 words then run the command `true` then write 600 words")
            await one.shown(chat.id, lambda session: session.get("last_turn"))
            changes = [time for frame, time in zip(one.frames, one.times, strict=True) if frame.get("type") == "session_changed"]
            assert len(changes) > 3
            assert (len(changes) - 1) * 0.25 <= changes[-1] - changes[0] + 0.5

    asyncio.run(run())


def test_a_running_turn_says_what_it_does_and_since_when(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (here, one), here.chat(mode="auto") as chat:
            await chat.say("run the command `sleep 30`")
            doing = await one.shown(chat.id, lambda session: "sleep 30" in session.get("activity", {}).get("text", ""))
            running = await chat.happens("tool_call_running")
            assert doing["activity"]["since"] == running["ts"] and doing["running_turn_id"]
            await chat.post("cancel")
            await chat.happens("turn_completed")
            idle = await one.shown(chat.id, lambda session: session.get("last_turn"))
            assert "activity" not in idle and idle["last_turn"]["outcome"] == "cancelled"

    asyncio.run(run())


def test_what_ended_is_unread_until_it_is_read_and_reading_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (here, one), here.chat() as chat:
            assert not (await chat.get())["unread"]
            await chat.runs("write 3 words")
            head = (await chat.get())["head_seq"]
            assert (await one.shown(chat.id, lambda session: session["head_seq"] == head))["unread"]
            await here.answer("POST", f"{chat.path}/read", {"seq": head})
            read = await one.shown(chat.id, lambda session: session["read_seq"] == head)
            assert not read["unread"] and read["updated_at"] == (await chat.get())["updated_at"]
            fork = (await chat.post("fork"))["session"]
            assert not (await here.ask("GET", f"/v1/sessions/{fork['id']}"))["unread"]
            await chat.say("ask me Which with A or B")
            await one.shown(chat.id, lambda session: session["waiting"] and session["unread"])

    asyncio.run(run())


def test_a_draft_is_told_with_its_client_and_cleared_by_the_message_that_takes_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (here, one), here.chat() as chat:
            draft = {"text": "half a th", "attachments": [], "rev": 0, "client": "tab-1"}
            assert await here.ask("PUT", f"{chat.path}/draft", draft) == {"rev": 1}
            assert await one.told("draft_changed", rev=1) == {
                "session_id": chat.id,
                "rev": 1,
                "text": "half a th",
                "attachments": [],
                "client": "tab-1",
            }
            await chat.say("half a thought", draft_rev=1)
            assert (await one.told("draft_changed", rev=2))["text"] == ""
            stale = await chat.refused("PUT", "draft", draft)
            assert (stale.status, stale.code, stale.json["rev"], stale.json["text"]) == (409, "draft_conflict", 2, "")
            await here.ask("PUT", f"{chat.path}/draft", {"text": "next", "attachments": [], "rev": 2})
            await chat.say("from elsewhere", draft_rev=1)
            assert (await chat.get("draft"))["text"] == "next"

    asyncio.run(run())


def test_what_needs_a_person_ends_or_fails_is_told_once_where_nobody_looks(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (here, one), here.chat() as chat, page(here) as other, page(here, watch=False) as blind:
            await other.say(op="notify", on=False)
            await chat.say("ask me Which with A or B")
            [ask] = await chat.asks()
            told = await one.told("notify", kind="needs_you")
            assert told == {
                "id": ask["id"],
                "kind": "needs_you",
                "session_id": chat.id,
                "title": ask["session_title"],
                "text": ask["title"],
            }
            await here.ask("POST", f"/v1/questions/{ask['id']}", {"agent_decides": True})
            await one.told("notify", kind="finished")
            await chat.runs("fail")
            await one.told("notify", kind="failed")
            await chat.say("wait 60 seconds")
            await chat.happens("turn_started", 3)
            await chat.post("cancel")
            await chat.idle()
            for each in (one, other, blind):
                await each.settle()
            assert [notice["kind"] for notice in one.of("notify")] == ["needs_you", "finished", "failed"]
            assert not other.of("notify") and not blind.frames[1:-1] + blind.of("notify")

    asyncio.run(run())


def test_who_looks_at_a_session_is_told_nothing_until_they_looked_away_for_a_while(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (here, one), here.chat() as chat:
            async with page(here, watch=False) as other:
                await other.say(op="focus", session_id=chat.id)
                await other.settle()
                await chat.say("ask me Which with A or B")
                [ask] = await chat.asks()
                await one.shown(chat.id, lambda session: session["waiting"])
                await one.settle()
                assert not one.of("notify")
                left = asyncio.get_running_loop().time()
            notice = await one.told("notify")
            assert notice["id"] == ask["id"] and asyncio.get_running_loop().time() - left > LOOKED_AWAY_S * 0.9

    asyncio.run(run())


def test_what_was_answered_or_read_while_somebody_looked_is_not_told_afterwards(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (here, one), here.chat() as chat, page(here, watch=False) as other:
            await other.say(op="focus", session_id=chat.id)
            await other.settle()
            await chat.say("ask me Which with A or B")
            [ask] = await chat.asks()
            await here.ask("POST", f"/v1/questions/{ask['id']}", {"agent_decides": True})
            await chat.idle()
            await here.answer("POST", f"{chat.path}/read", {"seq": (await chat.get())["head_seq"]})
            await other.say(op="focus", session_id=None)
            await chat.runs("fail")  # it comes after the five seconds, alone
            await one.told("notify")
            assert [notice["kind"] for notice in one.of("notify")] == ["failed"]

    asyncio.run(run())


def test_a_page_that_does_not_read_finds_the_newest_state_and_slows_nobody(tmp_path: Path) -> None:
    """Promise 9: one state of each session waits for it, not every state that there was."""

    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat() as chat:
            slow = here.built.hub.watcher()
            slow.watches = True
            for _ in range(4):
                await chat.runs("write 3 words")
            head = (await chat.get())["head_seq"]
            async with page(here) as one:
                await here.answer("PATCH", chat.path, {"title": "new"})
                await one.shown(chat.id, lambda session: session["head_seq"] == head + 1)
            news = [one for one in await slow.news() if one.type == "session_changed"]
            assert len(news) == 1 and json.loads(bytes(news[0].data))["session"]["title"] == "new"
            slow.leave()

    asyncio.run(run())


def test_a_bad_watch_frame_is_an_error_and_the_socket_stays(tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(tmp_path) as (_, one):
            await one.say(op="notify", on="yes")
            assert (await one.until(lambda frame: frame.get("op") == "error"))["code"] == "invalid"
            await one.say(op="watch")
            await one.settle()
            assert sum(frame.get("op") == "watching" for frame in one.frames) == 2

    asyncio.run(run())


def test_what_was_read_is_read_in_the_list_also_after_a_crash(tmp_path: Path) -> None:
    async def run() -> None:
        async with palaver_process(tmp_path) as there:
            session = await there.new_session()
            async with there.chat(session) as chat:
                await chat.runs("write 3 words")
            head = (await chat.get())["head_seq"]
            async with page(there) as one:  # the list is written a moment after its last change
                await there.answer("POST", f"{chat.path}/read", {"seq": head})
                await one.shown(session, lambda shown: shown["read_seq"] == head)
            await until(lambda: not list((tmp_path / "data" / "open").iterdir()))
            await there.kill()
        async with palaver(tmp_path) as here:
            [row] = (await here.ask("GET", "/v1/sessions"))["sessions"]
            assert (row["read_seq"], row["unread"]) == (head, False) and not here.in_memory

    asyncio.run(run())


def test_what_a_list_shows_is_the_same_after_a_restart_with_and_without_a_checkpoint(tmp_path: Path) -> None:
    """Promise 1, for the session list."""

    async def run() -> None:
        async with palaver(tmp_path) as here, here.chat(mode="auto") as chat:
            await chat.runs('write the file a.txt with "one" then change "one" to "two" in a.txt')
            await here.answer("POST", f"{chat.path}/read", {"seq": 3})
            await chat.say("ask me Which with A or B")
            await chat.asks()
            before = await chat.get()
        assert before["last_turn"]["files"] == 1 and before["unread"] and before["waiting"] and "activity" not in before
        for checkpoint in (True, False):
            if not checkpoint:
                (tmp_path / "data" / "sessions" / chat.id / "checkpoint").unlink()
            async with palaver(tmp_path) as here:
                after = await here.ask("GET", chat.path)
                parked = {name: after[name] for name in ("head_seq", "updated_at")}
                assert after == {**before, **parked} and (await here.ask("GET", "/v1/sessions"))["sessions"] == [row_of(after)]

    asyncio.run(run())
