"""Messages to a session that is idle, runs, waits or ends; the durable queue; retry; what a client sends twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from palaver_daemon import Chat, Here, Json, check_ended, palaver, palaver_process, scripted, texts, until
from scripted_model import Release, ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio
HOLD = "run the command `rm -f nothing`"
"""Runs until its approval is answered."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with palaver(tmp_path) as here:
        yield here


@pytest.fixture
async def chat(here: Here) -> AsyncIterator[Chat]:
    async with here.chat() as chat:
        yield chat
        if (await chat.get())["status"] != "completed":
            await chat.post("cancel", {"keep_queue": False})
            await chat.idle()
        check_ended(await chat.log())


def order(chat: Chat) -> list[list[str]]:
    """The texts that each turn began with, turn by turn; steers that it read behind a `+`."""
    said = {one["data"]["message"]["id"]: texts(one["data"]["message"]) for one in chat.of("message_added")}
    for one in chat.of("queue_changed"):
        said |= {item["message_id"]: texts(item["message"]) for item in one["data"]["items"] if item.get("message")}
    turns: dict[str, list[str]] = {}
    for one in chat.of("turn_started", "message_delivered"):
        if one["type"] == "turn_started":
            turns[one["turn_id"]] = [said[id] for id in one["data"]["message_ids"]]
        else:
            turns[one["turn_id"]].append("+" + said[one["data"]["message_id"]])
    return list(turns.values())


async def held(chat: Chat) -> tuple[Json, str]:
    """A turn that waits for an approval: the reply to its message, and the ask."""
    sent = await chat.say(HOLD)
    [ask] = await chat.asks()
    return sent, ask["id"]


async def let_go(chat: Chat, ask: str, **answer: Any) -> None:
    await chat.client.ask("POST", f"/v1/approvals/{ask}", {"action": "approve", **answer})


# --- T-07 ---------------------------------------------------------------------------------------------------------------------


async def test_two_messages_in_the_same_moment_both_run_once_in_order(chat: Chat) -> None:
    """T-07, P-04."""
    replies = await asyncio.gather(*(chat.say(f"write {count} words") for count in range(2, 7)))
    for reply in replies:
        await chat.ended(reply["turn_id"])
    delivered = [reply["delivered"] for reply in replies]
    assert sorted(delivered) == ["queued"] * 4 + ["started"]
    said = [one["data"]["message_ids"] for one in chat.of("turn_started")]
    assert sorted(said) == sorted([reply["message_id"]] for reply in replies)
    queued = [item["turn_id"] for one in chat.of("queue_changed") for item in one["data"]["items"] if item.get("message")]
    assert [one["turn_id"] for one in chat.of("turn_started")][1:] == queued


@pytest.mark.parametrize("delivery", ["auto", "queue", "steer", "interrupt"])
async def test_an_idle_session_runs_a_message_of_every_delivery_at_once(chat: Chat, delivery: str) -> None:
    """T-07: `queue` while idle does not wait for ever."""
    reply = await chat.say("write 2 words", delivery=delivery)
    assert (reply["delivered"], (await chat.ended(reply["turn_id"]))["outcome"]) == ("started", "completed")


async def test_what_a_message_does_to_a_running_turn_is_its_delivery(chat: Chat) -> None:
    """T-07, T-09, R-01: queue, steer and auto beside a turn that waits for an approval; receipts name the turn of each."""
    sent, ask = await held(chat)
    queued = await chat.say("write 2 words", delivery="queue")
    auto = await chat.say("write 3 words")
    steers = [await chat.say(f"write {count} words", delivery="steer") for count in (4, 5, 6)]
    assert [queued["delivered"], auto["delivered"]] == ["queued", "queued"]
    assert {steer["delivered"] for steer in steers} == {"steered"} and {steer["turn_id"] for steer in steers} == {sent["turn_id"]}
    await let_go(chat, ask)
    await chat.ended(auto["turn_id"])
    assert order(chat) == [[HOLD, "+write 4 words", "+write 5 words", "+write 6 words"], ["write 2 words"], ["write 3 words"]]
    assert [len(answer.split()) for answer in chat.answers()[-2:]] == [2, 3]


async def test_a_person_can_talk_while_an_approval_is_open(chat: Chat) -> None:
    """R-09, P-11: a message beside an open question neither answers nor cancels it."""
    await chat.say("ask me which with red or blue")
    [ask] = await chat.asks()
    await chat.say("write 2 words", delivery="steer")
    await chat.say("write 3 words")
    assert [item["id"] for item in await chat.asks()] == [ask["id"]]


async def test_the_sessions_delivery_is_what_auto_means(chat: Chat, here: Here) -> None:
    """API, Messages: absent = auto = the session's."""
    await here.ask("PATCH", chat.path, {"delivery": "steer"})
    _, ask = await held(chat)
    assert (await chat.say("write 2 words"))["delivered"] == "steered"
    assert (await chat.say("write 3 words", delivery="auto"))["delivered"] == "steered"
    await let_go(chat, ask)


async def test_a_steer_before_the_first_token_is_read_by_the_turn(tmp_path: Path) -> None:
    """T-09: the model is silent; the steer joins at the next boundary, and no text is said twice."""
    release = Release()
    steps = [calls(("read_file", {"path": "a.txt"})).stalled_after(0, release), text("read it")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        (here.workspace / "a.txt").write_text("a")
        sent = await chat.say("look at a")
        await model.received(1)
        steer = await chat.say("and b", delivery="steer")
        release.open()
        await chat.ended(sent["turn_id"])
        delivered = chat.of("message_delivered")[0]["data"]
        assert (delivered["message_id"], delivered["turn_id"]) == (steer["message_id"], sent["turn_id"])
        roles = [(message["role"], message.get("content")) for message in model.requests[1]["messages"][1:]]
        assert [role for role, _ in roles] == ["user", "assistant", "tool", "user"]
        assert (roles[0][1], roles[3][1]) == ("look at a", "and b")


@pytest.mark.parametrize("count", [1, 3])
async def test_steers_that_arrive_while_a_tool_runs_are_read_after_the_batch_in_their_order(tmp_path: Path, count: int) -> None:
    """T-09: before the next request to the model, each with a receipt; none splits the batch or its results."""
    batch = calls(("shell", {"command": "cat pipe"}), ("read_file", {"path": "a.txt"}))
    async with ScriptedModel([batch, text("all read")]) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        (here.workspace / "a.txt").write_text("the letter a")
        os.mkfifo(here.workspace / "pipe")
        async with here.chat(mode="auto") as chat:
            sent = await chat.say("go")
            await chat.happens("tool_call_running")
            steers = await asyncio.gather(*(chat.say(f"steer {number}", delivery="steer") for number in range(count)))
            assert {(one["delivered"], one["turn_id"]) for one in steers} == {("steered", sent["turn_id"])}
            await asyncio.to_thread((here.workspace / "pipe").write_text, "through the pipe")
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
            added = [one["data"]["message"] for one in chat.of("message_added")][1:]
            delivered = chat.of("message_delivered")
            assert sorted(message["id"] for message in added) == sorted(one["message_id"] for one in steers)
            assert [one["data"]["message_id"] for one in delivered] == [message["id"] for message in added]
            step = chat.of("step_started")[1]
            assert {one["data"]["step_id"] for one in delivered} == {step["data"]["step_id"]}
            assert delivered[0]["seq"] > chat.of("tool_call_completed")[-1]["seq"]
            assert delivered[-1]["seq"] < chat.of("model_output_started")[1]["seq"]
            told = model.requests[1]["messages"][1:]
            assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool", *["user"] * count]
            assert [message["content"] for message in told[4:]] == [texts(message) for message in added]
            assert "through the pipe" in told[2]["content"] and "the letter a" in told[3]["content"]
            assert len(model.requests) == 2
            check_ended(await chat.check())


async def test_steers_that_a_completed_turn_did_not_read_get_one_turn_before_the_queue(tmp_path: Path) -> None:
    """T-09: during the provider's last stream there is no further boundary."""
    release = Release()
    steps = [text("one", "two").stalled_after(1, release), text("steered"), text("queued")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        await chat.say("go")
        await chat.happens("model_output_delta")
        queued = await chat.say("later")
        for said in ("first", "second"):
            await chat.say(said, delivery="steer")
        release.open()
        await chat.ended(queued["turn_id"])
        assert order(chat) == [["go"], ["first", "second"], ["later"]]
        assert [one["data"]["trigger"] for one in chat.of("turn_started")] == ["user", "steer", "queue"]
        check_ended(await chat.check())


async def test_an_image_without_text_is_a_message_of_every_delivery(chat: Chat, here: Here) -> None:
    """T-09, R-04: it starts, queues and steers like any other."""
    stored = await chat.post("attachments", {"name": "a.png", "mime_type": "image/png", "data": "iVBORw0KGgo="})
    image = [{"type": "image", "ref": stored["ref"], "mime_type": "image/png"}]
    assert (await chat.runs(image))["outcome"] == "completed"
    _, ask = await held(chat)
    queued, steered = await chat.say(image), await chat.say(image, delivery="steer")
    assert (queued["delivered"], steered["delivered"]) == ("queued", "steered")
    await let_go(chat, ask)
    await chat.ended(queued["turn_id"])
    assert chat.of("message_delivered")[0]["data"]["message_id"] == steered["message_id"]
    assert (await chat.get("queue"))["items"] == []


# --- T-10 ---------------------------------------------------------------------------------------------------------------------


async def test_an_interrupt_is_one_append_and_its_message_goes_first(chat: Chat) -> None:
    """T-10, DESIGN 5.1: cancel and message stand side by side in the log, with nothing between them."""
    sent, _ = await held(chat)
    queued = await chat.say("write 2 words")
    steer = await chat.say("write 3 words", delivery="steer")
    reply = await chat.say("write 4 words", delivery="interrupt")
    assert (reply["delivered"], (await chat.ended(sent["turn_id"]))["cause"]) == ("interrupting", "superseded")
    await chat.ended(queued["turn_id"])
    assert order(chat) == [[HOLD], ["write 3 words", "write 4 words"], ["write 2 words"]]
    request, added = chat.of("turn_cancel_requested")[0]["seq"], chat.of("message_added")
    [interrupt] = [one for one in added if one["data"]["message"]["id"] == reply["message_id"]]
    between = chat.reader.events[request : interrupt["seq"] - 1]
    assert {one["type"] for one in between} <= {"approval_denied"}
    assert interrupt["turn_id"] == reply["turn_id"] and steer["turn_id"] == sent["turn_id"]


async def test_an_interrupt_that_races_a_completion_is_atomic(here: Here, chat: Chat) -> None:
    """T-10: at whatever moment of the old turn's end it comes, it runs exactly once, next, and the queue behind it."""
    for round in range(12):
        first = await chat.say("write 1 word")
        queued = await chat.say("write 2 words")
        deltas = 3 * round % 7
        await chat.reader.until(lambda seq=chat.reader.after, more=deltas: chat.reader.after >= seq + more)  # type: ignore[misc]  # a loop's values, on purpose
        interrupt = await chat.say("write 3 words", delivery="interrupt")
        for reply in (first, queued, interrupt):
            await chat.ended(reply["turn_id"])
        ids = [id for one in chat.of("turn_started") for id in one["data"]["message_ids"]]
        assert [ids.count(reply["message_id"]) for reply in (first, queued, interrupt)] == [1, 1, 1]
        await chat.idle()


async def test_messages_that_come_while_a_turn_ends_join_one_coming_turn(tmp_path: Path) -> None:
    """DESIGN 5.1: auto, steer and interrupt share one turn_id, in order of acceptance; a queued one waits for its own."""
    command = "trap '' TERM; touch started; sleep 60 & wait; sleep 60"
    steps = [calls(("shell", {"command": command})), text("together"), text("alone")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat(mode="auto") as chat:
        sent = await chat.say("go")
        await chat.happens("tool_call_running")
        await until((here.workspace / "started").exists)
        first = await chat.say("one", delivery="interrupt")
        replies = [await chat.say(said, delivery=how) for said, how in (("two", "auto"), ("three", "steer"), ("four", "interrupt"))]
        queued = await chat.say("five", delivery="queue")
        assert not chat.of("turn_completed"), "the program resists for a second"
        assert {reply["delivered"] for reply in replies} == {"interrupting"} and queued["delivered"] == "queued"
        assert {reply["turn_id"] for reply in replies} == {first["turn_id"]}
        await chat.ended(queued["turn_id"])
        assert order(chat) == [["go"], ["one", "two", "three", "four"], ["five"]]
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "cancelled"


# --- T-08: the queue ----------------------------------------------------------------------------------------------------------


async def test_the_queue_can_be_edited_reordered_and_shortened(chat: Chat, here: Here) -> None:
    """T-08, promise 8: what was removed never runs, what was edited runs as it reads now."""
    _, ask = await held(chat)
    items = [(await chat.say(f"write {count} words"))["item_id"] for count in (2, 3, 4, 5)]
    queue = f"{chat.path}/queue"
    await here.ask("PATCH", f"{queue}/{items[3]}", {"before": items[0]})
    await here.ask("PATCH", f"{queue}/{items[0]}", {"before": None})
    await here.ask("PATCH", f"{queue}/{items[1]}", {"parts": [{"type": "text", "text": "write 9 words"}]})
    await here.ask("DELETE", f"{queue}/{items[2]}")
    assert [texts(item["message"]) for item in (await chat.get("queue"))["items"]] == ["write 5 words", "write 9 words", "write 2 words"]
    assert (await chat.refused("DELETE", f"queue/{items[2]}")).code == "item_gone"
    assert (await chat.refused("PATCH", f"queue/{items[1]}", {"before": items[2]})).status == 422
    await let_go(chat, ask)
    await chat.reader.until(lambda: len(chat.of("turn_completed")) == 4)
    assert order(chat)[1:] == [["write 5 words"], ["write 9 words"], ["write 2 words"]]
    assert (await chat.refused("POST", f"queue/{items[0]}/promote")).code == "item_gone"


async def test_a_removal_that_races_the_start_of_its_item_is_answered_truly(chat: Chat) -> None:
    """Promise 8: one of the two wins. 204 and it never runs, or 409 and it runs once."""
    for round in range(12):
        _, ask = await held(chat)
        item = await chat.say("write 2 words")
        last = await chat.say("write 1 words")
        seen = chat.reader.after
        let = asyncio.create_task(let_go(chat, ask))
        await chat.reader.reached(seen + 2 * round % 19)
        gone = await chat.client.answer("DELETE", f"{chat.path}/queue/{item['item_id']}")
        await let
        await chat.ended(last["turn_id"])
        ran = sum(item["message_id"] in one["data"]["message_ids"] for one in chat.of("turn_started"))
        assert (gone.status, ran) in ((204, 0), (409, 1))
        assert ("message_added" in chat.turn(item["turn_id"])) == bool(ran)


async def test_a_cancel_keeps_the_queue_paused_until_it_is_resumed(chat: Chat) -> None:
    """T-08, R-02: what comes after the cancel is not paused; a resume runs the first item."""
    sent, _ = await held(chat)
    kept = await chat.say("write 2 words")
    await chat.post("cancel", {"turn_id": sent["turn_id"]})
    await chat.ended(sent["turn_id"])
    queue = await chat.get("queue")
    assert (queue["paused"], queue["reason"], [item["paused"] for item in queue["items"]]) == (True, "cancelled", [True])
    assert (await chat.runs("write 3 words"))["outcome"] == "completed"
    assert [item["id"] for item in (await chat.get("queue"))["items"]] == [kept["item_id"]]
    assert (await chat.post("queue/resume"))["paused"] is False
    assert (await chat.ended(kept["turn_id"]))["outcome"] == "completed"


async def test_a_failure_pauses_the_queue_too(chat: Chat) -> None:
    """T-08, P-04: nothing is flushed after an error."""
    failed = await chat.say(f"{HOLD} then fail")
    [ask] = await chat.asks()
    kept = await chat.say("write 2 words")
    await let_go(chat, ask["id"])
    assert (await chat.ended(failed["turn_id"]))["outcome"] == "failed"
    assert [(item["id"], item["paused"]) for item in (await chat.get("queue"))["items"]] == [(kept["item_id"], True)]
    promoted = await chat.post(f"queue/{kept['item_id']}/promote")
    assert (promoted["delivered"], promoted["turn_id"]) == ("started", kept["turn_id"])
    assert (await chat.ended(kept["turn_id"]))["outcome"] == "completed"


async def test_a_cancel_may_empty_the_queue_and_then_nothing_of_it_runs(chat: Chat) -> None:
    """Promise 8."""
    sent, _ = await held(chat)
    for count in (2, 3):
        await chat.say(f"write {count} words")
    await chat.say("write 4 words", delivery="steer")
    await chat.post("cancel", {"keep_queue": False})
    await chat.ended(sent["turn_id"])
    assert await chat.get("queue") == {"items": [], "paused": False}
    await chat.runs("write 5 words")
    assert order(chat) == [[HOLD], ["write 5 words"]]


async def test_after_a_cancel_unread_steers_are_the_first_paused_items(chat: Chat) -> None:
    """DESIGN 5.1: with turn ids of their own, and without a second `message_added`."""
    sent, _ = await held(chat)
    queued = await chat.say("write 2 words")
    steer = await chat.say("write 3 words", delivery="steer")
    await chat.post("cancel")
    await chat.ended(sent["turn_id"])
    items = (await chat.get("queue"))["items"]
    assert [item["message_id"] for item in items] == [steer["message_id"], queued["message_id"]]
    assert items[0]["turn_id"] not in (sent["turn_id"], queued["turn_id"]) and all(item["paused"] for item in items)
    await chat.post("queue/resume")
    await chat.ended(queued["turn_id"])
    assert order(chat) == [[HOLD], ["write 3 words"], ["write 2 words"]]
    ids = [one["data"]["message"]["id"] for one in chat.of("message_added")]
    assert ids.count(steer["message_id"]) == 1


async def test_an_item_is_promoted_to_the_running_turn(chat: Chat) -> None:
    """T-08, R-03, P-10: it is read by the turn and does not run again as its own."""
    sent, ask = await held(chat)
    item = await chat.say("write 3 words")
    promoted = await chat.post(f"queue/{item['item_id']}/promote")
    assert (promoted["delivered"], promoted["turn_id"], promoted["message_id"]) == ("steered", sent["turn_id"], item["message_id"])
    await let_go(chat, ask)
    await chat.ended(sent["turn_id"])
    assert order(chat) == [[HOLD, "+write 3 words"]]
    assert chat.of("turn_completed")[-1]["turn_id"] == sent["turn_id"]


async def test_a_pause_holds_what_is_there_and_an_empty_queue_is_never_paused(chat: Chat, here: Here) -> None:
    """T-08, API: the queue."""
    assert await chat.post("queue/pause") == {"items": [], "paused": False}
    _, ask = await held(chat)
    paused = await chat.say("write 2 words")
    await chat.post("queue/pause")
    later = await chat.say("write 3 words")
    assert [item["paused"] for item in (await chat.get("queue"))["items"]] == [True, False]
    await let_go(chat, ask)
    await chat.ended(later["turn_id"])
    assert order(chat) == [[HOLD], ["write 3 words"]]
    await here.ask("DELETE", f"{chat.path}/queue/{paused['item_id']}")
    assert await chat.get("queue") == {"items": [], "paused": False}


async def test_the_queue_has_an_end(chat: Chat) -> None:
    """API: at most 200 items."""
    await held(chat)
    for start in range(0, 200, 40):
        await asyncio.gather(*(chat.say(f"write {count + 1} words") for count in range(start, start + 40)))
    full = await chat.refused("POST", "messages", {"role": "user", "parts": [{"type": "text", "text": "one more"}]})
    assert (full.status, full.code) == (422, "queue_full")
    assert (await chat.say("but a steer", delivery="steer"))["delivered"] == "steered"


async def test_what_a_killed_turn_had_not_begun_is_not_done_by_the_next_one(tmp_path: Path) -> None:
    """Promise 3: the model hears that the earlier message was called off before anything was said."""
    async with palaver_process(tmp_path) as first, first.chat() as chat:
        await chat.say("wait 600 seconds")
        item = await chat.say("write 2 words")
        await first.kill()
    async with palaver_process(tmp_path) as second, second.chat(chat.id) as chat:
        assert (await chat.happens("turn_completed"))["data"]["outcome"] == "interrupted"
        await chat.post("queue/resume")
        assert (await chat.ended(item["turn_id"]))["outcome"] == "completed"


async def test_the_queue_survives_a_restart_paused(tmp_path: Path) -> None:
    """T-08, P-10, promise 6: by SIGTERM and by kill -9, with its order and its edits."""
    async with palaver_process(tmp_path) as first, first.chat() as chat:
        await chat.say("wait 60 seconds")
        await chat.happens("model_output_delta")  # else the demo would hear of it once more, and wait again
        items = [await chat.say(f"write {count} words") for count in (2, 3)]
        await first.ask("PATCH", f"{chat.path}/queue/{items[1]['item_id']}", {"before": items[0]["item_id"]})
        await first.kill()
    async with palaver_process(tmp_path) as second, second.chat(chat.id) as chat:
        ended = (await chat.happens("turn_completed"))["data"]
        assert (ended["outcome"], ended["cause"]) == ("interrupted", "crash")
        queue = await chat.get("queue")
        assert [texts(item["message"]) for item in queue["items"]] == ["write 3 words", "write 2 words"] and queue["paused"]
        said = len(chat.of("model_output_started"))
        await chat.say("wait 60 seconds")
        await chat.happens("model_output_started", said + 1)
        await chat.reader.until(lambda: chat.of("model_output_delta")[-1]["seq"] > chat.of("model_output_started")[-1]["seq"])
        await second.end()
    async with palaver_process(tmp_path) as third, third.chat(chat.id) as chat:
        ended = (await chat.happens("turn_completed", 2))["data"]
        assert (ended["outcome"], ended["cause"]) == ("interrupted", "shutdown")
        await chat.post("queue/resume")
        await chat.ended(items[0]["turn_id"])
        assert [len(answer.split()) for answer in chat.answers()[-2:]] == [3, 2]
        check_ended(await chat.check())


# --- sent twice, retried ------------------------------------------------------------------------------------------------------


async def test_the_same_client_message_id_counts_once(chat: Chat) -> None:
    """Promise 5: at the same moment, later, and from the queue; with other parts it is refused."""
    replies = await asyncio.gather(*(chat.say("write 2 words", client_message_id="m1") for _ in range(4)))
    assert all(reply == replies[0] for reply in replies)
    await chat.ended(replies[0]["turn_id"])
    assert await chat.say("write 2 words", client_message_id="m1") == replies[0]
    _, ask = await held(chat)
    queued = await chat.say("write 3 words", client_message_id="m2")
    assert await chat.say("write 3 words", client_message_id="m2", delivery="interrupt") == queued
    other = {"role": "user", "parts": [{"type": "text", "text": "write 4 words"}], "client_message_id": "m2"}
    assert (await chat.refused("POST", "messages", other)).code == "id_reused"
    await let_go(chat, ask)
    await chat.ended(queued["turn_id"])
    assert await chat.say("write 3 words", client_message_id="m2") == queued
    assert order(chat) == [["write 2 words"], [HOLD], ["write 3 words"]]


async def test_a_retry_is_a_new_attempt_with_what_the_first_one_read(tmp_path: Path) -> None:
    """S4-18, DESIGN: the model gets the first attempt's messages and its steers, and nothing that the first attempt said."""
    broken = Step(status=400, body=b'{"error": {"message": "broken"}}')
    steps = [calls(("read_file", {"path": "a.txt"})), broken, text("well"), text("after")]
    release = Release()
    steps[0] = steps[0].stalled_after(0, release)
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        (here.workspace / "a.txt").write_text("a")
        sent = await chat.say("go")
        await model.received(1)
        steer = await chat.say("more", delivery="steer")
        release.open()
        assert (await chat.ended(sent["turn_id"]))["outcome"] == "failed"
        retried = await chat.post(f"turns/{sent['turn_id']}/retry")
        assert (await chat.ended(retried["turn_id"]))["outcome"] == "completed"
        started = chat.of("turn_started")[-1]["data"]
        assert (started["trigger"], started["attempt_of"]) == ("retry", sent["turn_id"])
        assert started["message_ids"] == [sent["message_id"], steer["message_id"]]
        told = [(message["role"], message["content"]) for message in model.requests[2]["messages"][1:]]
        assert [role for role, _ in told] in (["user"], ["user", "user"]) and "go" in str(told) and "more" in str(told)
        again = await chat.refused("POST", f"turns/{sent['turn_id']}/retry")
        assert (again.status, again.code) == (409, "not_retryable")
        await chat.runs("next")
        assert "well" in str(model.requests[3]["messages"]) and "a.txt" not in str(model.requests[3]["messages"][1:])
        shown = str(await chat.transcript())
        assert "well" in shown and "a.txt" in shown, "the transcript keeps both"


async def test_what_cannot_be_retried_says_so(chat: Chat) -> None:
    """409 `not_retryable` for a completed turn, `turn_running` while one runs."""
    done = await chat.say("write 2 words")
    await chat.ended(done["turn_id"])
    assert (await chat.refused("POST", f"turns/{done['turn_id']}/retry")).code == "not_retryable"
    sent, _ = await held(chat)
    assert (await chat.refused("POST", f"turns/{sent['turn_id']}/retry")).code == "turn_running"
