"""Streams as a client meets them: control frames, cursors, the tail, every session's news, and one socket for all of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from palaver.engine import feed
from palaver_daemon import Here, Json, check_ended, fold, page_of, palaver, scripted
from scripted_model import Release, ScriptedModel, Step, text
from serving import Frame, Stream

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with palaver(tmp_path) as here:
        yield here


async def frame(stream: Stream) -> Frame:
    found = await stream.next()
    assert found is not None, "the stream is over"
    return found


# --- one session --------------------------------------------------------------------------------------------------------------


async def test_a_stream_is_hello_replay_caught_up_live(here: Here) -> None:
    """API, Streams: control frames have the envelope without a `seq`, logged ones their number as `id` and no `event:`."""
    async with here.chat() as chat:
        await chat.runs("write 3 words")
        log = await chat.check()
        async with here.stream(f"{chat.path}/events") as stream:
            assert stream.headers["content-type"] == "text/event-stream" and stream.headers["cache-control"] == "no-store"
            frames = await stream.until(lambda one: one.event == "caught_up")
            hello, *replayed, caught_up = frames
            assert hello.event == "hello" and set(hello.data) == {"v", "ts", "session_id", "turn_id", "type", "data"}
            assert hello.data["data"]["head_seq"] == len(log) and hello.data["data"]["epoch"] and hello.data["data"]["version"]
            assert hello.data["data"]["session"] == await chat.get()
            assert hello.data["data"]["open"] == {"approvals": [], "questions": [], "parts": []}
            assert [(one.event, one.id, one.data) for one in replayed] == [("message", event["seq"], event) for event in log]
            assert caught_up.data["data"] == {"seq": len(log)}
            await chat.runs("write 2 words")
            live = await stream.until(lambda one: one.data["type"] == "turn_completed")
            assert live[0].id == len(log) + 1 and all(one.event == "message" for one in live)


async def test_hello_says_what_is_open_for_readers_who_skip_the_replay(tmp_path: Path) -> None:
    """API: turn, asks and parts as of `head_seq`."""
    release = Release()
    async with ScriptedModel([text("x" * 5000, "y").stalled_after(1, release)]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
            sent = await chat.say("go")
            await chat.happens("model_output_delta")
            head = (await chat.get())["head_seq"]
            async with here.stream(f"{chat.path}/events?after={head}") as stream:
                hello = (await frame(stream)).data["data"]
                assert hello["open"]["turn"]["id"] == sent["turn_id"]
                [part] = hello["open"]["parts"]
                assert part["chars"] == 5000
                assert (await frame(stream)).data["data"] == {"seq": hello["head_seq"]}
            release.open()
            await chat.ended(sent["turn_id"])
    async with palaver(tmp_path) as here, here.chat() as chat:
        await chat.say("run the command `rm -f x`")
        [ask] = await chat.asks()
        async with here.stream(f"{chat.path}/events?after=1") as stream:
            assert [one["approval_id"] for one in (await frame(stream)).data["data"]["open"]["approvals"]] == [ask["id"]]


async def test_a_cursor_beyond_the_log_is_an_error_that_the_client_sees(here: Here) -> None:
    """API: 410 with the oldest and the newest number, never a silent empty stream; by header and by query, as stream and as page."""
    async with here.chat() as chat:
        await chat.runs("write 2 words")
        head = (await chat.get())["head_seq"]
        for path in (f"events?after={head + 1}", f"events?after={head + 1}&format=json"):
            ahead = await chat.refused("GET", path)
            assert (ahead.status, ahead.code, ahead.json["oldest_seq"], ahead.json["head_seq"]) == (410, "cursor_ahead", 1, head)
        gone = await chat.refused("GET", "events?after=-1")
        assert (gone.status, gone.code) == (410, "cursor_gone")
        by_header = await here.answer("GET", f"{chat.path}/events", headers={"Last-Event-ID": str(head + 5)})
        assert (by_header.status, by_header.code) == (410, "cursor_ahead")
        assert (await chat.refused("GET", "events?after=soon")).status == 422


async def test_the_header_beats_the_query(here: Here) -> None:
    """API: EventSource reconnects to the URL that it had, with the number that it has."""
    async with here.chat() as chat:
        await chat.runs("write 2 words")
        async with here.stream(f"{chat.path}/events?after=1", **{"Last-Event-ID": "4"}) as stream:
            frames = await stream.until(lambda one: one.event == "caught_up")
            assert frames[1].id == 5


async def test_a_page_of_events_says_where_the_next_one_begins(here: Here) -> None:
    """API: `format=json`."""
    async with here.chat() as chat:
        await chat.runs("write 2 words")
        log = await chat.check()
        after, found = 0, []
        while after < len(log):
            page = await chat.get(f"events?format=json&after={after}&limit=3")
            assert page["head_seq"] == len(log) and len(page["events"]) <= 3
            found += page["events"]
            after = page["next_after"]
        assert found == log
        empty = await chat.get(f"events?format=json&after={len(log)}")
        assert (empty["events"], empty["next_after"]) == ([], len(log))


async def test_silence_is_broken_by_a_comment(tmp_path: Path) -> None:
    """DESIGN 6: a keep-alive that no client takes for an event."""
    async with palaver(tmp_path, keep_alive_s=0.05) as here, here.chat() as chat:
        async with here.stream(f"{chat.path}/events?after=1") as stream:
            async with asyncio.timeout(10):
                raw = await stream.reader.readuntil(b"\n:\n\n")
            assert raw.count(b"retry: 1000") == 1 and raw.endswith(b":\n\n")


async def test_delete_ends_streams_and_close_leaves_them_open(here: Here) -> None:
    """API: `deleted` to the session's streams, its sockets' subscribers and `/v1/events`."""
    async with here.chat() as chat, here.chat() as closed, here.socket() as ws, here.stream("/v1/events") as news:
        await ws.send(json.dumps({"op": "subscribe", "session_id": chat.id}))
        async with here.stream(f"{chat.path}/events") as stream, here.stream(f"{closed.path}/events") as left_open:
            await stream.until(lambda one: one.event == "caught_up")
            await closed.post("close")
            await left_open.until(lambda one: one.data["type"] == "session_completed")
            assert (await here.answer("DELETE", chat.path)).status == 204
            last = (await stream.until(lambda one: one.event == "deleted"))[-1]
            assert last.data["data"] == {"session_id": chat.id} and "seq" not in last.data
            assert await stream.next() is None
            assert (await news.until(lambda one: one.event == "deleted"))[-1].data["data"] == {"session_id": chat.id}
            await _ws_until(ws, lambda one: one.get("type") == "deleted")
            assert (await here.ask("GET", closed.path))["status"] == "completed"
            assert not left_open.reader.at_eof()
        assert (await here.answer("GET", f"{chat.path}/events")).status == 404
        assert not (here.data / "sessions" / chat.id).exists()


# --- the tail -----------------------------------------------------------------------------------------------------------------


async def test_tail_pieces_are_provisional_and_say_where_they_stand(tmp_path: Path) -> None:
    """DESIGN 3, The tail: no `seq`, no `id`, offsets in code points, never half a character; the log confirms each word."""
    words = ("Wörd ", "😀", "👩\u200d👧", "e\u0301 ")
    steps = [Step(text(*words * 40).frames).paced(0.002)]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        async with here.reader(chat.id, tail=True) as reader:
            await chat.runs("go")
            log = await chat.check()
            await reader.reached(len(log))
            whole = "".join(words * 40)
            assert chat.answers() == [whole]
            assert len(reader.pieces) > 10
            for piece in reader.pieces:
                assert piece["type"] == "model_output_delta" and "seq" not in piece
                offset, said = piece["data"]["offset"], piece["data"]["text"]
                assert whole[offset : offset + len(said)] == said
            assert reader.page() == chat.reader.page()
        assert chat.reader.pieces == [], "who asked for no tail gets none"


async def test_the_first_word_reaches_a_tail_reader_before_the_log_has_it(tmp_path: Path) -> None:
    """DESIGN 3: a stream that waits for the disk feels slow."""
    release = Release()
    async with ScriptedModel([text("now", "later").stalled_after(1, release)]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat, here.reader(chat.id, tail=True) as reader:
            sent = await chat.say("go")
            piece = await reader.until(lambda: reader.pieces and reader.pieces[0])
            assert piece and piece["data"]["text"] == "now"
            assert not [one for one in reader.events if one["type"] == "model_output_delta"]
            release.open()
            await chat.ended(sent["turn_id"])


async def test_what_a_program_prints_is_seen_while_it_runs(here: Here) -> None:
    """The tail of a call: stdout and stderr, each with offsets of its own, and whole in the log afterwards."""
    async with here.chat(mode="auto") as chat, here.reader(chat.id, tail=True) as reader:
        sent = await chat.say("run the command `printf 'é😀'; printf 'oh' >&2; while [ ! -e go ]; do sleep 0.01; done; printf 'end'`")
        await reader.until(lambda: "tool_output_delta" in [one["type"] for one in (*reader.pieces, *reader.events)])
        assert (await chat.get())["running_turn_id"] == sent["turn_id"]
        (here.workspace / "go").touch()
        await chat.ended(sent["turn_id"])
        log = await chat.check()
        await reader.reached(len(log))
        assert reader.page() == chat.reader.page()
        call = chat.of("tool_call_started")[0]["data"]["tool_call"]["id"]
        for stream, whole in (("stdout", "é😀end"), ("stderr", "oh")):
            deltas = [one["data"] for one in chat.of("tool_output_delta") if one["data"]["stream"] == stream]
            assert "".join(one["text"] for one in deltas) == whole
            output = await chat.get(f"calls/{call}/output?stream={stream}&offset=1&limit=2")
            assert output == {"text": whole[1:3], "offset": 1, "next_offset": min(3, len(whole)), "total": len(whole)}


# --- every session's news -----------------------------------------------------------------------------------------------------


async def test_the_news_of_all_sessions_come_in_one_sequence_and_go_on_after_a_break(here: Here) -> None:
    """API, `GET /v1/events`: numbers of its own, the session's `seq` inside; resumed from memory without a gap."""
    async with here.stream("/v1/events") as stream:
        hello = await frame(stream)
        assert hello.event == "hello" and hello.data["data"]["session"] is None
        async with here.chat() as one, here.chat() as two:
            await asyncio.gather(one.runs("write 2 words"), two.runs("write 3 words"))
            logs = {chat.id: await chat.check() for chat in (one, two)}
        count = sum(map(len, logs.values()))
        frames = [await frame(stream) for _ in range(count)]
    assert [one.id for one in frames] == list(range(frames[0].id or 0, (frames[0].id or 0) + count))
    for session_id, log in logs.items():
        assert [one.data for one in frames if one.data["session_id"] == session_id] == log
    async with here.stream("/v1/events", **{"Last-Event-ID": str(frames[4].id)}) as again:
        assert (await frame(again)).event == "hello"
        assert [await frame(again) for _ in range(count - 5)] == frames[5:]


async def test_news_that_are_forgotten_or_of_another_run_are_a_gap(tmp_path: Path) -> None:
    """API: `gap`, then `hello` with what is open over all sessions."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        await chat.say("run the command `rm -f x`")
        [ask] = await chat.asks()
        number = 0
        for after in ("5", str(10**18)):
            async with here.stream(f"/v1/events?after={after}") as stream:
                gap, hello = await frame(stream), await frame(stream)
                assert gap.event == "gap" and gap.data["data"]["head_seq"] >= gap.data["data"]["oldest_seq"]
                assert hello.event == "hello" and hello.data["data"]["open"]["approvals"][0]["approval_id"] == ask["id"]
                number = gap.data["data"]["head_seq"]
    async with palaver(tmp_path) as here, here.stream(f"/v1/events?after={number}") as stream:
        assert (await frame(stream)).event == "gap"


async def test_the_newest_news_are_kept_and_no_more(here: Here) -> None:
    """API: 10 000."""
    sequence = here.built.sessions.feed
    async with here.stream("/v1/events") as stream:
        await frame(stream)
        async with here.chat() as chat:
            await chat.runs("write 2 words")
        first = (await frame(stream)).id or 0
    sequence.publish([b'{"type":"filler"}'] * (2 * feed.KEPT))
    async with here.stream(f"/v1/events?after={first}") as stream:
        gap = await frame(stream)
        assert gap.event == "gap"
        oldest, head = gap.data["data"]["oldest_seq"], gap.data["data"]["head_seq"]
        assert head - oldest + 1 >= feed.KEPT
    async with here.stream(f"/v1/events?after={head - 10_000}") as stream:
        assert (await frame(stream)).event == "hello"
        assert (await frame(stream)).id == head - 9_999


# --- one socket ---------------------------------------------------------------------------------------------------------------


async def _ws_until(ws: ClientConnection, wanted: Callable[[Json], bool]) -> list[Json]:
    found: list[Json] = []
    async with asyncio.timeout(20):
        while True:
            found.append(json.loads(await ws.recv()))
            if wanted(found[-1]):
                return found


async def test_many_sessions_and_commands_share_one_socket(here: Here) -> None:
    """API, `WS /v1/ws`: each with its own cursor; commands answer as over HTTP; the frames are the envelopes."""
    async with here.socket() as ws:
        sessions: list[str] = []
        for number in range(3):
            body = {"workspace_path": str(here.workspace)}
            await ws.send(json.dumps({"op": "request", "id": number, "method": "POST", "path": "/v1/sessions", "body": body}))
            reply = (await _ws_until(ws, lambda one: one.get("op") == "reply"))[-1]
            assert (reply["id"], reply["status"]) == (number, 201)
            sessions.append(reply["body"]["session_id"])
            await ws.send(json.dumps({"op": "subscribe", "session_id": sessions[-1], "after": number % 2, "tail": number == 2}))
            await _ws_until(ws, lambda one: one.get("type") == "caught_up")
        got: list[Json] = []
        for number, session_id in enumerate(sessions):
            said = {"role": "user", "parts": [{"type": "text", "text": f"write {number + 3} words"}]}
            request = {"op": "request", "id": f"m{number}", "method": "POST", "path": f"/v1/sessions/{session_id}/messages", "body": said}
            await ws.send(json.dumps(request))
        ended = 0
        while ended < 3:
            got += await _ws_until(ws, lambda one: one.get("type") == "turn_completed")
            ended += 1
        replies = {one["id"]: one for one in got if one.get("op") == "reply"}
        assert {id: one["status"] for id, one in replies.items()} == {"m0": 202, "m1": 202, "m2": 202}
        for session_id in sessions:
            log = (await here.ask("GET", f"/v1/sessions/{session_id}/events?format=json"))["events"]
            seen = [one for one in got if one.get("session_id") == session_id and "seq" in one]
            assert seen == log[1:]
            check_ended(log)


async def test_what_is_wrong_on_a_socket_is_an_error_and_the_socket_stays(here: Here) -> None:
    """API: bad frames, unknown sessions and cursors."""
    async with here.chat() as chat, here.socket() as ws:
        sent: list[tuple[Any, str]] = [
            ({"op": "dance"}, "unknown_op"),
            ({"op": "subscribe", "session_id": "sess_no"}, "not_found"),
            ({"op": "subscribe", "session_id": chat.id, "after": 99}, "cursor_ahead"),
            ({"op": "subscribe", "session_id": chat.id, "after": -1}, "cursor_gone"),
        ]
        for one, code in sent:
            await ws.send(json.dumps(one))
            error = (await _ws_until(ws, lambda one: one.get("op") == "error"))[-1]
            assert error["code"] == code, error
        await ws.send("{")
        assert (await _ws_until(ws, lambda one: one.get("op") == "error"))[-1]["code"] == "bad_json"
        await ws.send(json.dumps({"op": "request", "id": 1, "method": "GET", "path": "/v1/sessions/sess_no"}))
        reply = (await _ws_until(ws, lambda one: one.get("op") == "reply"))[-1]
        assert (reply["status"], reply["body"]["code"]) == (404, "not_found")


async def test_a_socket_that_stops_watching_one_session_goes_on_with_the_others(here: Here) -> None:
    """API: `unsubscribe`, and the fold of what came before is that of the log up to there."""
    async with here.chat() as one, here.chat() as two, here.socket() as ws:
        for chat in (one, two):
            await ws.send(json.dumps({"op": "subscribe", "session_id": chat.id}))
            await _ws_until(ws, lambda frame: frame.get("type") == "caught_up")
        await ws.send(json.dumps({"op": "unsubscribe", "session_id": one.id}))
        await ws.send(json.dumps({"op": "request", "id": 1, "method": "GET", "path": "/v1/health"}))
        await _ws_until(ws, lambda frame: frame.get("op") == "reply")
        await one.runs("write 2 words")
        await two.runs("write 3 words")
        got = await _ws_until(ws, lambda frame: frame.get("type") == "turn_completed")
        assert {frame["session_id"] for frame in got} == {two.id}
        assert page_of(fold([(await two.log())[0], *(frame for frame in got if "seq" in frame)])) == await two.transcript()
