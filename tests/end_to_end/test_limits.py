"""DESIGN 5.8: a turn that would go on for ever ends failed, and says which limit it met and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from palaver_daemon import Chat, Here, check_ended, palaver, scripted
from scripted_model import Release, ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def limited(
    tmp_path: Path, steps: Sequence[Step], limits: str, *, mode: str = "auto", loop: bool = False, more: str = ""
) -> AsyncIterator[tuple[Here, Chat, ScriptedModel]]:
    async with ScriptedModel(steps, loop=loop) as model:
        config = f"[limits]\n{limits}\n[verify]\nauto = false\n{more}"
        async with palaver(tmp_path, env=scripted(model.url), config=config) as here, here.chat(mode=mode) as chat:
            (here.workspace / "a.txt").write_text("the letter a\n")
            yield here, chat, model
            await chat.idle()
            check_ended(await chat.check())
            assert await chat.transcript() == chat.reader.page()


READ = calls(("read_file", {"path": "a.txt"}))


async def test_the_same_call_with_the_same_result_five_times_is_no_progress(tmp_path: Path) -> None:
    """DESIGN 5.8: five by default; the error names the call, and a retry or a message goes on."""
    async with limited(tmp_path, [*[READ] * 5, text("found it")], "") as (_, chat, _model):
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["stop_reason"], ended["error"]["code"]) == ("failed", "limit", "no_progress")
        assert "read_file 5 times" in ended["error"]["message"] and ended["counts"] == {"steps": 5, "tool_calls": 5}
        assert (await chat.get())["status"] == "failed"
        assert (await chat.runs("go on"))["outcome"] == "completed"
        assert chat.answers()[-1] == "found it"


async def test_two_calls_that_take_turns_are_no_progress_either(tmp_path: Path) -> None:
    """DESIGN 5.8: nothing new came of either."""
    other = calls(("search", {"pattern": "letter"}))
    async with limited(tmp_path, [READ, other], "same_call = 3", loop=True) as (_, chat, _):
        ended = await chat.runs("go")
        assert (ended["error"]["code"], ended["counts"]["tool_calls"]) == ("no_progress", 6)


async def test_the_same_call_after_something_new_is_progress(tmp_path: Path) -> None:
    """P-24: tests that are run again after each edit, with the same result, are no loop."""
    test = calls(("shell", {"command": "grep -c nothing a.txt"}))
    edits = [calls(("shell", {"command": f"echo {n} >> a.txt"})) for n in range(6)]
    steps = [step for edit in edits for step in (edit, test)]
    async with limited(tmp_path, [*steps, text("done")], "same_call = 3") as (_, chat, _):
        assert (await chat.runs("go"))["outcome"] == "completed"


async def test_the_persons_word_begins_the_count_anew(tmp_path: Path) -> None:
    """DESIGN 5.1, 5.8: a steer is read, so what comes after it is another attempt."""
    gate = Release()
    steps = [READ, READ, READ.stalled_after(0, gate), READ, READ, text("done")]
    async with limited(tmp_path, steps, "same_call = 4") as (_, chat, model):
        sent = await chat.say("go")
        await model.received(3)
        await chat.say("again, please", delivery="steer")
        gate.open()
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"


@pytest.mark.parametrize("step", [calls(("shell", {"command": "sleep 30"})), text("a", "b").stalled_after(1, Release())])
async def test_a_turn_ends_when_its_time_is_up(tmp_path: Path, step: Step) -> None:
    """DESIGN 5.8: while a tool runs and while the model speaks; what was open is answered, and the program is gone."""
    async with limited(tmp_path, [step], "seconds = 0.4") as (_, chat, _):
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["stop_reason"], ended["error"]["code"]) == ("failed", "limit", "time_limit")
        assert ended["duration_ms"] < 5_000
        for one in chat.of("tool_call_completed"):
            assert one["data"]["tool_result"]["error"]["code"] == "tool_interrupted"


async def test_waiting_for_a_person_costs_no_time_not_even_over_a_restart(tmp_path: Path) -> None:
    """DESIGN 5.8: a turn that waits for an answer does no work."""
    steps = [calls(("shell", {"command": "echo done"})), text("done")]
    async with ScriptedModel(steps) as model:
        config = "[limits]\nseconds = 1\n[verify]\nauto = false\n"
        async with palaver(tmp_path, env=scripted(model.url), config=config) as here, here.chat() as chat:
            sent = await chat.say("go")
            await chat.asks()
            id = chat.id
        async with palaver(tmp_path, env=scripted(model.url), config=config) as here, here.chat(id) as chat:
            [ask] = await chat.asks()
            asked = chat.of("approval_requested")[0]["ts"]
            await chat.reader.until(lambda: True)
            await _passed(here, asked, 1.2)
            await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"


async def _passed(here: Here, since: str, seconds: float) -> None:
    """So much time has passed on the daemon's own clock, which it writes into every answer."""
    from datetime import datetime

    while (datetime.fromisoformat((await here.ask("GET", "/v1/inbox"))["as_of"]) - datetime.fromisoformat(since)).total_seconds() < seconds:
        pass


async def test_a_turn_ends_when_it_has_cost_enough(tmp_path: Path) -> None:
    """DESIGN 5.8: before the step that would cost more; the cost stands in the end."""
    async with ScriptedModel([READ], loop=True) as model:
        prices = f'[models.m]\nbase_url = "{model.url}"\nprice_in = 1000\nprice_out = 2000\n'  # 0.02 for each step
        config = f"[defaults]\nmodel = 'm'\n[limits]\ncost = 0.05\nsame_call = 50\n{prices}"
        async with palaver(tmp_path, config=config) as here, here.chat(mode="auto") as chat:
            (here.workspace / "a.txt").write_text("the letter a\n")
            ended = await chat.runs("go")
            assert (ended["outcome"], ended["stop_reason"], ended["error"]["code"]) == ("failed", "limit", "cost_limit")
            assert (len(model.requests), round(ended["cost"]["amount"], 6)) == (3, 0.06)


async def test_each_limit_is_off_or_high_unless_it_is_set(tmp_path: Path) -> None:
    """API, config.toml: 40 different calls are an ordinary turn."""
    steps = [calls(("search", {"pattern": f"word {n}"})) for n in range(40)]
    async with limited(tmp_path, [*steps, text("done")], "") as (_, chat, _):
        assert (await chat.runs("go"))["outcome"] == "completed"


# --- asking for more ----------------------------------------------------------------------------------------------------------

SEARCHES = [calls(("search", {"pattern": f"word {n}"})) for n in range(9)]


async def test_where_a_person_is_to_be_asked_a_limit_is_an_approval_and_the_turn_goes_on(tmp_path: Path) -> None:
    """DESIGN 5.8, API Asking: subject `budget`, no call; as much again, or as much as the answer says."""
    async with limited(tmp_path, [*SEARCHES[:6], text("done")], "steps = 2\nask = true") as (here, chat, model):
        sent = await chat.say("go")
        [item] = await chat.asks()
        data = item["data"]
        assert (item["kind"], data["tool_call"], data["budget"], item["title"]) == ("budget", None, {"steps": 2}, "The turn took 2 steps.")
        assert [(one["id"], one["action"]) for one in data["options"]] == [("more", "approve"), ("deny", "deny")]
        assert (await chat.get())["status"] == "waiting_approval" and len(model.requests) == 2
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve"})
        [item] = await chat.asks()
        assert len(model.requests) == 4
        wrong = await here.answer("POST", f"/v1/approvals/{item['id']}", {"action": "approve", "input": {"steps": 0}})
        assert (wrong.status, wrong.code) == (422, "invalid")
        wrong = await here.answer("POST", f"/v1/approvals/{item['id']}", {"action": "approve", "input": {"stops": 3}})
        assert (wrong.status, wrong.code) == (422, "invalid")
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve", "input": {"steps": 3}})
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed" and len(model.requests) == 7


async def test_who_gives_no_more_ends_the_turn_at_its_limit(tmp_path: Path) -> None:
    """DESIGN 5.8."""
    async with limited(tmp_path, SEARCHES, "steps = 2\nask = true") as (here, chat, model):
        sent = await chat.say("go")
        [item] = await chat.asks()
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "deny"})
        ended = await chat.ended(sent["turn_id"])
        assert (ended["outcome"], ended["stop_reason"], ended["error"]["code"]) == ("failed", "limit", "step_limit")
        assert len(model.requests) == 2


async def test_nobody_there_ends_it_too(tmp_path: Path) -> None:
    """DESIGN 5.8: an approval that expires is no answer."""
    more = "[approval]\ndeadline_s = 0.3\n"
    async with limited(tmp_path, SEARCHES, "steps = 1\nask = true", more=more) as (_, chat, _):
        assert (await chat.runs("go"))["error"]["code"] == "step_limit"


async def test_the_question_for_more_lives_through_a_restart(tmp_path: Path) -> None:
    """Promise 6: what was given counts also for the next life of the turn."""
    config = "[limits]\nsteps = 2\nask = true\n"
    async with ScriptedModel([*SEARCHES[:3], text("done")]) as model:
        async with palaver(tmp_path, env=scripted(model.url), config=config) as here, here.chat() as chat:
            sent = await chat.say("go")
            [item] = await chat.asks()
            id = chat.id
        async with palaver(tmp_path, env=scripted(model.url), config=config) as here, here.chat(id) as chat:
            await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve"})
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
            assert len(model.requests) == 4


async def test_time_asks_between_two_steps_and_no_progress_asks_nobody(tmp_path: Path) -> None:
    """DESIGN 5.8: more of the same would not help a turn that gets nowhere."""
    slow = calls(("shell", {"command": "sleep 0.4"}))
    async with limited(tmp_path, [slow, text("done"), *[READ] * 5], "seconds = 0.3\nask = true") as (here, chat, _):
        sent = await chat.say("go")
        [item] = await chat.asks()
        assert item["data"]["budget"] == {"seconds": 0.3} and "sleep" not in item["title"]
        assert [one["data"]["tool_result"]["ok"] for one in chat.of("tool_call_completed")] == [True]
        await here.ask("POST", f"/v1/approvals/{item['id']}", {"action": "approve", "input": {"seconds": 60}})
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
    async with limited(tmp_path / "other", [READ] * 5, "ask = true") as (_, chat, _):
        assert (await chat.runs("go"))["error"]["code"] == "no_progress"
