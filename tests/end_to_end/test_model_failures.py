"""What a model can do wrong, over real HTTP: the turn says so, nothing that was seen is taken back, and no call stays without a result."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from palaver_daemon import Chat, Here, check_ended, palaver, scripted, texts
from scripted_model import (
    Release,
    ScriptedModel,
    Step,
    bad_tool_json,
    burst,
    calls,
    error_in_stream,
    lone_surrogate,
    malformed,
    split_surrogate_pair,
    status,
    text,
    thinking,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def with_model(tmp_path: Path, steps: Sequence[Step], config: str = "") -> AsyncIterator[tuple[Here, Chat, ScriptedModel]]:
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url), config=config) as here:
        async with here.chat(mode="auto") as chat:
            yield here, chat, model
            await chat.idle()
            check_ended(await chat.check())
            assert await chat.transcript() == chat.reader.page()


async def test_a_rate_limit_is_waited_out_and_not_shown(tmp_path: Path) -> None:
    """DESIGN 5.3: 429 with Retry-After, then success; nothing of the first try is in the log."""
    async with with_model(tmp_path, [status(429, retry_after=0.2), text("here I am")]) as (_, chat, model):
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["counts"]["steps"], len(model.requests)) == ("completed", 1, 2)
        assert ended["duration_ms"] >= 200, "as long as the server asked for"
        assert chat.answers() == ["here I am"]
        assert {one["type"] for one in chat.reader.events if one["data"].get("code") != "no_sandbox"} <= {
            *("session_created", "message_added", "turn_started", "model_resolved", "step_started", "model_output_started"),
            *("model_output_delta", "model_output_completed", "turn_completed", "context_usage"),
        }


async def test_three_failures_end_the_turn_and_pause_the_queue(tmp_path: Path) -> None:
    """DESIGN 5.3, 5.6: at most two more tries; the queue waits for a person."""
    steps = [status(500, retry_after=0.1)] * 3
    async with with_model(tmp_path, steps) as (_, chat, model):
        sent = await chat.say("go")
        queued = await chat.say("and then")
        ended = await chat.ended(sent["turn_id"])
        assert (ended["outcome"], ended["stop_reason"], ended["error"]["code"]) == ("failed", "error", "model_failed")
        assert len(model.requests) == 3
        failed = chat.of("session_failed")[0]
        end = next(one for one in chat.of("turn_completed"))
        assert (failed["seq"], failed["data"]["error"]) == (end["seq"] + 1, ended["error"])
        queue = await chat.get("queue")
        assert ([item["id"] for item in queue["items"]], queue["paused"], queue["reason"]) == ([queued["item_id"]], True, "failed")
        assert (await chat.get())["status"] == "failed"


@pytest.mark.parametrize(
    "step,code",
    [
        (text("some ", "of ", "it").dropped_after(2), "model_unreachable"),
        (malformed("some of "), "bad_chunk"),
        (error_in_stream(before="some of "), "model_failed"),
    ],
    ids=["the connection drops", "a chunk is malformed", "an error in the stream"],
)
async def test_what_breaks_after_visible_text_fails_the_turn_and_keeps_the_text(tmp_path: Path, step: Step, code: str) -> None:
    """DESIGN 5.3, P-22: no hidden second try repeats what was seen."""
    async with with_model(tmp_path, [step, text("once more")]) as (_, chat, model):
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["error"]["code"], len(model.requests)) == ("failed", code, 1)
        message = chat.of("model_output_completed")[0]["data"]["message"]
        assert (texts(message), message["interrupted"]) == ("some of ", True)
        retried = await chat.post(f"turns/{chat.of('turn_started')[0]['turn_id']}/retry")
        assert (await chat.ended(retried["turn_id"]))["outcome"] == "completed"
        assert chat.answers() == ["some of ", "once more"]


async def test_what_breaks_before_anything_is_visible_is_tried_again(tmp_path: Path) -> None:
    """DESIGN 5.3: a drop before the first token."""
    async with with_model(tmp_path, [text("never seen").dropped_after(0), text("seen")]) as (_, chat, model):
        assert (await chat.runs("go"))["outcome"] == "completed"
        assert (chat.answers(), len(chat.of("model_output_started")), len(model.requests)) == (["seen"], 1, 2)


async def test_a_surrogate_pair_in_two_deltas_is_one_character_in_the_log(tmp_path: Path) -> None:
    """S4-30; a lone half harms nobody."""
    async with with_model(tmp_path, [split_surrogate_pair(), lone_surrogate()]) as (here, chat, _):
        await chat.runs("go")
        assert chat.answers() == ["😀"]
        assert "".join(one["data"]["text"] for one in chat.of("model_output_delta")) == "😀"
        await chat.runs("again")
        assert chat.answers()[1].startswith("a") and chat.answers()[1].endswith("b")
        assert b"\\ud8" not in b"".join(here.lines(chat.id)).lower()


async def test_bad_arguments_are_a_result_and_the_model_goes_on(tmp_path: Path) -> None:
    """T-14, DESIGN 5.4: bad JSON, a wrong field, an unknown tool: a result each, in one batch with a good call."""
    batch = calls(("shell", '{"command": "ls", '), ("shell", {"comand": "ls"}), ("teleport", {}), ("read_file", {"path": "a.txt"}))
    async with with_model(tmp_path, [batch, bad_tool_json(), text("sorry")]) as (here, chat, model):
        (here.workspace / "a.txt").write_text("the letter a")
        assert (await chat.runs("go"))["outcome"] == "completed"
        results = [one["data"]["tool_result"] for one in chat.of("tool_call_completed")]
        by_call = {result["id"]: result for result in results}
        started = [one["data"]["tool_call"]["id"] for one in chat.of("tool_call_started")]
        codes = [by_call[id].get("error", {}).get("code") for id in started]
        assert codes == ["invalid_arguments", "invalid_arguments", "unknown_tool", None, "invalid_arguments"]
        assert "command" in str(by_call[started[1]]["parts"]) and "read_file" in str(by_call[started[2]]["parts"])
        told = [one for one in model.requests[1]["messages"] if one["role"] == "tool"]
        assert len(told) == 4 and "the letter a" in told[3]["content"]
        assert "turn_completed" in chat.turn(chat.of("turn_started")[0]["turn_id"])


@pytest.mark.parametrize(
    "cut",
    [
        calls(("shell", '{"command": "touch ma')),
        calls(("read_file", {"path": "a.txt"}), ("shell", '{"command": "touch made", "timeo')),
        calls(("read_file", {"path": "a.txt"}), ("shell", "")),
        calls(("shell", {"command": "touch made"}), ("read_file", {"path": "a.txt"})),
        text("Let me see.") + calls(("read_file", {"path": "a.txt"}), ("read_file", {"path": "a.txt"}), ("shell", "{")),
    ],
    ids=["the only call", "the last of a batch", "before its arguments", "after the last one", "with text before"],
)
async def test_a_batch_that_the_models_limit_cuts_off_is_refused_whole_and_made_again(tmp_path: Path, cut: Step) -> None:
    """T-14, DESIGN 5.4: `max_tokens` with calls: each gets a result that says so, none is run, and the model tries once more."""
    async with with_model(tmp_path, [replace(cut, finish="length"), text("shorter now")]) as (here, chat, model):
        (here.workspace / "a.txt").write_text("the letter a")
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["stop_reason"], len(model.requests)) == ("completed", "end_turn", 2)
        message = chat.of("model_output_completed")[0]["data"]
        assert message["stop_reason"] == "max_tokens"
        wanted = [call["id"] for call in message["message"]["tool_calls"]]
        assert [one["data"]["tool_call"]["id"] for one in chat.of("tool_call_started")] == wanted
        results = [chat.result(id) for id in wanted]
        assert {(result["ok"], result["error"]["code"], result["truncated"]) for result in results} == {(False, "tool_skipped", True)}
        assert not chat.of("tool_call_running") and not list(here.workspace.glob("ma*"))
        told = [one for one in model.requests[1]["messages"] if one["role"] == "tool"]
        asked = next(one for one in model.requests[1]["messages"] if one["role"] == "assistant")["tool_calls"]
        assert [one["tool_call_id"] for one in told] == [one["id"] for one in asked] == wanted
        assert all("cut off" in one["content"] for one in told)
        assert all(isinstance(json.loads(one["function"]["arguments"]), dict) for one in asked)


async def test_a_batch_that_is_cut_off_twice_fails_the_turn(tmp_path: Path) -> None:
    """T-14: retried once, not for ever; a whole batch between two that were cut off begins to count anew."""
    cut, good = replace(calls(("shell", {"command": "touch made"})), finish="length"), calls(("read_file", {"path": "a.txt"}))
    async with with_model(tmp_path, [cut, good, cut, cut, text("never asked")]) as (here, chat, model):
        (here.workspace / "a.txt").write_text("a")
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["error"]["code"], len(model.requests)) == ("failed", "truncated", 4)
        assert not (here.workspace / "made").exists()


async def test_an_empty_answer_is_nudged_once(tmp_path: Path) -> None:
    """The model hears that it said nothing; what it says then is the answer."""
    async with with_model(tmp_path, [thinking("hm"), text("here it is")]) as (_, chat, model):
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["counts"]["steps"], chat.answers()[-1]) == ("completed", 2, "here it is")
        assert [code for one in chat.of("notice") if (code := one["data"]["code"]) != "no_sandbox"] == ["empty_answer"]
        said = model.requests[1]["messages"][-1]
        assert said["role"] == "user" and "empty" in said["content"]


async def test_two_empty_answers_fail_a_turn_that_did_nothing_and_end_one_that_did(tmp_path: Path) -> None:
    """Nothing is made up, and work that was done is not called a failure."""
    nothing, read = replace(text(), finish="stop"), calls(("read_file", {"path": "a.txt"}))
    async with with_model(tmp_path, [nothing, text("  \n"), read, nothing, nothing]) as (here, chat, model):
        (here.workspace / "a.txt").write_text("a")
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["error"]["code"], len(model.requests)) == ("failed", "empty_answer", 2)
        ended = await chat.runs("read it")
        assert (ended["outcome"], ended["counts"], len(model.requests)) == ("completed", {"steps": 3, "tool_calls": 1}, 5)


async def test_too_many_calls_in_a_minute_are_refused_one_by_one(tmp_path: Path) -> None:
    """T-14, P-18, DESIGN 5.8: a start and a result for each."""
    batch = calls(*[("read_file", {"path": "a.txt"})] * 5)
    async with with_model(tmp_path, [batch, text("ok")], "[limits]\ntool_calls_per_minute = 3\n") as (here, chat, _):
        (here.workspace / "a.txt").write_text("a")
        assert (await chat.runs("go"))["outcome"] == "completed"
        results = [one["data"]["tool_result"] for one in chat.of("tool_call_completed")]
        assert sorted(result.get("error", {}).get("code", "") for result in results) == ["", "", "", "rate_limit_tools", "rate_limit_tools"]


async def test_steps_have_a_limit(tmp_path: Path) -> None:
    """DESIGN 5.8: the turn ends failed with the limit's name, every call answered."""
    step = calls(("read_file", {"path": "a.txt"}))
    async with with_model(tmp_path, [step] * 4, "[limits]\nsteps = 3\n") as (here, chat, model):
        (here.workspace / "a.txt").write_text("a")
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["stop_reason"], ended["error"]["code"]) == ("failed", "limit", "step_limit")
        assert len(model.requests) == 3


async def test_a_provider_that_says_nothing_ends_the_turn(tmp_path: Path) -> None:
    """DESIGN 5.8: `provider_silent`, and its connection is closed."""
    step = text("some ", "more").stalled_after(1, Release())
    async with with_model(tmp_path, [step], "[limits]\nsilence_s = 0.3\n") as (_, chat, model):
        ended = await chat.runs("go")
        assert (ended["outcome"], ended["error"]["code"], chat.answers()) == ("failed", "provider_silent", ["some "])
        await model.disconnected(0)


async def test_twenty_thousand_deltas_are_all_there_in_a_few_lines(tmp_path: Path) -> None:
    """DESIGN 3, The tail: joined, in order, none lost; no line over 64 KiB but the message itself."""
    async with with_model(tmp_path, [burst(20_000)]) as (here, chat, _):
        await chat.runs("go")
        assert chat.answers() == ["word " * 20_000]
        deltas = chat.of("model_output_delta")
        assert "".join(one["data"]["text"] for one in deltas) == "word " * 20_000
        assert len(deltas) < 200
        assert all(len(line) < 64 * 1024 for line in here.lines(chat.id) if b"model_output_completed" not in line)


async def test_a_key_that_is_refused_is_said_without_the_key(tmp_path: Path) -> None:
    """S4-42: 401 fails the turn at once, with what to do."""
    env = {"OPENAI_API_KEY": "sk-very-secret-key-value"}
    async with ScriptedModel([status(401, message="bad key sk-very-secret-key-value")]) as model:
        async with palaver(tmp_path, env={**scripted(model.url), **env}) as here, here.chat() as chat:
            ended = await chat.runs("go")
            assert (ended["outcome"], ended["error"]["code"], len(model.requests)) == ("failed", "model_auth", 1)
            assert "sk-very" not in str(ended) and "OPENAI_API_KEY" in ended["error"]["message"]
