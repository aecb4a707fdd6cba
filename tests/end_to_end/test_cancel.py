"""Cancel takes one path in every phase of a turn: within 2 s all has stopped, every call has one result, the partial text is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from palaver_daemon import Chat, Here, check_ended, palaver, process_is_there, scripted, texts, until
from scripted_model import Release, ScriptedModel, Step, calls, status, text, thinking

pytestmark = pytest.mark.anyio
WITHIN_S = 2.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Phase(NamedTuple):
    """A moment in a turn, and how a test knows that it is there."""

    name: str
    step: Step
    silent_after: int | None
    """Frames after which the model says nothing more."""
    there: Callable[[Chat, ScriptedModel], Awaitable[object]]
    kept: str = ""
    """What of the model's words must be left."""
    calls: int = 0
    mode: str = "auto"


async def _asked(chat: Chat, model: ScriptedModel) -> None:
    await model.received(1)


async def _texted(chat: Chat, model: ScriptedModel) -> None:
    await chat.happens("model_output_delta")


async def _begun(chat: Chat, model: ScriptedModel) -> None:
    await chat.happens("model_output_started")


async def _runs(chat: Chat, model: ScriptedModel) -> None:
    await until((chat.client.workspace / "pids").exists)
    await until(lambda: len((chat.client.workspace / "pids").read_text().split()) == 3)


async def _waits(chat: Chat, model: ScriptedModel) -> None:
    await chat.asks()


async def _retries(chat: Chat, model: ScriptedModel) -> None:
    await model.answered(0)


RUN = "echo $$ >> pids; (trap '' TERM; echo $BASHPID >> pids; sleep 60) & sleep 60 & echo $! >> pids; wait"
QUESTION = {"questions": [{"text": "Which?", "options": ["red", "blue"]}]}
SHELL = calls(("shell", {"command": "echo a b c d e"}))
PHASES = [
    Phase("before the first token", text("never"), 0, _asked),
    Phase("in text", text("some ", "words"), 1, _texted, "some "),
    Phase("in thinking", thinking("hm, ", "so"), 1, _texted, "hm, "),
    Phase("in a call's arguments", text("I run ") + SHELL, 3, _begun, "I run "),
    Phase("while a tool runs", calls(("shell", {"command": RUN})), None, _runs, calls=1),
    Phase("while an approval waits", calls(("shell", {"command": "ls"}), ("shell", {"command": "pwd"})), None, _waits, calls=2, mode="ask"),
    Phase("while a question waits", text("Tell me. ") + calls(("ask_user", QUESTION)), None, _waits, "Tell me. ", calls=1),
    Phase("while a plan waits", calls(("update_plan", {"text": "First look."})), None, _waits, calls=1, mode="plan"),
    Phase("before a second try", status(500, retry_after=30), None, _retries),
]


@asynccontextmanager
async def cancelled(tmp_path: Path, phase: Phase, after: list[Step]) -> AsyncIterator[tuple[Here, Chat, ScriptedModel, str, float]]:
    """A turn that was cancelled in that phase, and has ended; how long that took."""
    step = phase.step if phase.silent_after is None else phase.step.stalled_after(phase.silent_after, Release())
    async with ScriptedModel([step, *after]) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        async with here.chat(mode=phase.mode) as chat:
            turn = (await chat.say("go"))["turn_id"]
            await phase.there(chat, model)
            clock = asyncio.get_running_loop().time
            began = clock()
            answers = await asyncio.gather(*(chat.post("cancel", {"turn_id": turn}) for _ in range(3)))
            assert answers == [{"turn_id": turn}] * 3
            await chat.ended(turn)
            yield here, chat, model, turn, clock() - began


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
async def test_a_cancel_ends_the_turn_in_every_phase(tmp_path: Path, phase: Phase) -> None:
    """T-05, DESIGN 5.7: one request, one end, one result for each call, the partial text, within 2 s; the session goes on."""
    async with cancelled(tmp_path, phase, [text("going on")]) as (here, chat, model, turn, took):
        assert took < WITHIN_S
        ended = (await chat.ended(turn)) | {"duration_ms": 0}
        assert (ended["outcome"], ended["stop_reason"], ended["cause"]) == ("cancelled", "cancelled", "user_cancel")
        types = chat.turn(turn)
        assert [types.count(type) for type in ("turn_cancel_requested", "turn_completed", "session_canceled")] == [1, 1, 1]
        if phase.kept:
            message = chat.of("model_output_completed")[-1]["data"]["message"]
            assert texts(message) + texts(message, "thinking") == phase.kept
        results = [one["data"]["tool_result"] for one in chat.of("tool_call_completed")]
        assert [result["error"]["code"] for result in results] == ["tool_interrupted"] * phase.calls
        assert not chat.open_asks() and await here.inbox() == []
        assert (await chat.get())["status"] == "canceled"
        if phase.there is _runs:
            for pid in (here.workspace / "pids").read_text().split():
                assert not process_is_there(int(pid))
        assert (await chat.runs("and now"))["outcome"] == "completed", "what the model gets is legal"
        answered = {call["id"] for one in model.requests[-1]["messages"] for call in one.get("tool_calls") or []}
        assert answered == {one["tool_call_id"] for one in model.requests[-1]["messages"] if one["role"] == "tool"}
        check_ended(await chat.check())
        assert await chat.transcript() == chat.reader.page()


async def test_a_cancel_closes_the_connection_to_a_model_that_fell_silent(tmp_path: Path) -> None:
    """A provider that is not heard costs no more."""
    async with cancelled(tmp_path, PHASES[1], []) as (_, _, model, _, _):
        await model.disconnected(0)


async def test_a_cancelled_message_says_that_it_was_interrupted(tmp_path: Path) -> None:
    """R-11: kept and marked, also after a reload."""
    async with cancelled(tmp_path, PHASES[1], []) as (_, chat, _, _, _):
        assert chat.of("model_output_completed")[-1]["data"]["message"]["interrupted"] is True
        blocks = [block for entry in (await chat.transcript())["entries"] for block in entry["blocks"]]
        assert [block["interrupted"] for block in blocks if block["kind"] == "text" and block["part"]["text"] == "some "] == [True]


async def test_a_cancel_without_a_turn_or_of_another_one_says_so_and_does_nothing(tmp_path: Path) -> None:
    """API: 200 with `turn_id: null`."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        assert await chat.post("cancel") == {"turn_id": None}
        done = await chat.say("write 2 words")
        await chat.ended(done["turn_id"])
        sent = await chat.say("wait 60 seconds")
        answer = await here.answer("POST", f"{chat.path}/cancel", {"turn_id": done["turn_id"]})
        assert (answer.status, answer.json) == (200, {"turn_id": None})
        assert (await here.answer("POST", f"{chat.path}/cancel", {"turn_id": sent["turn_id"]})).status == 202
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "cancelled"


async def test_closing_a_connection_cancels_nothing(tmp_path: Path) -> None:
    """Promise 7, R-10: readers come and go while the turn works."""
    async with palaver(tmp_path) as here:
        session_id = await here.new_session()
        async with here.chat(session_id) as chat:
            sent = await chat.say("run the command `rm -f nothing` then write 3 words")
            [ask] = await chat.asks()
        async with here.stream(f"/v1/sessions/{session_id}/events") as stream:
            await stream.next()
        await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
        async with here.chat(session_id) as chat:
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"


async def test_a_second_cancel_makes_what_waits_for_the_end_paused_items(tmp_path: Path) -> None:
    """DESIGN 5.7: and writes no second request."""
    command = "trap '' TERM; touch started; sleep 60 & wait; sleep 60"
    async with ScriptedModel([calls(("shell", {"command": command})), text("no")]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(mode="auto") as chat:
            sent = await chat.say("go")
            await until((here.workspace / "started").exists)
            waits = await chat.say("one", delivery="interrupt")
            await chat.post("cancel")
            await chat.ended(sent["turn_id"])
            assert [(item["message_id"], item["paused"]) for item in (await chat.get("queue"))["items"]] == [(waits["message_id"], True)]
            assert len(chat.of("turn_cancel_requested")) == 1 and len(chat.of("turn_started")) == 1


async def test_a_background_process_of_a_finished_call_is_gone(tmp_path: Path) -> None:
    """DESIGN 5, Processes: a call's end ends its group."""
    async with palaver(tmp_path) as here, here.chat(mode="auto") as chat:
        await chat.runs("run the command `sleep 60 & echo $! > pid`")
        pid = int((here.workspace / "pid").read_text())
        await until(lambda: not process_is_there(pid))
