"""`WS /v1/ws` over a real engine: API.md, Streams."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from test_streams import logged, new_session, of, say
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hubs import daemon_in
from serving import Daemon, QuietHub, serving, streaming


async def tell(ws: ClientConnection, **frame: Any) -> None:
    await ws.send(json.dumps(frame))


async def hear(ws: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(20):
        return dict(json.loads(await ws.recv()))


async def until(ws: ClientConnection, **wanted: Any) -> list[dict[str, Any]]:
    frames = [await hear(ws)]
    while any(frames[-1].get(name) != value for name, value in wanted.items()):
        frames.append(await hear(ws))
    return frames


async def close_code(ws: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed) as closed:
        async with asyncio.timeout(10):
            while True:
                await ws.recv()
    return closed.value.rcvd.code if closed.value.rcvd else None


def test_the_first_frame_carries_the_token_unless_the_upgrade_did(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            async with daemon.socket() as ws:
                await tell(ws, op="auth", token=daemon.token)
                ready = await hear(ws)
                assert (ready["op"], ready["version"]) == ("ready", "0.0")
            async with daemon.authorized() as ws:
                await tell(ws, op="auth", token=daemon.token)
                assert (await hear(ws))["op"] == "ready"
                await tell(ws, op="auth", token="wrong")
                assert (await hear(ws))["code"] == "no_token"

    asyncio.run(run())


@pytest.mark.parametrize(
    "frame", ['{"op":"auth","token":"wrong"}', '{"op":"auth"}', '{"op":"subscribe","session_id":"sess_1"}', "nonsense", "😀"]
)
def test_a_wrong_first_frame_closes_with_4401(tmp_path: Path, frame: str) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            async with daemon.socket() as ws:
                await ws.send(frame)
                assert await close_code(ws) == 4401
            async with daemon.socket(additional_headers={"Authorization": "Bearer wrong"}) as ws:
                assert await close_code(ws) == 4401

    asyncio.run(run())


def test_a_socket_that_shows_no_token_in_time_is_closed_with_4401(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub(), auth_s=0.05) as daemon, daemon.socket() as ws:
            assert await close_code(ws) == 4401

    asyncio.run(run())


def test_a_ticket_opens_no_socket_and_no_other_path_is_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon:
            for path, status in (("/v1/other", 404), ("/", 404)):
                with pytest.raises(InvalidStatus) as refused:
                    async with connect(
                        f"ws://127.0.0.1:{daemon.port}{path}", additional_headers={"Authorization": f"Bearer {daemon.token}"}
                    ):
                        pass
                assert refused.value.response.status_code == status

    asyncio.run(run())


def test_many_sessions_on_one_socket_each_from_its_own_cursor(tmp_path: Path) -> None:
    """T-03: no gap and no duplicate, as the plain streams of the same sessions say."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            sessions = [await new_session(daemon, tmp_path) for _ in range(5)]
            async with daemon.authorized() as ws:
                for session in sessions:
                    await tell(ws, op="subscribe", session_id=session, after=0)
                frames = [frame for _ in sessions for frame in await until(ws, type="caught_up")]
                await asyncio.gather(*(say(daemon, session, "write 50 words") for session in sessions))
                for _ in sessions:
                    frames += await until(ws, type="turn_completed")
            for session in sessions:
                mine = [frame for frame in frames if frame["session_id"] == session]
                assert [frame["type"] for frame in mine[:3]] == ["hello", "session_created", "caught_up"]
                async with streaming(daemon.port, f"/v1/sessions/{session}/events", token=daemon.token) as stream:
                    plain = logged(await stream.until(of("turn_completed")))
                assert [frame for frame in mine if "seq" in frame] == [frame.data for frame in plain]

    asyncio.run(run())


def test_the_socket_gives_the_tail_to_those_who_ask_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            for tail in (True, False):
                async with daemon.authorized() as ws:
                    await tell(ws, op="subscribe", session_id=session, after=1, tail=tail)
                    await until(ws, type="caught_up")
                    await say(daemon, session, "write 300 words")
                    frames = await until(ws, type="turn_completed")
                    assert any("seq" not in frame for frame in frames) == tail

    asyncio.run(run())


def test_a_second_subscription_takes_the_place_of_the_first_and_after_unsubscribe_nothing_comes(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with daemon.authorized() as ws:
                for _ in range(2):
                    await tell(ws, op="subscribe", session_id=session, after=0)
                    await until(ws, type="caught_up")
                await say(daemon, session, "one", auto_run=False)
                assert (await hear(ws))["seq"] == 2
                await tell(ws, op="unsubscribe", session_id=session)
                await tell(ws, op="unsubscribe", session_id=session)
                await tell(ws, op="request", id=1, method="GET", path="/v1/health")
                assert (await hear(ws))["op"] == "reply"
                await say(daemon, session, "two", auto_run=False)
                await tell(ws, op="request", id=2, method="GET", path="/v1/health")
                assert (await hear(ws))["id"] == 2

    asyncio.run(run())


def test_a_request_over_the_socket_is_answered_as_over_http(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with daemon.authorized() as ws:
                for method, path, body in (
                    ("GET", f"/v1/sessions/{session}", None),
                    ("GET", "/v1/sessions?limit=1", None),
                    ("GET", f"/v1/sessions/{session}/events?format=json&limit=1", None),
                    ("GET", f"/v1/sessions/{session}/transcript", None),
                    ("GET", "/v1/agents", None),
                    ("GET", "/v1/none", None),
                    ("PUT", "/v1/sessions", {}),
                    ("GET", "/v1/sessions?limit=0", None),
                    ("POST", f"/v1/sessions/{session}/messages", {"parts": []}),
                    ("POST", f"/v1/sessions/{session}/cancel", None),
                    ("PATCH", f"/v1/sessions/{session}", {"title": "héllo\u2028"}),
                    ("POST", f"/v1/sessions/{session}/read", {"seq": 1}),
                    ("GET", "/openapi.json", None),
                ):
                    frame = {"op": "request", "id": f"{method} {path}", "method": method, "path": path}
                    await tell(ws, **frame, **({} if body is None else {"body": body}))
                    reply = await hear(ws)
                    answer = await daemon.ask(method, path, body)
                    assert (reply["op"], reply["id"], reply["status"]) == ("reply", f"{method} {path}", answer.status), reply
                    if method == "GET":
                        assert reply["body"] == answer.json
                    elif answer.status == 204:
                        assert reply["body"] is None

    asyncio.run(run())


def test_a_request_over_the_socket_has_the_scope_of_its_token(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with daemon.authorized(await daemon.mint("read")) as ws:
                await tell(ws, op="request", id=1, method="DELETE", path=f"/v1/sessions/{session}")
                reply = await hear(ws)
                assert (reply["status"], reply["body"]["code"]) == (403, "scope")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("frame", "code", "named"),
    [
        ("nonsense", "bad_json", {}),
        ("[]", "invalid", {}),
        ('{"op":1}', "invalid", {}),
        ('{"op":"dance","id":7}', "unknown_op", {"id": 7}),
        ('{"op":"subscribe"}', "invalid", {}),
        ('{"op":"subscribe","session_id":"sess_none","after":0}', "not_found", {"session_id": "sess_none"}),
        ('{"op":"subscribe","session_id":"../..","after":0}', "not_found", {"session_id": "../.."}),
        ('{"op":"subscribe","session_id":"sess_1","after":9}', "cursor_ahead", {"session_id": "sess_1"}),
        ('{"op":"subscribe","session_id":"sess_1","after":-1}', "cursor_gone", {"session_id": "sess_1"}),
        ('{"op":"subscribe","session_id":"sess_1","after":"x"}', "invalid", {"session_id": "sess_1"}),
        ('{"op":"request","id":"a","method":"GET"}', "invalid", {"id": "a"}),
        ('{"op":"focus","session_id":5}', "invalid", {"session_id": 5}),
        ('{"op":"focus"}', "invalid", {}),
        ('{"op":"focus","session_id":"sess_none"}', "not_found", {"session_id": "sess_none"}),
        ('{"op":"notify"}', "invalid", {}),
        ('{"op":"notify","on":1}', "invalid", {}),
        ('{"op":"request","id":"\\u0000"}', "bad_json", {}),
        ("[" * 100_000, "bad_json", {}),
    ],
)
def test_a_bad_frame_is_answered_with_error_and_the_socket_stays(tmp_path: Path, frame: str, code: str, named: dict[str, Any]) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            real = await new_session(daemon, tmp_path)
            async with daemon.authorized() as ws:
                await ws.send(frame.replace("sess_1", real))
                error = await hear(ws)
                expected = {name: real if value == "sess_1" else value for name, value in named.items()}
                assert (error["op"], error["code"]) == ("error", code), error
                assert {name: error.get(name) for name in expected} == expected and error["message"]
                await tell(ws, op="request", id=1, method="GET", path="/v1/health")
                assert (await hear(ws))["status"] == 200

    asyncio.run(run())


def test_every_op_is_explained(tmp_path: Path) -> None:
    """docs/socket.md."""

    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon, daemon.authorized() as ws:
            await tell(ws, op="dance")
            ops = (await hear(ws))["message"].partition("there are ")[2].replace(" and ", ", ").split(", ")
            page = (Path(__file__).parents[2] / "docs" / "socket.md").read_text()
            assert len(ops) == 7 and [op for op in ops if f'{{"op":"{op}"' not in page] == []

    asyncio.run(run())


def test_a_frame_over_four_mebibytes_closes_with_1009(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, QuietHub()) as daemon, daemon.authorized() as ws:
            await asyncio.gather(ws.send("x" * (4 * 1024 * 1024 + 1)), return_exceptions=True)
            assert await close_code(ws) == 1009

    asyncio.run(run())


def test_a_slow_socket_slows_nobody_and_gets_everything(tmp_path: Path) -> None:
    """Promise 9: the slow one does not read while the other follows to the end."""

    async def run() -> None:
        async with daemon_in(tmp_path, send_buffer=8192) as daemon:
            session = await new_session(daemon, tmp_path)
            async with daemon.authorized() as slow, daemon.authorized() as quick:
                slow.transport.pause_reading()
                for ws in (slow, quick):
                    await tell(ws, op="subscribe", session_id=session, after=0)
                for _ in range(3):
                    await say(daemon, session, "write 20000 words")
                    await until(quick, type="turn_completed")
                slow.transport.resume_reading()
                frames = [frame for _ in range(3) for frame in await until(slow, type="turn_completed")]
                seqs = [frame["seq"] for frame in frames if "seq" in frame]
                assert seqs == list(range(1, len(seqs) + 1))

    asyncio.run(run())


def test_a_deleted_session_is_told_to_its_subscribers_and_the_socket_stays(tmp_path: Path) -> None:
    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with daemon.authorized() as ws:
                await tell(ws, op="focus", session_id=session)
                await tell(ws, op="subscribe", session_id=session, after=0)
                await until(ws, type="caught_up")
                await tell(ws, op="request", id="gone", method="DELETE", path=f"/v1/sessions/{session}")
                frames = [await hear(ws), await hear(ws)]
                deleted = next(frame for frame in frames if frame.get("type") == "deleted")
                assert deleted["data"] == {"session_id": session} and "seq" not in deleted
                assert next(frame for frame in frames if frame.get("op") == "reply")["status"] == 204

    asyncio.run(run())


def test_closing_a_socket_cancels_nothing(tmp_path: Path) -> None:
    """Promise 7."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with daemon.authorized() as ws:
                await tell(ws, op="subscribe", session_id=session, after=0, tail=True)
                await say(daemon, session, "wait 1 seconds then write 5 words")
                await until(ws, type="turn_started")
            assert (await _last(daemon, session))["data"]["outcome"] == "completed"

    asyncio.run(run())


async def _last(daemon: Daemon, session: str) -> dict[str, Any]:
    async with streaming(daemon.port, f"/v1/sessions/{session}/events", token=daemon.token) as stream:
        return dict((await stream.until(of("turn_completed")))[-1].data)


def test_a_request_whose_socket_is_closed_is_carried_out_all_the_same(tmp_path: Path) -> None:
    """Promise 7: here a DELETE that first has to end a turn."""

    async def run() -> None:
        async with daemon_in(tmp_path) as daemon:
            session = await new_session(daemon, tmp_path)
            async with daemon.authorized() as ws:
                await tell(ws, op="subscribe", session_id=session, after=0)
                await say(daemon, session, "wait 60 seconds")
                await until(ws, type="turn_started")
                await tell(ws, op="request", id=1, method="DELETE", path=f"/v1/sessions/{session}")
                await until(ws, type="turn_cancel_requested")
            async with asyncio.timeout(10):
                while (await daemon.ask("GET", f"/v1/sessions/{session}")).status != 404:
                    await asyncio.sleep(0.02)
            folder = tmp_path / "data" / "sessions"
            assert not (folder / session).exists()

    asyncio.run(run())
