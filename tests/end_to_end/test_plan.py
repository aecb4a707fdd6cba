"""The agent's plan: a running list that everybody sees, and in mode plan what a person approves, edits or sends back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palaver_daemon import Chat, Here, Json, check_ended, palaver, scripted
from scripted_model import ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio

PLAN: Json = {"items": [{"text": "look", "status": "pending"}, {"text": "mend", "status": "pending"}], "text": "Two steps, no risk."}
CHANGING = {"shell", "apply_patch", "verify", "diagram"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def hands_in(**plan: Any) -> Step:
    return calls(("update_plan", {**PLAN, **plan}))


@asynccontextmanager
async def planning(tmp_path: Path, steps: Sequence[Step], mode: str = "plan") -> AsyncIterator[tuple[Here, Chat, ScriptedModel]]:
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url), config="[verify]\nauto = false\n") as here:
        async with here.chat(mode=mode) as chat:
            yield here, chat, model
            await chat.idle()
            check_ended(await chat.check())
            assert await chat.transcript() == chat.reader.page()


def offered(model: ScriptedModel, request: int) -> set[str]:
    return {tool["function"]["name"] for tool in model.requests[request]["tools"]}


def results(model: ScriptedModel, request: int) -> list[str]:
    return [one["content"] for one in model.requests[request]["messages"] if one["role"] == "tool"]


def statuses(chat: Chat) -> list[str]:
    return [one["data"]["plan"]["status"] for one in chat.of("plan_updated")]


async def test_in_mode_plan_nothing_that_changes_is_offered_or_allowed(tmp_path: Path) -> None:
    """DESIGN 5, Policies (3)."""
    tries = calls(
        ("shell", {"command": "touch made"}), ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: made\n+x\n*** End Patch"})
    )
    async with planning(tmp_path, [tries, text("I see")]) as (here, chat, model):
        assert (await chat.runs("go"))["outcome"] == "completed"
        assert not CHANGING & offered(model, 0) and {"read_file", "search", "ask_user", "update_plan"} <= offered(model, 0)
        assert [one["data"]["tool_result"]["error"]["code"] for one in chat.of("tool_call_completed")] == ["tool_denied"] * 2
        assert not (here.workspace / "made").exists() and not chat.of("approval_requested")


@pytest.mark.parametrize(
    ("answer", "mode"), [({"option_id": "edit"}, "edit"), ({"option_id": "auto"}, "auto"), ({}, "ask"), ({"option_id": "ask"}, "ask")]
)
async def test_an_approved_plan_goes_on_in_the_mode_that_was_chosen(tmp_path: Path, answer: Json, mode: str) -> None:
    """One inbox item of kind plan; its options carry the mode, and the same turn goes on in it."""
    async with planning(tmp_path, [hands_in(), text("done")]) as (here, chat, model):
        sent = await chat.say("plan it")
        [item] = await chat.asks()
        assert (item["kind"], item["data"]["subject"], item["data"]["tool_call"]["input"]) == ("plan", "plan", PLAN)
        options = [(one["id"], one["action"], one.get("mode")) for one in item["data"]["options"]]
        assert options == [("ask", "approve", "ask"), ("edit", "approve", "edit"), ("auto", "approve", "auto"), ("deny", "deny", None)]
        assert statuses(chat) == ["planned"] and (await chat.get())["status"] == "waiting_approval"
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve", **answer})
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
        assert (await chat.get())["mode"] == mode and statuses(chat) == ["planned", "approved"]
        assert CHANGING - {"diagram"} <= offered(model, 1) and "approved this plan" in results(model, 1)[0]
        assert await here.inbox() == []


async def test_the_model_gets_the_plan_that_the_person_edited(tmp_path: Path) -> None:
    """API, Asking: `input {items, text}`, as the event showed it."""
    async with planning(tmp_path, [hands_in(), text("done")]) as (here, chat, model):
        sent = await chat.say("plan it")
        [item] = await chat.asks()
        shown = chat.of("plan_updated")[0]["data"]["plan"]
        edited = {"items": [{**shown["items"][1], "text": "mend with care"}], "text": "One step is enough."}
        nonsense = await here.answer("POST", f"/v1/approvals/{item['id']}", {"action": "approve", "input": {"items": []}})
        assert (nonsense.status, nonsense.code) == (422, "invalid")
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve", "option_id": "edit", "input": edited})
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
        told = results(model, 1)[0]
        assert "mend with care" in told and "One step is enough." in told and "was changed" in told
        plan = chat.of("plan_updated")[-1]["data"]["plan"]
        assert plan == {"id": "plan", "status": "approved", "text": "One step is enough.", "items": edited["items"]}


async def test_keep_planning_with_a_note_and_the_next_plan_is_the_one_in_the_inbox(tmp_path: Path) -> None:
    """The note reaches the model, the mode stays, and there is one plan in the inbox."""
    steps = [hands_in(), calls(("read_file", {"path": "a.txt"})), hands_in(text="Now with tests."), text("done")]
    async with planning(tmp_path, steps) as (here, chat, model):
        (here.workspace / "a.txt").write_text("a")
        sent = await chat.say("plan it")
        [first] = await chat.asks()
        await here.ask("POST", f"/v1/approvals/{first['id']}", {"action": "deny", "reason": "where are the tests?"})
        [second] = await chat.asks()
        assert second["id"] != first["id"] and second["data"]["tool_call"]["input"]["text"] == "Now with tests."
        assert "plan on: where are the tests?" in results(model, 1)[0] and not CHANGING & offered(model, 2)
        assert statuses(chat) == ["planned", "rejected", "planned"]
        await here.ask("POST", f"/v1/approvals/{second['id']}", {"action": "approve", "option_id": "edit"})
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
        blocks = [block for entry in (await chat.transcript())["entries"] for block in entry["blocks"] if block["kind"] == "plan"]
        assert [(block["data"]["plan"]["status"], block["call"]["approval"]["status"]) for block in blocks] == [("approved", "granted")]


async def test_of_two_plans_in_one_answer_only_the_last_is_handed_in(tmp_path: Path) -> None:
    """One inbox item per session; the other call gets its result."""
    both = calls(("update_plan", {**PLAN, "text": "first"}), ("update_plan", {**PLAN, "text": "second"}))
    async with planning(tmp_path, [both, text("done")]) as (here, chat, model):
        sent = await chat.say("plan it")
        [item] = await chat.asks()
        assert item["data"]["tool_call"]["input"]["text"] == "second"
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve"})
        await chat.ended(sent["turn_id"])
        assert "tool_skipped" in results(model, 1)[0] or "later call" in results(model, 1)[0]
        assert len(chat.of("approval_requested")) == 1


async def test_an_interrupt_withdraws_the_plan_and_a_new_one_takes_its_place(tmp_path: Path) -> None:
    """DESIGN 5.1: a message meanwhile waits; an interrupt is the person's way to say something else first."""
    async with planning(tmp_path, [hands_in(), hands_in(text="As you like."), text("done")]) as (here, chat, _):
        await chat.say("plan it")
        [first] = await chat.asks()
        queued = await chat.say("by the way")
        assert queued["delivered"] == "queued" and [one["id"] for one in await here.inbox()] == [first["id"]]
        await chat.client.ask("DELETE", f"{chat.path}/queue/{queued['item_id']}")
        sent = await chat.say("something else", delivery="interrupt")
        await chat.happens("approval_requested", 2)
        [second] = await here.inbox()
        assert second["turn_id"] == sent["turn_id"] and second["data"]["tool_call"]["input"]["text"] == "As you like."
        await here.ask("POST", f"/v1/approvals/{second['id']}", {"action": "approve"})
        await chat.ended(sent["turn_id"])


async def test_a_plan_waits_through_a_restart_and_its_turn_goes_on_in_the_chosen_mode(tmp_path: Path) -> None:
    """Promise 6: the ask is alive, nothing is run again, and the answer's mode holds."""
    async with ScriptedModel([hands_in(), calls(("shell", {"command": "touch made"})), text("done")]) as model:
        config = "[verify]\nauto = false\n"
        async with palaver(tmp_path, env=scripted(model.url), config=config) as here, here.chat(mode="plan") as chat:
            sent = await chat.say("plan it")
            [item] = await chat.asks()
            id = chat.id
        async with palaver(tmp_path, env=scripted(model.url), config=config) as here, here.chat(id) as chat:
            assert [one["id"] for one in await here.inbox()] == [item["id"]]
            await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve", "option_id": "auto"})
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
            assert len(model.requests) == 3 and (here.workspace / "made").exists()


async def test_whoever_may_not_approve_cannot_choose_a_plans_mode(tmp_path: Path) -> None:
    """SECURITY 2, 3."""
    async with planning(tmp_path, [hands_in(), text("done")]) as (here, chat, _):
        sent = await chat.say("plan it")
        [item] = await chat.asks()
        narrow = await here.mint("prompt")
        refused = await here.answer("POST", f"/v1/approvals/{item['id']}", {"action": "approve", "option_id": "auto"}, token=narrow)
        assert (refused.status, refused.code) == (403, "scope")
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "deny"})
        await chat.ended(sent["turn_id"])
        assert (await chat.get())["mode"] == "plan"


async def test_where_no_sandbox_holds_only_an_admin_lets_a_plan_go_on_in_mode_auto(tmp_path: Path) -> None:
    """SECURITY 14: approving a plan is no way around what the switch to `auto` takes, and the session says what it means."""
    config = '[verify]\nauto = false\n[sandbox]\nmode = "off"\n'
    async with ScriptedModel([hands_in(), text("done")]) as model, palaver(tmp_path, env=scripted(model.url), config=config) as here:
        async with here.chat(mode="plan") as chat:
            sent = await chat.say("plan it")
            [item] = await chat.asks()
            path, answer = f"/v1/approvals/{item['id']}", {"action": "approve", "option_id": "auto"}
            refused = await here.answer("POST", path, answer, token=await here.mint("read,prompt,approve"))
            assert (refused.status, refused.json["needed"]) == (403, "admin")
            assert (await chat.get())["mode"] == "plan"
            await here.ask("POST", path, answer)
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
            assert "no_sandbox" in [one["data"]["code"] for one in chat.of("notice")]


async def test_elsewhere_the_list_is_shown_and_nobody_is_asked(tmp_path: Path) -> None:
    """S1-14, CLIENTS 1: one block per turn, in the place of its call, with what the last call said."""
    first = calls(("update_plan", {"items": [{"text": "look", "status": "in_progress"}, {"text": "mend", "status": "pending"}]}))
    last = calls(("update_plan", {"items": [{"text": "look", "status": "done"}, {"text": "mend", "status": "dropped"}]}))
    async with planning(tmp_path, [first, last, text("done")], mode="ask") as (_, chat, _):
        assert (await chat.runs("go"))["outcome"] == "completed"
        assert statuses(chat) == ["executing", "completed"] and not chat.of("approval_requested")
        blocks = [block for entry in (await chat.transcript())["entries"] for block in entry["blocks"] if block["kind"] in ("plan", "tool")]
        [block] = blocks
        assert [item["status"] for item in block["data"]["plan"]["items"]] == ["done", "dropped"]


async def test_a_person_who_leaves_mode_plan_while_the_agent_plans_is_heard_at_the_next_step(tmp_path: Path) -> None:
    """S3-53: the mode is what it is now, not what it was when the turn began."""
    asks = calls(("ask_user", {"questions": [{"text": "Which?", "options": ["A", "B"]}]}))
    async with planning(tmp_path, [asks, text("done")]) as (here, chat, model):
        sent = await chat.say("go")
        [item] = await chat.asks()
        await chat.post("mode", {"id": "edit"})
        await here.ask("POST", f"/v1/questions/{item['id']}", {"answers": {"q1": {"selected": ["A"]}}})
        await chat.ended(sent["turn_id"])
        assert "shell" not in offered(model, 0) and "shell" in offered(model, 1)
