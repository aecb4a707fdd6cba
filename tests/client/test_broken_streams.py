"""Streams that break where it hurts: in the middle of a word, before the beginning is known, with another log behind them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from palaver.client import ChatSession, StreamingText, connect
from palaver.client.line import Done, Follower, Work
from palaver.client.session import Seam
from palaver.client.types import Unsubscribe
from palaver.errors import Failed
from stand_in import Asked, Reply, StandIn

SECONDS = 10.0
EVENTS = ("GET", "/v1/sessions/s1/events")
RETRY = b"retry: 1\n\n"
CAUGHT_UP = b'event: caught_up\ndata: {"v":1,"ts":"x","session_id":"s1","turn_id":null,"type":"caught_up","data":{"seq":2}}\n\n'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def envelope(type: str, seq: int | None = None, **data: Any) -> bytes:
    body: dict[str, Any] = {"v": 1, "ts": "2026-03-01T09:00:00.000Z", "session_id": "s1", "turn_id": "t1", "type": type, "data": data}
    named = f"event: {type}\n" if type in ("hello", "caught_up") else ""
    if seq is not None:
        body, named = {**body, "seq": seq}, f"id: {seq}\n"
    return f"{named}data: {json.dumps(body)}\n\n".encode()


def hello(epoch: str = "e1") -> bytes:
    return envelope("hello", epoch=epoch, head_seq=0)


def said(seq: int, text: str) -> bytes:
    message = {"id": f"m{seq}", "role": "user", "parts": [{"type": "text", "id": "p", "text": text}]}
    return envelope("message_added", seq, message=message)


def turn(seq: int, *message_ids: str) -> bytes:
    return envelope("turn_started", seq, trigger="user", message_ids=list(message_ids), agent="a", backend="loop")


def delta(offset: int, text: str, seq: int | None = None) -> bytes:
    return envelope("model_output_delta", seq, message_id="m9", part_id="p9", kind="text", offset=offset, text=text)


class Streams:
    """One list of pieces for each connection; the last stream stays open. `asked` has the cursors."""

    def __init__(self, *streams: list[bytes]) -> None:
        self._streams = list(streams)
        self._hold = asyncio.Event()
        self.asked: list[str] = []

    def __call__(self, asked: Asked) -> Reply:
        self.asked.append(asked.query["after"])
        stream = self._streams.pop(0)
        return Reply(stream=stream) if self._streams else Reply(stream=stream, hold=self._hold)

    def end(self) -> None:
        self._hold.set()


@pytest.mark.anyio
async def test_a_stream_that_breaks_before_the_beginning_is_known_tells_it_once() -> None:
    """P-06"""
    streams = Streams(
        [RETRY, hello(), said(1, "Hi")],
        [RETRY, hello(), turn(2, "m1"), CAUGHT_UP],
    )
    async with StandIn({EVENTS: streams}) as daemon, connect(daemon.url, "id.secret") as client:
        told: list[Any] = []
        chat = ChatSession(client, session_id="s1", on_event=told.append)
        await client.wait(lambda: told, SECONDS)
        streams.end()
        assert [event["type"] for event in told] == ["session_restored"] and chat.is_executing
        assert [message["id"] for message in chat.messages] == ["m1"]
        assert streams.asked[:2] == ["0", "1"]


@pytest.mark.anyio
async def test_provisional_text_is_cut_back_and_nothing_of_the_log_comes_twice() -> None:
    """DESIGN.md 3, the tail; promise 1"""
    started = envelope("model_output_started", 3, message_id="m9", step_id="x")
    streams = Streams(
        [RETRY, hello(), said(1, "Hi"), turn(2, "m1"), CAUGHT_UP, started, delta(0, "Once", 4), delta(4, " upon a ti")],
        [RETRY, hello(), CAUGHT_UP, delta(0, "Once upon"), delta(4, " upon", 5)],
    )
    async with StandIn({EVENTS: streams}) as daemon, connect(daemon.url, "id.secret") as client:
        writing, seen, told = StreamingText(client, session_id="s1"), list[str](), list[Any]()
        client.session("s1").on_event(told.append)
        writing.on_state_change(lambda: seen.append(writing.text))
        await client.wait(lambda: len(seen) >= 6, SECONDS)
        streams.end()
        assert seen == ["", "Once", "Once upon a ti", "Once", "Once upon", "Once upon"]
        assert [event["type"] for event in told] == ["session_restored"] and streams.asked[:2] == ["0", "4"]


@pytest.mark.anyio
async def test_another_log_behind_the_same_address_begins_anew() -> None:
    """API.md, Streams: a client whose epoch differs starts over."""
    streams = Streams(
        [RETRY, hello("e1"), said(1, "Old"), turn(2, "m1"), CAUGHT_UP],
        [RETRY, hello("e2")],
        [RETRY, hello("e2"), said(1, "New"), CAUGHT_UP],
    )
    async with StandIn({EVENTS: streams}) as daemon, connect(daemon.url, "id.secret") as client:
        told: list[Any] = []
        chat = ChatSession(client, session_id="s1", on_event=told.append)
        await client.wait(lambda: len(told) == 2, SECONDS)
        streams.end()
        assert [(event["type"], event["executionId"]) for event in told] == [("session_restored", "t1"), ("session_restored", None)]
        assert chat.messages == () and streams.asked[:3] == ["0", "2", "0"]


@pytest.mark.anyio
async def test_a_cursor_that_the_log_no_longer_has_begins_anew() -> None:
    answers = [
        Reply(stream=[RETRY, hello(), said(1, "Old"), turn(2, "m1"), CAUGHT_UP]),
        Reply(410, {"code": "cursor_ahead", "detail": "The log ends at 1."}),
        Reply(stream=[RETRY, hello(), said(1, "Old"), CAUGHT_UP], hold=asyncio.Event()),
    ]
    async with StandIn({EVENTS: lambda asked: answers.pop(0)}) as daemon, connect(daemon.url, "id.secret") as client:
        told: list[Any] = []
        ChatSession(client, session_id="s1", on_event=told.append)
        await client.wait(lambda: len(told) == 2, SECONDS)
        assert [event["executionId"] for event in told] == ["t1", None]


@pytest.mark.anyio
async def test_an_event_that_cannot_be_understood_is_a_bug_that_rises() -> None:
    streams = Streams([RETRY, hello(), envelope("turn_started", 1)])
    with pytest.raises(KeyError):
        async with StandIn({EVENTS: streams}) as daemon, connect(daemon.url, "id.secret") as client:
            ChatSession(client, session_id="s1")
            await client.wait(lambda: False, SECONDS)


@pytest.mark.anyio
async def test_a_message_whose_answer_was_lost_is_sent_again_under_the_same_id() -> None:
    """Promise 5 from the client's side, P-06: one message, however often it has to be posted."""
    accepted = {"message_id": "m1", "turn_id": "t1", "delivered": "started"}
    answers = [None, Reply(202, accepted), Reply(202, {**accepted, "message_id": "m2"})]

    async def answer(asked: Asked) -> Reply:
        reply = answers.pop(0)
        if reply is None:
            raise ConnectionError("cut before the answer")
        return reply

    async with StandIn({("POST", "/v1/sessions/s1/messages"): answer}) as daemon:
        async with connect(daemon.url, "id.secret") as client:
            first, second = client.send("one", session_id="s1"), client.send("two", session_id="s1")
            assert (await first.result, await second.result) == (accepted, {**accepted, "message_id": "m2"})
        bodies = [asked.body for asked in daemon.asked if asked.method == "POST"]
        assert [body["parts"][0]["text"] for body in bodies] == ["one", "one", "two"]
        assert bodies[0]["client_message_id"] == bodies[1]["client_message_id"] != bodies[2]["client_message_id"]
        assert {body["delivery"] for body in bodies} == {"steer"}


@pytest.mark.anyio
async def test_an_answer_that_cannot_be_understood_leaves_nobody_waiting() -> None:
    with pytest.raises(TypeError):
        async with StandIn({("POST", "/v1/sessions/s1/messages"): Reply(202, [])}) as daemon, connect(daemon.url, "id.secret") as client:
            with pytest.raises(Failed) as caught:
                await client.send("one", session_id="s1").result
            assert caught.value.code == "bug"


@pytest.mark.anyio
async def test_a_daemon_that_says_no_is_not_asked_again() -> None:
    """507 is an answer: whoever sent the text hears of it at once."""
    answers: dict[tuple[str, str], Any] = {("POST", "/v1/sessions/s1/messages"): Reply(507, {"code": "disk", "detail": "It is full."})}
    async with StandIn(answers) as daemon, connect(daemon.url, "id.secret") as client:
        with pytest.raises(Failed) as caught:
            await client.send("one", session_id="s1").result
        assert caught.value.code == "disk"
        assert daemon.paths() == ["POST /v1/sessions/s1/messages"]


class HandDriven:
    """A wire whose followers are fed by hand."""

    def __init__(self) -> None:
        self.followers: list[Follower] = []

    def hand_over(self, key: str | None, work: Work, done: Done) -> None:
        raise AssertionError("nothing is sent here")

    def follow(self, session_id: str, follower: Follower) -> Unsubscribe:
        self.followers.append(follower)
        return lambda: None

    def later(self, delay_s: float, call: Callable[[], object]) -> None:
        call()


def test_what_was_on_its_way_when_the_last_reader_left_is_not_taken_by_the_next_one() -> None:
    wire, told = HandDriven(), list[Any]()
    session = Seam(wire).session("s1")
    session.on_event(told.append)
    turn_1 = json.loads(turn(1).split(b"data: ")[1])
    caught_up = json.loads(CAUGHT_UP.split(b"data: ")[1])
    session.subscribe()
    session.unsubscribe()
    session.subscribe()
    before, now = wire.followers
    before.take(turn_1)
    before.take(caught_up)
    before.begin()
    before.fail(Failed("unreachable", "gone"))
    assert told == []
    now.take(caught_up)
    assert [(event["type"], event["executionId"]) for event in told] == [("session_restored", None)]
