"""Answering from the keyboard: what is on the screen is what gets answered, and nothing fires by accident (SECURITY 20)."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import pty
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from palaver.cli.conversation import ARMED_S, Conversation
from palaver.cli.narrate import Narrator
from palaver.cli.screen import Screen
from palaver.client.connect import Connection
from stand_in import Asked, Reply, StandIn, control, event, frame

pytestmark = pytest.mark.anyio

OPTIONS = [
    {"id": "once", "action": "approve", "scope": "once", "label": "Allow once"},
    {"id": "deny", "action": "deny", "scope": "once", "label": "Deny"},
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Seat:
    """A person in front of a conversation: a clock that is set, a screen that is read, and the daemon behind it."""

    def __init__(self, daemon: StandIn, connection: Connection) -> None:
        self.daemon = daemon
        self.now = 100.0
        self.out = io.StringIO()
        self.inbox: list[dict[str, Any]] = []
        daemon.answers[("GET", "/v1/inbox")] = lambda _: Reply(body={"items": self.inbox, "as_of": "x"})
        daemon.answers[("POST", "/v1/sessions/sess_1/messages")] = Reply(202, {"message_id": "m", "turn_id": "t", "delivered": "started"})
        for number in (1, 2, 3):
            daemon.answers[("POST", f"/v1/approvals/appr_{number}")] = Reply(body={})
        self.conversation = Conversation(
            connection,
            "sess_1",
            Screen(self.out, self.out, {}),
            interactive=True,
            messages=True,
            narrator=Narrator(),
            clock=lambda: self.now,
        )

    async def caught_up(self) -> None:
        await self.conversation.show(control("caught_up", {"seq": 0}))

    async def asked(self, number: int, **data: Any) -> None:
        await self.conversation.show(event(number, "approval_requested", ask(number, **data)))

    async def settled(self, number: int) -> None:
        data = {"approval_id": f"appr_{number}", "tool_call": None, "by": "Ann", "scope": "once"}
        await self.conversation.show(event(10 + number, "approval_granted", data))

    async def types(self, line: str, *, later: float = ARMED_S) -> None:
        self.now += later
        await self.conversation.typed(line)

    def answers(self) -> list[tuple[str, str]]:
        return [(one.path.rsplit("/", 1)[1], one.body["option_id"]) for one in self.daemon.asked if "/approvals/" in one.path]

    def messages(self) -> list[str]:
        return [one.body["parts"][0]["text"] for one in self.daemon.asked if one.path.endswith("/messages")]


def ask(number: int, **data: Any) -> dict[str, Any]:
    call = {"id": f"call_{number}", "name": "shell", "input": {}}
    base = {"approval_id": f"appr_{number}", "subject": "tool", "tool_call": call, "kind": "exec", "options": OPTIONS}
    return {**base, "preview": {"command": f"command {number}"}, **data}


@pytest.fixture
async def seat() -> AsyncGenerator[Seat, None]:
    async with StandIn() as daemon, Connection(daemon.url, "id.secret") as connection:
        yield Seat(daemon, connection)


async def test_what_was_typed_before_the_ask_could_be_read_decides_nothing(seat: Seat) -> None:
    """SECURITY 20: 0, 50 and 399 ms after it appeared."""
    await seat.caught_up()
    await seat.asked(1)
    for later in (0.0, 0.05, 0.349):
        await seat.types("y", later=later)
    assert seat.answers() == []
    await seat.types("y", later=0.002)
    assert seat.answers() == [("appr_1", "once")]


async def test_a_second_ask_does_not_take_the_place_of_the_one_on_the_screen(seat: Seat) -> None:
    """SECURITY 20: a new ask never becomes marked by arriving."""
    await seat.caught_up()
    await seat.asked(1)
    await seat.asked(2)
    assert "command 2" not in seat.out.getvalue()
    await seat.types("n")
    assert seat.answers() == [("appr_1", "deny")]


async def test_an_answer_never_goes_to_the_ask_that_came_next(seat: Seat) -> None:
    """SECURITY 20: a change disarms."""
    await seat.caught_up()
    await seat.asked(1)
    await seat.asked(2)
    await seat.settled(1)
    assert "command 2" in seat.out.getvalue()
    await seat.types("y", later=0.1)
    assert seat.answers() == []
    await seat.types("y")
    assert seat.answers() == [("appr_2", "once")]


async def test_typing_on_under_an_ask_sends_a_message_and_approves_nothing(seat: Seat) -> None:
    """SECURITY 20."""
    await seat.caught_up()
    await seat.asked(1)
    for line in ("yes please", "yes", "", "> y"):
        await seat.types(line)
    assert seat.answers() == []
    assert seat.messages() == ["yes please", "y"]


async def test_a_letter_with_nothing_to_answer_is_not_sent_as_a_message(seat: Seat) -> None:
    await seat.caught_up()
    await seat.types("y")
    assert (seat.answers(), seat.messages()) == ([], [])
    await seat.types("//help me")
    await seat.types("/nonsense")
    assert seat.messages() == ["/help me"]


async def test_asks_that_the_replay_settles_are_never_shown(seat: Seat) -> None:
    await seat.asked(1)
    await seat.settled(1)
    await seat.caught_up()
    assert "command 1" not in seat.out.getvalue()


async def test_an_ask_from_before_the_first_event_is_shown_too(seat: Seat) -> None:
    seat.inbox = [{"id": "appr_3", "kind": "approval", "session_id": "sess_1", "path": ["sess_1"], "requested_at": "x", "data": ask(3)}]
    await seat.caught_up()
    assert "command 3" in seat.out.getvalue()
    await seat.types("1")
    assert seat.answers() == [("appr_3", "once")]


async def test_a_shortened_command_is_loaded_before_it_can_be_approved(seat: Seat) -> None:
    """API.md, Messages: a client loads a shortened preview before it offers Approve."""
    text = "echo " + "x" * 60_000 + "; rm -rf ~"
    place = {"ref": "artifacts/turn_1/command", "size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    data = {"preview": {"command": text[:2048]}, "refs": {"/preview/command": place}}
    await seat.caught_up()
    await seat.asked(1, **data)
    await seat.types("y")
    assert seat.answers() == [] and "cannot be shown whole" in seat.out.getvalue()
    await seat.settled(1)
    seat.daemon.answers[("GET", "/v1/sessions/sess_1/artifacts/turn_1/command")] = Reply(body=text.encode())
    await seat.asked(2, **data)
    assert "; rm -rf ~" in seat.out.getvalue()
    await seat.types("y")
    assert seat.answers() == [("appr_2", "once")]


async def test_an_answer_that_came_second_is_shown_and_the_conversation_goes_on(seat: Seat) -> None:
    seat.daemon.answers[("POST", "/v1/approvals/appr_1")] = Reply(409, {"code": "already_answered", "detail": "Ann was first.\x1b"})
    await seat.caught_up()
    await seat.asked(1)
    await seat.types("y")
    assert "Ann was first.⟨U+001B⟩" in seat.out.getvalue()


async def test_cancel_is_a_command_and_quit_is_not(seat: Seat) -> None:
    """Promise 7: leaving cancels nothing."""
    seat.daemon.answers[("POST", "/v1/sessions/sess_1/cancel")] = Reply(202, {"turn_id": "t"})
    assert await seat.conversation.typed("/quit") == "leave"
    assert seat.daemon.paths() == []
    assert await seat.conversation.typed("/cancel") == "stay"
    assert seat.daemon.paths() == ["POST /v1/sessions/sess_1/cancel"]


async def test_attach_in_a_terminal_answers_from_the_keyboard_and_leaves_at_its_end(tmp_path: Path) -> None:
    """The same by a real terminal: what is typed reaches the daemon, Ctrl-D leaves with 0, and nothing but colours is sent to it."""
    answered = asyncio.Event()

    async def stream() -> AsyncGenerator[bytes, None]:
        for envelope in (control("hello", {"epoch": "e"}), control("caught_up", {"seq": 0}), event(1, "approval_requested", ask(1))):
            yield frame(envelope)
        await answered.wait()
        yield frame(event(2, "approval_granted", {"approval_id": "appr_1", "tool_call": None, "by": "you", "scope": "once"}))

    def approve(asked: Asked) -> Reply:
        answered.set()
        return Reply(body={})

    def events(asked: Asked) -> Reply:
        listing = {"events": [], "next_after": 0, "head_seq": 0}
        return Reply(body=listing) if "format" in asked.query else Reply(stream=stream(), hold=asyncio.Event())

    async with StandIn() as daemon:
        session = {"id": "sess_1", "status": "active", "title": "T", "head_seq": 0}
        daemon.answers[("GET", "/v1/sessions")] = Reply(body={"sessions": [session], "next_cursor": None})
        daemon.answers[("GET", "/v1/sessions/sess_1/events")] = events
        daemon.answers[("GET", "/v1/inbox")] = Reply(body={"items": [], "as_of": "x"})
        daemon.answers[("POST", "/v1/approvals/appr_1")] = approve
        (tmp_path / "token").write_text("id.secret")
        (tmp_path / "daemon.json").write_text(json.dumps({"pid": os.getpid(), "url": daemon.url, "token_file": str(tmp_path / "token")}))
        ours, theirs = pty.openpty()
        here = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        env = {**here, "PALAVER_DATA": str(tmp_path), "TERM": "xterm"}
        command = (sys.executable, "-m", "palaver.cli.main", "attach", "last")
        process = await asyncio.create_subprocess_exec(*command, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        seen = bytearray()
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, lambda: seen.extend(_read(ours, loop)))
        await _until(lambda: b"or a number" in seen)
        while not answered.is_set():  # what comes within the first 400 ms does not count, so a person would type it again
            os.write(ours, b"y\n")
            await asyncio.sleep(0.1)
        await _until(lambda: b"allowed (once) by you" in seen)
        os.write(ours, b"\x04")
        assert await asyncio.wait_for(process.wait(), 20) == 0
        loop.remove_reader(ours)
        os.close(ours)
    assert b"command 1" in seen and b"\x1b[1m" in seen


def _read(descriptor: int, loop: asyncio.AbstractEventLoop) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        loop.remove_reader(descriptor)  # the other side is closed: Linux says so with an error
        return b""


async def _until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)
