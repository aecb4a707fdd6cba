"""Server-sent events over a real engine: API.md, Streams."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hubs import daemon_in
from serving import Daemon, Frame, QuietHub, serving, streaming


async def new_session(daemon: Daemon, folder: Path, **more: Any) -> str:
    answer = await daemon.ask("POST", "/v1/sessions", {"workspace_path": str(folder), **more})
    assert answer.status == 201, answer
    return str(answer.json["session_id"])


async def say(daemon: Daemon, session: str, text: str, **more: Any) -> dict[str, Any]:
    body = {"role": "user", "parts": [{"type": "text", "text": text}], **more}
    answer = await daemon.ask("POST", f"/v1/sessions/{session}/messages", body)
    assert answer.status == 202, answer
    return dict(answer.json)


def of(kind: str) -> Any:
    return lambda frame: frame.data["type"] == kind


def logged(frames: Sequence[Frame]) -> list[Frame]:
    return [frame for frame in frames if frame.id is not None]


def test_a_stream_says_hello_replays_says_caught_up_and_goes_on(tmp_path: Path) -> None:
    """API.md, Streams: each logged event once and in order, `id` its seq and no `event:` line, control frames named."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with streaming(daemon.port, f"/v1/sessions/{session}/events", token=daemon.token) as stream:
                assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
                assert (stream.headers["cache-control"], stream.headers["x-accel-buffering"]) == ("no-store", "no")
                opening = await stream.until(of("caught_up"))
                assert [frame.event for frame in opening] == ["hello", "message", "caught_up"]
                hello = opening[0].data
                assert set(hello) == {"v", "ts", "session_id", "turn_id", "type", "data"} and hello["session_id"] == session
                assert set(hello["data"]) >= {"epoch", "head_seq", "session", "open"} and hello["data"]["head_seq"] == 1
                assert opening[-1].data["data"] == {"seq": 1}
                await say(daemon, session, "write 20 words")
                turn = await stream.until(of("turn_completed"))
                assert [frame.id for frame in turn] == list(range(2, 2 + len(turn)))
                assert all(frame.event == "message" and frame.data["seq"] == frame.id for frame in turn)
                assert {"message_added", "turn_started", "model_output_delta"} <= {frame.data["type"] for frame in turn}

    asyncio.run(run())


@pytest.mark.parametrize("header", [True, False])
def test_every_cursor_gets_exactly_what_follows_it(tmp_path: Path, header: bool) -> None:
    """Last-Event-ID beats `after`, and absent is 0."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            path = f"/v1/sessions/{session}/events"
            async with streaming(daemon.port, path, token=daemon.token) as stream:
                await say(daemon, session, "write 20 words")
                whole = logged(await stream.until(of("turn_completed")))
            for after in range(len(whole) + 1):
                headers = {"Last-Event-ID": str(after)} if header else {}
                query = "?after=1" if header else f"?after={after}"
                async with streaming(daemon.port, path + query, token=daemon.token, headers=headers) as late:
                    frames = await late.until(of("caught_up"))
                assert logged(frames) == whole[after:]

    asyncio.run(run())


def test_a_page_of_the_log_is_made_of_the_bytes_that_are_stored(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            path = f"/v1/sessions/{session}/events"
            async with streaming(daemon.port, path, token=daemon.token) as stream:
                await say(daemon, session, "write 20 words")
                await stream.until(of("turn_completed"))
            lines = (tmp_path / "data" / "sessions" / session / "events.ndjson").read_bytes().splitlines()
            after, pages = 0, list[Any]()
            while True:
                page = (await daemon.ask("GET", f"{path}?format=json&limit=3&after={after}")).json
                assert set(page) == {"events", "next_after", "head_seq"} and page["head_seq"] == len(lines)
                if not page["events"]:
                    break
                pages, after = pages + page["events"], page["next_after"]
            assert pages == [json.loads(line) for line in lines]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("after=99", 410, "cursor_ahead"),
        ("after=99999999999999999999", 410, "cursor_ahead"),
        ("after=-1", 410, "cursor_gone"),
        ("after=x", 422, "invalid"),
        ("after=1.5", 422, "invalid"),
        ("after=", 422, "invalid"),
        ("after=" + "9" * 6000, 422, "invalid"),
        ("format=xml", 422, "invalid"),
    ],
)
def test_a_cursor_that_is_none_is_an_error_before_the_stream_begins(tmp_path: Path, query: str, status: int, code: str) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            for form in ("", "&format=json") if "format" not in query else ("",):
                answer = await daemon.ask("GET", f"/v1/sessions/{session}/events?{query}{form}")
                assert (answer.status, answer.code) == (status, code), answer
                if status == 410:
                    assert (answer.json["oldest_seq"], answer.json["head_seq"]) == (1, 1)
            if status == 410 or (code == "invalid" and query.startswith("after=x")):
                headers = {"Last-Event-ID": query.partition("=")[2]}
                assert (await daemon.ask("GET", f"/v1/sessions/{session}/events", headers=headers)).status == status
            assert (await daemon.ask("GET", "/v1/sessions/sess_none/events")).status == 404

    asyncio.run(run())


def test_the_tail_says_the_same_text_as_the_log(tmp_path: Path) -> None:
    """Promise 1: pieces without an id, appended by offset, end as what the log says."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with streaming(daemon.port, f"/v1/sessions/{session}/events?tail=1", token=daemon.token) as stream:
                await stream.until(of("caught_up"))
                await say(daemon, session, "write 300 words")
                frames = await stream.until(of("turn_completed"))
        pieces = [frame for frame in frames if frame.id is None]
        assert pieces and all("seq" not in frame.data and frame.event == "message" for frame in pieces)
        texts: dict[str, str] = {}
        for frame in frames:
            if frame.data["type"] == "model_output_delta":
                data = frame.data["data"]
                have = texts.get(data["part_id"], "")
                if data["offset"] <= len(have):
                    texts[data["part_id"]] = have + data["text"][len(have) - data["offset"] :]
        (completed,) = [frame for frame in frames if frame.data["type"] == "model_output_completed"]
        for part in completed.data["data"]["message"]["parts"]:
            assert texts[part["id"]] == part["text"]

    asyncio.run(run())


def test_a_reader_that_stops_reading_slows_nobody_and_ends_with_the_same_log(tmp_path: Path) -> None:
    """Promise 9, T-04."""

    async def run() -> None:
        async with daemon_in(tmp_path, send_buffer=8192) as daemon:
            session = await new_session(daemon, tmp_path)
            path = f"/v1/sessions/{session}/events"
            with socket.create_connection(("127.0.0.1", daemon.port)) as stalled:
                stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
                head = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{daemon.port}", f"Authorization: Bearer {daemon.token}", "", ""]
                stalled.sendall("\r\n".join(head).encode())
                async with streaming(daemon.port, path, token=daemon.token) as stream:
                    await stream.until(of("caught_up"))
                    for _ in range(2):
                        await say(daemon, session, "write 20000 words")
                        async with asyncio.timeout(20):
                            await stream.until(of("turn_completed"))
                head_seq = (await daemon.ask("GET", f"/v1/sessions/{session}")).json["head_seq"]
                stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
                stalled.setblocking(False)
                seen, last = bytearray(), b"id: %d\n" % head_seq
                async with asyncio.timeout(20):
                    while seen.find(last, max(0, len(seen) - (1 << 20) - len(last))) < 0:
                        seen += await asyncio.get_running_loop().sock_recv(stalled, 1 << 20)
                ids = [int(line[4:]) for line in seen.split(b"\n") if line.startswith(b"id: ")]
                assert ids == list(range(1, head_seq + 1))

    asyncio.run(run())


def test_a_client_that_leaves_is_forgotten_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            readers = daemon.app.doors.leases
            async with streaming(daemon.port, f"/v1/sessions/{session}/events", token=daemon.token) as stream:
                await stream.until(of("caught_up"))
                assert len(readers) == 1
            async with asyncio.timeout(2):
                while len(readers):
                    await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_deleted_session_ends_its_streams_and_tells_the_news(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with (
                streaming(daemon.port, f"/v1/sessions/{session}/events", token=daemon.token) as stream,
                streaming(daemon.port, "/v1/events", token=daemon.token) as news,
            ):
                await stream.until(of("caught_up"))
                await news.until(of("hello"))
                assert (await daemon.ask("DELETE", f"/v1/sessions/{session}")).status == 204
                last = (await stream.until(of("deleted")))[-1]
                assert (last.event, last.id, last.data["data"]) == ("deleted", None, {"session_id": session})
                assert await stream.next() is None
                told = (await news.until(of("deleted")))[-1]
                assert (told.event, told.data["session_id"]) == ("deleted", session)
            assert (await daemon.ask("GET", f"/v1/sessions/{session}")).status == 404

    asyncio.run(run())


def test_the_news_of_all_sessions_come_in_one_sequence_that_can_be_resumed(tmp_path: Path) -> None:
    """API.md, Streams: `GET /v1/events`; a number that is not remembered gives `gap`, then `hello`."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            sessions = [await new_session(daemon, tmp_path) for _ in range(2)]
            async with streaming(daemon.port, "/v1/events", token=daemon.token) as news:
                hello = (await news.until(of("hello")))[-1]
                assert hello.data["session_id"] is None and hello.data["data"]["session"] is None
                for session in sessions:
                    await say(daemon, session, "hello", auto_run=False)
                first = await news.until(lambda frame: frame.data["session_id"] == sessions[1])
            assert [frame.data["type"] for frame in first] == ["message_added"] * 2
            assert [frame.data["seq"] for frame in first] == [2, 2]
            assert first[0].id is not None and first[1].id == first[0].id + 1 and first[0].id > 1_700_000_000_000_000
            async with streaming(daemon.port, "/v1/events", token=daemon.token, headers={"Last-Event-ID": str(first[0].id)}) as again:
                assert (await again.until(lambda frame: frame.id is not None))[-1] == first[1]
            async with streaming(daemon.port, "/v1/events?after=5", token=daemon.token) as lost:
                frames = await lost.until(of("hello"))
                assert [frame.event for frame in frames] == ["gap", "hello"]
                assert set(frames[0].data["data"]) == {"oldest_seq", "head_seq"}

    asyncio.run(run())


def test_a_quiet_stream_is_kept_open_by_comments(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub(), keep_alive_s=0.05) as daemon:
            async with streaming(daemon.port, "/v1/sessions/sess_1/events", token=daemon.token) as stream:
                await stream.until(of("caught_up"))
                async with asyncio.timeout(5):
                    assert await anext(stream._chunks) == b":\n\n"
                    assert await anext(stream._chunks) == b":\n\n"

    asyncio.run(run())


def test_an_event_source_that_reconnects_by_its_ticket_misses_nothing(tmp_path: Path) -> None:
    """API.md, Doors: the same URL again and again, the place named by `Last-Event-ID`."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            ticket = (await daemon.ask("POST", "/v1/tickets")).json["ticket"]
            url = f"/v1/sessions/{session}/events?ticket={ticket}"
            seen: list[Frame] = []
            for _ in range(4):
                headers = {"Last-Event-ID": str(seen[-1].id)} if seen else {}
                async with streaming(daemon.port, url, headers=headers) as stream:
                    assert stream.status == 200
                    await say(daemon, session, "write 5 words")
                    seen += logged(await stream.until(of("turn_completed")))
            assert [frame.id for frame in seen] == list(range(1, len(seen) + 1))
            assert sum(frame.data["type"] == "turn_completed" for frame in seen) == 4

    asyncio.run(run())


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_everything_in_the_data_folder_is_private_after_a_whole_session(tmp_path: Path, umask: int) -> None:
    """SECURITY 7: folders 0700 and files 0600, by mode and not by umask."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            await daemon.mint("read")
            session = await new_session(daemon, tmp_path)
            await daemon.ask("POST", f"/v1/sessions/{session}/attachments", {"name": "a.txt", "data": "eA=="})
            await daemon.ask("PUT", f"/v1/sessions/{session}/draft", {"text": "x", "rev": 0})
            async with streaming(daemon.port, f"/v1/sessions/{session}/events", token=daemon.token) as stream:
                await say(daemon, session, "write 2000 words then run the command `seq 100000`")
                await stream.until(of("approval_requested"))
                (ask,) = (await daemon.ask("GET", "/v1/inbox")).json["items"]
                answer = {"action": "approve", "scope": "workspace"}
                assert (await daemon.ask("POST", f"/v1/approvals/{ask['id']}", answer)).status == 200
                await stream.until(of("turn_completed"))

    before = os.umask(umask)
    try:
        asyncio.run(run())
    finally:
        os.umask(before)
    paths = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert len(paths) > 10
    for path in paths:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
