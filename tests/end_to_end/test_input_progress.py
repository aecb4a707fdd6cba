"""A call that is being written is seen: the tail's `tool_input_progress` (CLIENTS.md 1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaver_daemon import palaver, scripted
from scripted_model import Release, ScriptedModel, calls, text

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_readers_of_the_tail_see_how_far_a_calls_input_is_and_the_log_never_does(tmp_path: Path) -> None:
    held = Release()
    steps = [calls(("shell", {"command": "true " + "x" * 200}), split=10).stalled_after(9, held), text("done")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        async with here.chat(mode="auto") as chat, here.reader(chat.id, tail=True) as reader:
            await chat.say("go")
            seen = await reader.until(lambda: [one for one in reader.pieces if one["data"].get("chars") == 80])
            assert set(seen[0]) == {"v", "ts", "session_id", "turn_id", "type", "data"} and seen[0]["type"] == "tool_input_progress"
            started = (await chat.happens("model_output_started"))["data"]
            assert seen[0]["data"] == {**started, "name": "shell", "chars": 80}
            async with here.reader(chat.id, after=reader.after, tail=True) as late:
                await late.until(lambda: [one for one in late.pieces if one["data"] == seen[0]["data"]])
            held.open()
            await chat.happens("turn_completed")
            counts = [one["data"]["chars"] for one in reader.pieces if one["type"] == "tool_input_progress"]
            assert counts == sorted(set(counts)) and counts[-1] <= 4 + len('{"command": "true ' + "x" * 200 + '"}')
            assert all(event["type"] != "tool_input_progress" for event in await chat.check())
            assert reader.page() == await chat.transcript()
