"""Spec 004's acceptance list with the real tool loop: a daemon of its own, a model server over HTTP, and the spec's own requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palaver_daemon import Json, check_ended, palaver_process, scripted
from scripted_model import ScriptedModel, calls, text

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


PATCH = "*** Begin Patch\n*** Update File: app.py\n@@\n-answer = 41\n+answer = 42\n*** End Patch\n"


async def test_the_acceptance_list_holds_for_a_turn_of_the_real_loop(tmp_path: Path) -> None:
    """S4-69 to S4-73, S4-01, S4-06, S4-09, S4-45: read, change with approval, verified after the write, told to the model."""
    script = [calls(("read_file", {"path": "app.py"})), calls(("apply_patch", {"patch": PATCH})), text("It is 42 now.")]
    async with ScriptedModel(script) as model, palaver_process(tmp_path, env=scripted(model.url)) as daemon:
        (daemon.workspace / "app.py").write_text("answer = 41\n")
        (daemon.workspace / "Makefile").write_text("test:\n\t@grep -q 42 app.py && echo all is well\n")
        created = await daemon.ask("POST", "/v1/sessions", {"workspace_path": str(daemon.workspace), "auto_run": True})
        stored = json.loads((daemon.data / "sessions" / created["session_id"] / "session.json").read_text())
        assert (stored["id"], stored["status"], stored["last_turn_id"]) == (created["session_id"], "active", None)
        async with daemon.chat(created["session_id"]) as chat:
            sent = await chat.say("make the answer 42", auto_run=True)
            assert (await chat.happens("message_added"))["data"]["message"]["id"] == sent["message_id"]
            assert (await chat.happens("turn_started"))["turn_id"] == sent["turn_id"]
            for number in (1, 2):
                asked = (await chat.happens("approval_requested", number))["data"]["tool_call"]
                if number == 1:
                    assert (daemon.workspace / "app.py").read_text() == "answer = 41\n", "an approval gates the write"
                answer: Json = {"turn_id": sent["turn_id"], "tool_call_id": asked["id"], "action": "approve", "reason": "fine"}
                await chat.post("approve", answer)
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
            started = [one["data"]["tool_call"]["name"] for one in chat.of("tool_call_started")]
            completed = [(one["data"]["tool_call"]["name"], one["data"]["tool_result"]["ok"]) for one in chat.of("tool_call_completed")]
            assert started == ["read_file", "apply_patch", "verify"] and completed == [(name, True) for name in started]
            [verified] = chat.of("verify_completed")
            assert verified["data"]["ok"] and [run["exit_code"] for run in verified["data"]["commands"]] == [0]
            check_ended(await chat.check())
        assert (daemon.workspace / "app.py").read_text() == "answer = 42\n"
        roles = [[one["role"] for one in request["messages"]] for request in model.requests]
        assert roles == [["system", "user"], ["system", "user", "assistant", "tool"], ["system", "user", *["assistant", "tool"] * 2]]
        assert "answer = 41" in model.requests[1]["messages"][-1]["content"]
