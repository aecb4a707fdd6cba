"""T-09: a steer at every moment of a turn is read once, at the next boundary, in order, and its sender is told what becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from palaver_daemon import Chat, Json, check_ended, palaver, scripted, until
from scripted_model import Release, ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio
BATCH = calls(("shell", {"command": "touch begun; while [ ! -e go ]; do sleep 0.02; done"}), ("read_file", {"path": "a.txt"}))
QUICK = calls(("shell", {"command": "true"}), ("read_file", {"path": "a.txt"}))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def _nothing(chat: Chat) -> None:
    pass


async def _streams(chat: Chat) -> None:
    await chat.happens("model_output_delta")


async def _runs(chat: Chat) -> None:
    await until((chat.client.workspace / "begun").exists)


async def _waits(chat: Chat) -> None:
    await chat.asks()


async def _lets_go(chat: Chat) -> None:
    (chat.client.workspace / "go").touch()


async def _approves(chat: Chat) -> None:
    for ask in chat.open_asks():
        await chat.client.ask("POST", f"/v1/approvals/{ask}", {"action": "approve"})


Does = Callable[[Chat], Awaitable[None]]
MOMENTS: list[tuple[str, Step, int | None, Does, Does]] = [
    ("before the first token", text("I see. ") + QUICK, 0, _nothing, _nothing),
    ("in the provider's stream", text("I see. ") + QUICK, 1, _streams, _nothing),
    ("in the tool batch", BATCH, None, _runs, _lets_go),
    ("while an approval waits", QUICK, None, _waits, _approves),
]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("moment", "step", "stall", "there", "goes_on"), MOMENTS, ids=[moment[0] for moment in MOMENTS])
async def test_a_steer_is_read_at_the_next_boundary(
    tmp_path: Path, moment: str, step: Step, stall: int | None, there: Does, goes_on: Does, count: int
) -> None:
    """T-09, DESIGN 5.1: after the batch and before the next request; one receipt and one `message_delivered` each."""
    gate = Release()
    first = step if stall is None else step.stalled_after(stall, gate)
    async with ScriptedModel([first, text("done")]) as model:
        async with palaver(tmp_path, env=scripted(model.url), config="[verify]\nauto = false\n") as here:
            async with here.chat(mode="ask" if moment.startswith("while") else "auto") as chat:
                (here.workspace / "a.txt").write_text("a")
                turn = (await chat.say("go"))["turn_id"]
                await model.received(1)
                await there(chat)
                receipts: list[Json] = [await chat.say(f"steer {n}", delivery="steer") for n in range(count)]
                assert {(one["delivered"], one["turn_id"]) for one in receipts} == {("steered", turn)}
                assert not chat.of("message_delivered")
                gate.open()
                await goes_on(chat)
                assert (await chat.ended(turn))["outcome"] == "completed"
                read = [one["data"] for one in chat.of("message_delivered")]
                assert [one["message_id"] for one in read] == [one["message_id"] for one in receipts]
                assert {one["step_id"] for one in read} == {chat.of("step_started")[1]["data"]["step_id"]}
                roles = [(one["role"], one["content"]) for one in model.requests[1]["messages"]][-count - 2 :]
                assert [role for role, _ in roles[:2]] == ["tool", "tool"]
                assert roles[2:] == [("user", f"steer {n}") for n in range(count)]
                assert len(chat.of("turn_started")) == 1
                check_ended(await chat.check())
