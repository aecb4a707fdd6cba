"""Whoever watched, joined late, came back or reloads shows the same: every reader's fold is the fold of the log."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import socket
import struct
import termios
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect

from palaver.views.transcript import from_page
from palaver_daemon import Chat, Client, Here, Json, Reader, check_ended, fold, page_of, palaver, row_of, scripted
from scripted_model import Release, ScriptedModel, burst, calls, split_surrogate_pair, text, thinking
from serving import Frame, Stream, read_head

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def live(chat: Chat) -> None:
    """A session in which everything happens that the demo and a person can make happen."""
    (chat.client.workspace / "notes.txt").write_text("remember the milk\n")
    await chat.runs("think about rivers then write 40 words then read the file notes.txt then search for milk")
    await _approve(chat, "run the command `printf 'caf\\303\\251 \\360\\237\\230\\200'; echo oh >&2`", action="approve", scope="session")
    await _approve(chat, "run the command `echo no`", action="deny", reason="not now")
    await _approve(chat, 'write the file made.txt with "hello"', action="approve")
    await _question(chat)
    await _cancelled_with_a_queue(chat)
    await _steered(chat)
    await _interrupted(chat)
    failed = await chat.say("write 3 words then fail")
    await chat.ended(failed["turn_id"])
    await chat.ended((await chat.post(f"turns/{failed['turn_id']}/retry"))["turn_id"])
    await chat.say("write 5 words", auto_run=False)
    await chat.runs("write 2 words")


async def _approve(chat: Chat, said: str, **answer: Any) -> None:
    sent = await chat.say(said)
    [ask] = await chat.asks()
    await chat.client.ask("POST", f"/v1/approvals/{ask['id']}", answer)
    await chat.ended(sent["turn_id"])


async def _question(chat: Chat) -> None:
    sent = await chat.say("ask me which colour with red or blue")
    [ask] = await chat.asks()
    [question] = ask["data"]["questions"]
    await chat.client.ask("POST", f"/v1/questions/{ask['id']}", {"answers": {question["id"]: {"selected": ["blue"]}}})
    await chat.ended(sent["turn_id"])


async def _cancelled_with_a_queue(chat: Chat) -> None:
    sent = await chat.say("write 5 words then wait 60 seconds")
    await chat.reader.until(lambda: [one for one in chat.of("model_output_delta") if one["turn_id"] == sent["turn_id"]])
    first, second = await chat.say("write 4 words"), await chat.say("write 6 words")
    await chat.post("cancel")
    await chat.ended(sent["turn_id"])
    changed = {"parts": [{"type": "text", "text": "write 7 words"}]}
    await chat.client.ask("PATCH", f"{chat.path}/queue/{second['item_id']}", changed)
    await chat.client.ask("DELETE", f"{chat.path}/queue/{first['item_id']}")
    await chat.post("queue/resume")
    await chat.ended(second["turn_id"])


async def _steered(chat: Chat) -> None:
    sent = await chat.say("run the command `rm -f nothing`")
    [ask] = await chat.asks()
    await chat.say("write 3 words", delivery="steer")
    await chat.client.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
    await chat.ended(sent["turn_id"])


async def _interrupted(chat: Chat) -> None:
    sent = await chat.say("wait 60 seconds")
    await chat.reader.until(lambda: "model_output_started" in chat.turn(sent["turn_id"]))
    await chat.runs("write 2 words", delivery="interrupt")


# --- T-01 ---------------------------------------------------------------------------------------------------------------------


async def test_live_replayed_resumed_and_reloaded_are_one_transcript(tmp_path: Path) -> None:
    """T-01, promise 1: with and without the tail, from 0 and from any cursor, and by the route; live, after a restart, and of a fork."""
    async with palaver(tmp_path) as here, here.chat() as chat, here.reader(chat.id, tail=True) as with_tail:
        await live(chat)
        log = await chat.check()
        check_ended(log)
        await with_tail.reached(len(log))
        told = await chat.transcript()
        assert told == chat.reader.page() == with_tail.page() == page_of(fold(log))
        assert with_tail.transcript.tails == {}
        kinds = {event["type"] for event in log}
        assert kinds >= {"message_delivered", "turn_cancel_requested", "approval_denied", "question_answered", "session_failed"}
        await _resumes_anywhere(here, chat.id, log, told)
        forked = (await chat.post("fork"))["session_id"]
        async with here.chat(forked) as fork:
            await fork.runs("write 2 words")
            assert await fork.transcript() == page_of(fold(await fork.check()))
    async with palaver(tmp_path) as again, again.chat(chat.id) as reloaded:
        assert await reloaded.transcript() == told
        await reloaded.reader.reached(len(log))
        assert reloaded.reader.page() == told


async def _resumes_anywhere(here: Here, session_id: str, log: list[Json], told: Mapping[str, Any]) -> None:
    """From each cursor (every third, for time): what a client had there and what the stream brings beyond it."""
    for after in range(0, len(log), 3):
        async with here.reader(session_id, after=after, transcript=fold(log[:after])) as reader:
            await reader.reached(len(log))
            assert [event["seq"] for event in reader.events] == list(range(after + 1, len(log) + 1))
            assert reader.page() == told


async def test_a_client_goes_on_from_any_page_as_if_it_had_watched(tmp_path: Path) -> None:
    """T-01, CLIENTS 1: the transcript as it was at N and the events after N make the transcript at the end."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        pages: list[Json] = []

        async def snapshots() -> None:
            while True:
                pages.append(await chat.transcript())

        looking = asyncio.create_task(snapshots())
        await live(chat)
        looking.cancel()
        log, told = await chat.check(), await chat.transcript()
        assert len({page["as_of_seq"] for page in pages}) > 10
        for page in {page["as_of_seq"]: page for page in pages}.values():
            assert page_of(fold(log[page["as_of_seq"] :], from_page(msgspec.convert(page, dict[str, Any])))) == told  # type: ignore[arg-type]  # a Page


async def test_a_row_of_the_list_is_the_session_without_its_details(tmp_path: Path) -> None:
    """T-01: live, while something waits, and after a restart."""
    async with palaver(tmp_path) as here, here.chat() as chat, here.chat(title="Another") as other:

        async def same() -> Json:
            session, listed = await chat.get(), await here.ask("GET", "/v1/sessions")
            assert [row["id"] for row in listed["sessions"]] == [chat.id, other.id]
            assert listed["sessions"][0] == row_of(session)
            assert listed["sessions"][1] == row_of(await other.get())
            found: Json = session
            return found

        await live(chat)
        before = await same()
        assert (before["queue"]["items"], before["status"], before["last_turn"]["outcome"]) == ([], "active", "completed")
        await chat.say("run the command `rm -f nothing`")
        await chat.asks()
        await chat.say("write 3 words")
        waiting = await same()
        assert (waiting["status"], len(waiting["waiting"]), len(waiting["queue"]["items"])) == ("waiting_approval", 1, 1)
        await chat.post("cancel", {"keep_queue": False})
        await chat.idle()
        ended = await same()
    async with palaver(tmp_path) as here:
        assert (await here.ask("GET", "/v1/sessions"))["sessions"][0] == row_of(ended)
        assert await here.ask("GET", chat.path) == ended
    (tmp_path / "data" / "index.sqlite").unlink()
    async with palaver(tmp_path) as here:
        listed = (await here.ask("GET", "/v1/sessions"))["sessions"]
        assert (len(listed), listed[0]) == (2, row_of(ended))


# --- T-02, T-03, T-04 ---------------------------------------------------------------------------------------------------------


async def test_two_clients_and_a_late_one_end_equal(tmp_path: Path) -> None:
    """T-02, P-07: the same events under the same numbers, byte for byte what is on disk."""
    async with palaver(tmp_path) as here, here.chat() as chat, here.reader(chat.id, tail=True) as second:
        await live(chat)
        log = await chat.check()
        async with here.reader(chat.id) as late:
            for reader in (second, late):
                await reader.reached(len(log))
                assert reader.events == chat.reader.events == log
                assert reader.page() == chat.reader.page()
        assert [json.loads(line) for line in here.lines(chat.id)] == log


async def test_joining_in_a_burst_leaves_no_gap_and_repeats_nothing(tmp_path: Path) -> None:
    """T-03: readers that come in while 20 000 deltas go through, with and without the tail."""
    release = Release()
    step = burst(20_000, "wörd😀 ").stalled_after(18_000, release)  # so that the last to join are still in time
    async with ScriptedModel([step]) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        async with here.chat() as chat:
            sent = await chat.say("go")
            joined: list[Reader] = []
            for count in range(1, 9):
                await chat.happens("model_output_delta", count)
                reader = here.reader(chat.id, tail=count % 2 == 0)
                joined.append(await reader.__aenter__())
            release.open()
            await chat.ended(sent["turn_id"])
            log = await chat.check()
            for reader in joined:
                assert reader.controls[0].data["data"]["head_seq"] < len(log)
                await reader.reached(len(log))
                assert reader.events == log
                assert reader.page() == chat.reader.page()
                assert reader.transcript.tails == {}
                await reader.__aexit__()


async def test_a_reader_that_stops_reading_slows_nobody_and_ends_equal(tmp_path: Path) -> None:
    """T-04, promise 9: its socket is full while everybody else sees the end; then it gets fewer, larger pieces."""
    step = burst(20_000, "word " * 4)
    async with ScriptedModel([step, step]) as model, palaver(tmp_path, env=scripted(model.url), send_buffer=8192) as here:
        async with here.chat() as chat, here.reader(chat.id, tail=True) as quick:
            stalled = await _Stalled.at(here, f"{chat.path}/events?tail=1")
            for _ in range(2):
                await chat.runs("go")
            log = await chat.check()
            await quick.reached(len(log))
            held = await stalled.held()
            assert held < sum(map(len, here.lines(chat.id))) / 2, "its socket was never full"
            reader = Reader(here, chat.id, tail=True)
            while reader.after < len(log):
                frame = await stalled.stream.next()
                assert frame is not None
                reader.take(frame)
            stalled.close()
            assert reader.events == log
            assert reader.page() == quick.page() == chat.reader.page()
            assert len(reader.pieces) < len(quick.pieces)


async def test_a_socket_that_nobody_reads_slows_nobody_and_ends_equal(tmp_path: Path) -> None:
    """T-04: the same over WebSocket, with a command that waits behind it."""
    step = burst(20_000, "word " * 4)
    async with ScriptedModel([step, step]) as model, palaver(tmp_path, env=scripted(model.url), send_buffer=8192) as here:
        async with here.chat() as chat, here.reader(chat.id, tail=True) as quick:
            sock = await _small_socket(here)
            url = f"ws://127.0.0.1:{here.port}/v1/ws"
            async with connect(url, sock=sock, additional_headers=here.sign(), max_size=None, max_queue=1) as ws:
                await ws.send(json.dumps({"op": "subscribe", "session_id": chat.id, "tail": True}))
                for _ in range(2):
                    await chat.runs("go")
                log = await chat.check()
                await quick.reached(len(log))
                reader = Reader(here, chat.id, tail=True)
                while reader.after < len(log):
                    data = json.loads(await ws.recv())
                    if data.get("op") != "ready":
                        control = data["type"] in ("hello", "caught_up")
                        reader.take(Frame(data["type"] if control else "message", data.get("seq"), data))
                assert reader.events == log
                assert reader.page() == quick.page()
                assert len(reader.pieces) < len(quick.pieces)


async def _small_socket(here: Client) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", here.port))
    return sock


class _Stalled:
    """A client with a small buffer that reads nothing until it is asked to."""

    def __init__(self, sock: socket.socket, stream: Stream) -> None:
        self._sock, self.stream = sock, stream

    @classmethod
    async def at(cls, here: Client, path: str) -> _Stalled:
        sock = await _small_socket(here)
        reader, writer = await asyncio.open_connection(sock=sock, limit=4096)
        sign = "".join(f"{name}: {value}\r\n" for name, value in here.sign().items())
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{here.port}\r\n{sign}\r\n".encode())
        status, headers = await read_head(reader)
        return cls(writer.get_extra_info("socket"), Stream(reader, writer, status, headers))

    async def held(self) -> int:
        """Bytes that the system keeps for it."""
        waiting = fcntl.ioctl(self._sock.fileno(), termios.FIONREAD, b"\0\0\0\0")
        return int(struct.unpack("i", waiting)[0])

    def close(self) -> None:
        self.stream.writer.close()


# --- coming back --------------------------------------------------------------------------------------------------------------


async def by_header(here: Here, session_id: str, after: int, take: Callable[[Frame], None]) -> None:
    async with here.stream(f"/v1/sessions/{session_id}/events?after=0&tail=1", **{"Last-Event-ID": str(after)}) as stream:
        await _take_some(stream.next, take)


async def by_query(here: Here, session_id: str, after: int, take: Callable[[Frame], None]) -> None:
    async with here.stream(f"/v1/sessions/{session_id}/events?after={after}") as stream:
        await _take_some(stream.next, take)


async def by_socket(here: Here, session_id: str, after: int, take: Callable[[Frame], None]) -> None:
    async with here.socket() as ws:
        await ws.send(json.dumps({"op": "subscribe", "session_id": session_id, "after": after, "tail": True}))

        async def next_frame() -> Frame:
            data = json.loads(await ws.recv())
            control = data["type"] in ("hello", "caught_up")
            return Frame(data["type"] if control else "message", data.get("seq"), data)

        await _take_some(next_frame, take)


async def _take_some(next_frame: Callable[[], Awaitable[Frame | None]], take: Callable[[Frame], None]) -> None:
    """Some frames, and never a wait for one that may not come."""
    for _ in range(7):
        try:
            frame = await asyncio.wait_for(next_frame(), 0.5)
        except TimeoutError:
            return
        assert frame is not None
        take(frame)


@pytest.mark.parametrize("way", [by_header, by_query, by_socket])
async def test_a_client_that_comes_back_again_and_again_ends_equal(
    tmp_path: Path, way: Callable[[Here, str, int, Callable[[Frame], None]], Awaitable[None]]
) -> None:
    """T-03, P-06: it leaves after every few frames and says where it was: by header, by query, by socket."""
    steps = [thinking("hm") + burst(600, "w\u0301😀 ").paced(0.001), calls(("read_file", {"path": "notes.txt"})), text("done")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        (here.workspace / "notes.txt").write_text("milk\n")
        sent = await chat.say("go")
        reader = Reader(here, chat.id)
        ended = asyncio.create_task(chat.ended(sent["turn_id"]))
        while not ended.done() or reader.after < chat.reader.after:
            await way(here, chat.id, reader.after, reader.take)
        log = await chat.check()
        assert reader.events == log
        assert reader.page() == chat.reader.page() == await chat.transcript()


async def test_watched_stalled_late_and_coming_back_in_one_run_all_end_equal(tmp_path: Path) -> None:
    """T-02, T-03, T-04, promises 1 and 9: long text, tools and approvals; all have the end while one still holds its full socket."""
    asked = calls(("shell", {"command": "seq 1 20000"}), ("read_file", {"path": "notes.txt"}), ("shell", {"command": "touch denied"}))
    steps = [thinking("hm") + burst(4_000, "wörd😀 " * 3) + asked, burst(4_000, "word " * 4)]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url), send_buffer=8192) as here:
        (here.workspace / "notes.txt").write_text("milk\n")
        async with here.chat() as chat, here.reader(chat.id, tail=True) as second:
            stalled = await _Stalled.at(here, f"{chat.path}/events?tail=1")
            coming = Reader(here, chat.id)
            back = asyncio.create_task(_again_and_again(here, coming))
            sent = await chat.say("go")
            asks = await chat.asks(2)
            async with here.reader(chat.id, tail=True) as late:
                for ask, action in zip(asks, ("approve", "deny"), strict=True):
                    await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": action})
                assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
                log = await chat.check()
                check_ended(log)
                for reader in (second, late):
                    await reader.reached(len(log))
                await asyncio.wait_for(back, 20)
                assert await stalled.held() < sum(map(len, here.lines(chat.id))) / 2, "its socket was never full"
                told = await chat.transcript()
                held = Reader(here, chat.id, tail=True)
                while held.after < len(log):
                    frame = await stalled.stream.next()
                    assert frame is not None
                    held.take(frame)
                stalled.close()
                for reader in (chat.reader, second, late, coming, held):
                    assert reader.events == log
                    assert reader.page() == told == page_of(fold(log))
                    assert reader.transcript.tails == {}


async def _again_and_again(here: Here, reader: Reader) -> None:
    """Comes and goes, with the tail and without it, until it has seen the turn's end."""
    for way in itertools.cycle((by_header, by_query)):
        await way(here, reader.session_id, reader.after, reader.take)
        if reader.of("turn_completed"):
            return


async def test_a_character_that_came_in_two_halves_is_one_everywhere(tmp_path: Path) -> None:
    """A surrogate pair split over two deltas, combining characters, and the tail over all of it."""
    release = Release()
    step = (split_surrogate_pair() + text("e", "\u0301", "👩", "\u200d", "👧", "x" * 5000)).stalled_after(5, release)
    async with ScriptedModel([step]) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        async with here.reader(chat.id, tail=True) as tail:
            sent = await chat.say("go")
            await tail.until(lambda: tail.pieces)
            async with here.reader(chat.id, tail=True) as late:
                await late.until(lambda: [one for one in late.controls if one.event == "caught_up"])
                release.open()
                await chat.ended(sent["turn_id"])
                log = await chat.check()
                for reader in (tail, late):
                    await reader.reached(len(log))
                    assert reader.page() == chat.reader.page()
        assert chat.answers() == ["😀e\u0301👩\u200d👧" + "x" * 5000]
        assert "".join(one["data"]["text"] for one in chat.of("model_output_delta")) == chat.answers()[0]
        offset = 0
        for one in chat.of("model_output_delta"):
            assert one["data"]["offset"] == offset
            offset += len(one["data"]["text"])


async def test_events_of_a_later_version_are_served_as_they_are_and_skipped(tmp_path: Path) -> None:
    """Readers keep and skip types that they do not know."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        await chat.runs("write 2 words")
        log = await chat.check()
        told = await chat.transcript()
    unknown = {**log[-1], "seq": len(log) + 1, "type": "moon_landed", "data": {"by": "somebody", "how": {"many": 3}}}
    with (tmp_path / "data" / "sessions" / chat.id / "events.ndjson").open("ab") as file:
        file.write(json.dumps(unknown).encode() + b"\n")
    async with palaver(tmp_path) as here, here.chat(chat.id) as chat:
        assert (await chat.log())[-1] == unknown
        assert await chat.transcript() == {**told, "as_of_seq": len(log) + 1}
        assert (await chat.runs("write 3 words"))["outcome"] == "completed"
        assert [event["seq"] for event in await chat.log()] == list(range(1, len(await chat.log()) + 1))
