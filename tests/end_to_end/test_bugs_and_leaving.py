"""A bug ends what it is in and nothing else; a session that nobody needs leaves memory and comes back as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from palaver.backends.base import Ask, Prompt, Tell
from palaver.daemon import Daemon as Built
from palaver.engine.work import Works
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind, ToolRegistry
from palaver.wire.values import Part, ToolCall, ToolResult
from palaver_daemon import Here, check_ended, palaver, row_of, scripted, until
from scripted_model import ScriptedModel, calls, text

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Odd:
    """A tool with a bug: where, its input says."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition("odd", "Breaks.", b'{"type": "object"}', ToolKind.READ)

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        if call.input == {"at": "describe"}:
            raise ZeroDivisionError("while it was described")
        return Description("odd")

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        if call.input == {"at": "invoke"}:
            context.output("output", "so far")
            raise ZeroDivisionError("while it ran")
        if call.input == {"at": "never"}:
            await asyncio.Event().wait()
        return ToolResult(call.id, True, (Part("text", text="fine"),))


def with_odd(built: Built) -> None:
    calls_ = built.hub.calls
    calls_.tools = ToolRegistry([*(calls_.tools.find(each.name) for each in calls_.tools.definitions()), Odd()])


@pytest.mark.parametrize("at", ["describe", "invoke"])
async def test_a_bug_in_a_tool_ends_its_call(tmp_path: Path, at: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A result for the model, the trace on stderr, and the batch goes on."""
    steps = [calls(("odd", {"at": at}), ("odd", {"at": "nowhere"})), text("I see"), text("and on")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url), change=with_odd) as here, here.chat() as chat:
        assert (await chat.runs("go"))["outcome"] == "completed"
        first, second = sorted((one["data"]["tool_result"] for one in chat.of("tool_call_completed")), key=lambda result: result["ok"])
        assert (first["error"]["code"], second["ok"]) == ("tool_error", True)
        assert "ZeroDivisionError" in capfd.readouterr().err
        assert (await chat.runs("on"))["outcome"] == "completed"
        check_ended(await chat.check())


class Buggy:
    """A backend with a bug."""

    async def take_turn(self, prompt: Prompt, tell: Tell, ask: Ask) -> None:
        raise ZeroDivisionError("in a backend")


async def test_a_bug_in_a_backend_ends_its_turn_and_no_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The daemon and other sessions go on, also one whose turn runs meanwhile."""
    config = '[agents.buggy]\nbackend = "loop"\nmodel = "demo"\n'

    def with_buggy(built: Built) -> None:
        works: Any = built.sessions.work
        assert isinstance(works, Works)
        loop = works.backends["loop"]
        works.backends = {"loop": _ByAgent(loop)}

    async with palaver(tmp_path, config=config, change=with_buggy) as here:
        async with here.chat() as good, here.chat(agent="buggy") as bad:
            running = await good.say("run the command `rm -f x` then write 3 words")
            [ask] = await good.asks()
            ended = await bad.runs("go")
            assert (ended["outcome"], ended["error"]["code"]) == ("failed", "internal")
            assert "in a backend" in capfd.readouterr().err
            await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
            assert (await good.ended(running["turn_id"]))["outcome"] == "completed"
            assert (await bad.get())["status"] == "failed"
            assert (await bad.runs("again"))["outcome"] == "failed", "the session takes messages all the same"


class _ByAgent:
    def __init__(self, good: Any) -> None:
        self._good, self._bad = good, Buggy()

    async def take_turn(self, prompt: Prompt, tell: Tell, ask: Ask) -> None:
        await (self._bad if prompt.agent == "buggy" else self._good).take_turn(prompt, tell, ask)


# --- leaving memory -----------------------------------------------------------------------------------------------------------


async def test_an_idle_session_leaves_memory_and_comes_back_equal(tmp_path: Path) -> None:
    """DESIGN 4: session, transcript, events, queue and what was sent twice are as before; a turn goes on from there."""
    async with palaver(tmp_path, idle_s=0.05) as here:
        async with here.chat() as chat:
            first = await chat.say("think about rivers then write 4 words", client_message_id="m1")
            await chat.ended(first["turn_id"])
            await chat.say("for later", auto_run=False)
            before = [await chat.get(), await chat.transcript(), await chat.log()]
            listed = (await here.ask("GET", "/v1/sessions"))["sessions"]
        await _gone(here, chat.id)
        assert (await here.ask("GET", "/v1/sessions"))["sessions"] == listed == [row_of(before[0])]
        assert chat.id not in here.in_memory, "the list needs nobody"
        async with here.chat(chat.id) as chat:
            assert [await chat.get(), await chat.transcript(), await chat.log()] == before
            assert await chat.say("think about rivers then write 4 words", client_message_id="m1") == first
            assert (await chat.runs("write 2 words"))["outcome"] == "completed"
            assert len(chat.of("turn_started")[-1]["data"]["message_ids"]) == 2
            check_ended(await chat.check())
            assert await chat.transcript() == chat.reader.page()


async def test_a_session_that_is_watched_waits_or_works_stays(tmp_path: Path) -> None:
    """What is open keeps a session in memory; what ends lets it go."""
    async with palaver(tmp_path, idle_s=0.05) as here:
        waiting = await here.new_session()
        async with here.chat(waiting) as chat:
            await chat.say("run the command `rm -f x`")
            [ask] = await chat.asks()
        quiet = await here.new_session()
        async with here.chat() as watched:
            await _gone(here, quiet)
            assert {waiting, watched.id} <= here.in_memory
            assert [item["id"] for item in await here.inbox()] == [ask["id"]]
        await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
        await _gone(here, waiting)


async def test_a_queue_that_waits_is_found_after_leaving(tmp_path: Path) -> None:
    """A paused queue opens nothing: the session may leave, and comes back with it."""
    async with palaver(tmp_path, idle_s=0.05) as here:
        async with here.chat() as chat:
            await chat.say("run the command `rm -f x`")
            await chat.asks()
            kept = await chat.say("write 2 words")
            await chat.post("cancel")
            await chat.idle()
            queue = await chat.get("queue")
        await _gone(here, chat.id)
        assert (here.data / "open" / chat.id).exists(), "a start looks at it"
        async with here.chat(chat.id) as chat:
            assert await chat.get("queue") == queue
            await chat.post("queue/resume")
            assert (await chat.ended(kept["turn_id"]))["outcome"] == "completed"


async def _gone(here: Here, session_id: str) -> None:
    await until(lambda: session_id not in here.in_memory, f"{session_id} is still in memory")
