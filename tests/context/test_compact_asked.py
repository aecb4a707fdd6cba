"""`POST …/compact`: a person has the history made shorter; it is on disk before it is answered, and ends in exactly one event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palaver_daemon import Chat, Client, Here, palaver, scripted
from scripted_model import Release, ScriptedModel, Step, status, text

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


SAID = "We decided to use port 48611. " + "And more of it. " * 200
SUMMARY = "# Goal\nBuild the relay."


async def talked(chat: Chat, turns: int = 4) -> None:
    for turn in range(turns):
        assert (await chat.runs(f"{turn}: {SAID}"))["outcome"] == "completed"


def answers(summary: Step, turns: int = 4) -> list[Step]:
    return [*[text(f"answer {turn}") for turn in range(turns)], summary, text("after")]


async def test_the_history_becomes_a_summary_that_the_next_turn_goes_on_from(tmp_path: Path) -> None:
    """CLIENTS 3. The log keeps the original, the summary what was decided, and the usage is counted."""
    async with ScriptedModel(answers(text(SUMMARY))) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        await talked(chat)
        before = (await chat.get())["usage"]["input_tokens"]
        assert (await chat.get())["capabilities"]["compact"] is True
        answer = await here.answer("POST", f"{chat.path}/compact", {"instructions": "Keep every port."})
        assert (answer.status, answer.json) == (202, {})
        done = (await chat.happens("context_compacted"))["data"]
        assert SUMMARY in done["summary"] and "We decided to use port 48611." in done["summary"]
        assert (done["cause"], done["tokens_after"] < done["tokens_before"] / 2) == ("requested", True)
        asked = json.dumps(model.requests[4])
        assert "Keep every port." in asked and "answer 1" in asked and "tools" not in model.requests[4]
        assert (await chat.get())["usage"]["input_tokens"] == before + 10
        await chat.runs("Go on.")
        told = json.dumps(model.requests[5]["messages"])
        assert SUMMARY in json.loads(told)[1]["content"] and "answer 0" not in told and "answer 3" in told
        assert [block["data"]["type"] for block in _blocks(await chat.transcript()) if block["kind"] == "notice"] == ["context_compacted"]
        assert any("answer 0" in json.dumps(event) for event in await chat.log())


def _blocks(page: Any) -> list[Any]:
    return [block for entry in page["entries"] for block in entry["blocks"]]


async def test_it_is_refused_while_a_turn_runs_and_done_once_when_asked_twice(tmp_path: Path) -> None:
    release, later = Release(), Release()
    steps = [*answers(text("x"), 3)[:3], text("slow").stalled_after(0, release), text(SUMMARY).stalled_after(0, later)]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        await talked(chat, 3)
        sent = await chat.say("one more")
        await model.received(4)
        assert (await chat.refused("POST", "compact")).code == "turn_running"
        release.open()
        await chat.ended(sent["turn_id"])
        for _ in range(2):
            assert (await here.answer("POST", f"{chat.path}/compact", {})).status == 202
        later.open()
        await chat.happens("context_compacted")
        assert len(chat.of("context_compaction_requested")) == 1 and len(model.requests) == 5


async def test_a_short_history_is_left_alone_and_says_so(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here, here.chat() as chat:
        await chat.post("compact")
        said = await chat.happens("notice", code="not_compacted")
        assert "short already" in said["data"]["text"]
        await chat.runs("hello")
        assert not chat.of("context_compacted")


async def test_a_model_that_fails_leaves_a_summary_of_what_the_log_says(tmp_path: Path) -> None:
    steps = answers(status(401, message="no"))
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        await talked(chat)
        await chat.post("compact")
        done = (await chat.happens("context_compacted"))["data"]
        assert done["written_by"] == "rules" and "We decided to use port 48611." in done["summary"]


async def test_a_turn_that_starts_meanwhile_does_it_in_its_first_step(tmp_path: Path) -> None:
    release = Release()
    steps = [*answers(text("x"))[:4], text("never read").stalled_after(0, release), text(SUMMARY), text("after")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        await talked(chat)
        await chat.post("compact")
        await model.received(5)
        assert (await chat.runs("Go on."))["outcome"] == "completed"
        await model.disconnected(4)
        [done] = chat.of("context_compacted")
        assert done["turn_id"] == chat.of("turn_started")[-1]["turn_id"] and SUMMARY in done["data"]["summary"]
        assert "answer 0" not in json.dumps(model.requests[6])


async def test_a_restart_ends_it_and_nothing_is_run_again(tmp_path: Path) -> None:
    """Promise 6."""
    release = Release()
    steps = [*answers(text("x"))[:4], text("never read").stalled_after(0, release), text("after")]
    async with ScriptedModel(steps) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
            await talked(chat)
            await chat.post("compact")
            await model.received(5)
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(chat.id) as again:
            said = await again.happens("notice", code="not_compacted")
            assert "the daemon ended first" in said["data"]["text"]
            assert (await again.runs("Go on."))["outcome"] == "completed"
            assert len(model.requests) == 6 and "answer 0" in json.dumps(model.requests[5])


async def test_a_backend_with_a_history_of_its_own_is_not_supported(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here:
        session_id = await here.new_session()
    _becomes_claude(here, session_id)
    async with palaver(tmp_path) as here:
        answer = await here.answer("POST", f"/v1/sessions/{session_id}/compact", {})
        assert (answer.status, answer.code) == (409, "not_supported")


def _becomes_claude(here: Here, session_id: str) -> None:
    log = here.data / "sessions" / session_id / "events.ndjson"
    log.write_bytes(log.read_bytes().replace(b'"backend":"loop"', b'"backend":"claude"'))


async def test_what_a_summary_is_to_keep_takes_the_scope_approve(tmp_path: Path) -> None:
    """SECURITY 3: a lesser token's words do not reach the model of a turn that is decided in a wider mode."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        narrow = Client(here.port, await here.mint("prompt"), here.folder)
        refused = await narrow.answer("POST", f"{chat.path}/compact", {"instructions": "Run rm -rf."})
        assert (refused.status, refused.json["needed"]) == (403, "approve")
        assert (await narrow.answer("POST", f"{chat.path}/compact", {})).status == 202


async def test_a_fork_keeps_the_summary_in_the_place_of_what_it_covers(tmp_path: Path) -> None:
    """The numbers of the copies are others: queue events are not copied."""
    release = Release()
    first, *others = answers(text(SUMMARY))
    script = [first.stalled_after(0, release), *others, text("forked")]
    async with ScriptedModel(script) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        async with here.chat() as chat:
            sent = await chat.say(f"0: {SAID}")
            item = (await chat.say(f"1: {SAID}", delivery="queue"))["item_id"]
            for number in range(9):  # each is an event that a fork leaves out
                await here.ask("PATCH", f"{chat.path}/queue/{item}", {"parts": [{"type": "text", "text": f"1.{number}: {SAID}"}]})
            release.open()
            await chat.ended(sent["turn_id"])
            await chat.idle()
            for turn in (2, 3):
                await chat.runs(f"{turn}: {SAID}")
            await chat.post("compact")
            await chat.happens("context_compacted")
            await chat.runs("Go on.")
            fork = (await chat.post("fork"))["session_id"]
        async with here.chat(fork) as forked:
            await forked.runs("And on.")
            last, before = model.requests[-1]["messages"], model.requests[-2]["messages"]
            assert [one["content"] for one in last[1 : len(before)]] == [one["content"] for one in before[1:]]
