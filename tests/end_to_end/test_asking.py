"""Approvals and questions over HTTP: several at once, answered once, from anywhere, also after a restart."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from palaver_daemon import Chat, Here, Json, Process, check_ended, palaver, palaver_process, scripted, texts, until
from scripted_model import ScriptedModel, calls, text

pytestmark = pytest.mark.anyio


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


def touches(*names: str) -> list[tuple[str, Json]]:
    return [("shell", {"command": f"touch {name}"}) for name in names]


async def answer(chat: Chat, id: str, action: str = "approve", **more: Any) -> Json:
    result: Json = await chat.client.ask("POST", f"/v1/approvals/{id}", {"action": action, **more})
    return result


def command_of(ask: Json) -> str:
    return str(ask["data"]["preview"]["command"])


# --- several at once ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_three_approvals_are_answered_in_any_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    """T-11, P-01: none denies another, each call gets its own result, and they run in the order of the batch."""
    steps = [calls(*touches("a", "b", "c")), text("done")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        turn = (await chat.say("go"))["turn_id"]
        asks = await chat.asks(3)
        assert [command_of(ask) for ask in asks] == ["touch a", "touch b", "touch c"]
        for place in order:
            answered = await answer(chat, asks[place]["id"], "deny" if place == 1 else "approve", reason=f"number {place}")
            assert (answered["outcome"], answered["by"]) == ("denied" if place == 1 else "granted", "user")
        assert (await chat.ended(turn))["outcome"] == "completed"
        results = [chat.result(ask["data"]["tool_call"]["id"]) for ask in asks]
        assert [result["ok"] for result in results] == [True, False, True]
        assert [(here.workspace / name).exists() for name in "abc"] == [True, False, True]
        running = [one["data"]["tool_call_id"] for one in chat.of("tool_call_running")]
        assert running == [asks[0]["data"]["tool_call"]["id"], asks[2]["data"]["tool_call"]["id"]]
        told = [one for one in model.requests[1]["messages"] if one["role"] == "tool"]
        assert len(told) == 3 and "number 1" in told[1]["content"]
        check_ended(await chat.check())


async def test_a_batch_of_answers_has_a_result_for_each_and_takes_none_back(tmp_path: Path) -> None:
    """T-11, API: in order, no rollback."""
    async with ScriptedModel([calls(*touches("a", "b", "c")), text("done")]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
            turn = (await chat.say("go"))["turn_id"]
            asks = [ask["id"] for ask in await chat.asks(3)]
            first = await answer(chat, asks[0])
            given = [(asks[0], "deny"), (asks[1], "approve"), ("appr_no", "approve"), (asks[2], "deny")]
            body = {"answers": [{"approval_id": id, "action": action} for id, action in given]}
            results = (await here.ask("POST", "/v1/approvals", body))["results"]
            assert [result["approval_id"] for result in results] == [id for id, _ in given]
            assert (results[0]["status"], results[0]["code"], results[0]["at"]) == (409, "already_answered", first["at"])
            assert results[1]["outcome"] == "granted"
            assert (results[2]["status"], results[2]["code"]) == (404, "not_found")
            assert results[3]["outcome"] == "denied"
            await chat.ended(turn)
            assert [(here.workspace / name).exists() for name in "abc"] == [True, True, False]


# --- once -----------------------------------------------------------------------------------------------------------------------


async def test_the_first_answer_wins_and_the_second_hears_what_it_was(chat: Chat, here: Here) -> None:
    """T-11, DESIGN: 409 with the recorded outcome; the same `client_answer_id` gets the first result again."""
    turn = (await chat.say("run the command `rm -f x`"))["turn_id"]
    [ask] = await chat.asks()
    bodies = [{"action": action, "client_answer_id": action} for action in ("approve", "deny")]
    path = f"/v1/approvals/{ask['id']}"
    answers = await asyncio.gather(*(here.answer("POST", path, body) for body in bodies))
    won = [place for place, one in enumerate(answers) if one.status == 200]
    assert len(won) == 1
    first, late = answers[won[0]], answers[1 - won[0]]
    assert (late.status, late.code) == (409, "already_answered")
    recorded = first.json
    assert {name: late.json[name] for name in ("approval_id", "outcome", "by", "at")} == recorded
    await chat.ended(turn)
    assert await here.ask("POST", path, bodies[won[0]]) == recorded
    assert (await here.answer("POST", path, bodies[1 - won[0]])).json["outcome"] == recorded["outcome"]
    by_call = {"turn_id": turn, "tool_call_id": ask["data"]["tool_call"]["id"], "action": "approve"}
    assert (await chat.refused("POST", "approve", by_call)).code == "already_answered"
    settled = chat.of("approval_granted", "approval_denied")
    assert len(settled) == 1
    at = settled[0]["ts"]
    assert recorded["at"][:16] == at[:16]


async def test_an_answer_names_the_turn_that_its_call_is_of(chat: Chat) -> None:
    """API: 409 `wrong_turn`; an unknown call or approval is 404."""
    turn = (await chat.say("run the command `rm -f x`"))["turn_id"]
    [ask] = await chat.asks()
    call = ask["data"]["tool_call"]["id"]
    assert (await chat.refused("POST", "approve", {"turn_id": "turn_no", "tool_call_id": call, "action": "approve"})).code == "wrong_turn"
    assert (await chat.refused("POST", "approve", {"turn_id": turn, "tool_call_id": "call_no", "action": "approve"})).status == 404
    assert (await chat.refused("POST", "/v1/approvals/appr_no", {"action": "approve"})).status == 404
    assert (await chat.refused("POST", f"/v1/approvals/{ask['id']}", {"action": "perhaps"})).status == 422
    assert (await chat.refused("POST", f"/v1/approvals/{ask['id']}", {"option_id": "perhaps"})).status == 422
    await chat.post("approve", {"turn_id": turn, "tool_call_id": call, "action": "approve"})
    assert (await chat.ended(turn))["outcome"] == "completed"


async def test_a_token_without_approve_answers_nothing(chat: Chat, here: Here) -> None:
    """SECURITY 2: approvals and questions take the scope `approve`."""
    await chat.say("run the command `rm -f x`")
    [ask] = await chat.asks()
    prompt = await here.mint("prompt")
    refused = await here.answer("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"}, token=prompt)
    assert (refused.status, refused.code, chat.open_asks()) == (403, "scope", [ask["id"]])


# --- scopes ---------------------------------------------------------------------------------------------------------------------


async def test_an_approval_for_the_session_settles_its_siblings_and_what_comes(tmp_path: Path) -> None:
    """T-11, R-06: those that the same rule allows, here and not elsewhere."""
    first = calls(("shell", {"command": "git status"}), ("shell", {"command": "touch b"}), ("shell", {"command": "git status -s"}))
    steps = [first, calls(("shell", {"command": "git status -b"})), text("done"), calls(("shell", {"command": "git status"})), text("no")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        async with here.chat() as chat, here.chat() as other:
            turn = (await chat.say("go"))["turn_id"]
            asks = await chat.asks(3)
            wide = next(option for option in asks[0]["data"]["options"] if option["scope"] == "session")
            assert "git status" in wide["label"]
            await answer(chat, asks[0]["id"], scope="session")
            granted = await chat.reader.until(lambda: len(chat.of("approval_granted")) == 2 and chat.of("approval_granted"))
            assert granted
            assert [(one["data"]["approval_id"], one["data"]["by"], one["data"]["scope"]) for one in granted] == [
                (asks[0]["id"], "user", "session"),
                (asks[2]["id"], "policy", "once"),
            ]
            assert chat.open_asks() == [asks[1]["id"]]
            await answer(chat, asks[1]["id"], "deny")
            await chat.ended(turn)
            assert len(chat.of("approval_requested")) == 3, "the next step's call was not asked"
            await other.say("go")
            assert len(await other.asks()) == 1, "the other session asks for itself"


async def test_an_approval_for_the_workspace_settles_asks_of_its_other_sessions(tmp_path: Path) -> None:
    """T-11: at once in every session of that workspace, later in new ones and after a restart; never in another workspace."""
    (tmp_path / "elsewhere").mkdir()
    async with palaver(tmp_path) as here:
        async with here.chat() as chat, here.chat() as sibling, here.chat(workspace_path=str(tmp_path / "elsewhere")) as stranger:
            turns = [(await one.say("run the command `git status`"))["turn_id"] for one in (chat, sibling, stranger)]
            asks = [(await one.asks())[0]["id"] for one in (chat, sibling, stranger)]
            option = next(o["id"] for o in (await chat.asks())[0]["data"]["options"] if o["scope"] == "workspace")
            await here.ask("POST", f"/v1/approvals/{asks[0]}", {"option_id": option})
            for one, turn in ((chat, turns[0]), (sibling, turns[1])):
                assert (await one.ended(turn))["outcome"] == "completed"
            assert sibling.of("approval_granted")[0]["data"]["by"] == "policy"
            assert [item["id"] for item in await here.inbox()] == [asks[2]]
            rules = (await here.ask("GET", f"/v1/rules?workspace={here.workspace}"))["rules"]
            assert [(rule["decision"], rule["command"]) for rule in rules] == [("allow", "git status")]
    async with palaver(tmp_path) as again, again.chat() as fresh:
        assert (await fresh.runs("run the command `git status`"))["outcome"] == "completed"
        assert fresh.of("approval_requested") == []
        await again.ask("DELETE", f"/v1/rules/{rules[0]['id']}")
        await fresh.say("run the command `git status`")
        assert len(await fresh.asks()) == 1


async def test_a_rule_settles_what_is_open(chat: Chat, here: Here) -> None:
    """Open asks are decided again when a rule appears: allowed, or denied with its reason."""
    for decision, ok in (("allow", True), ("deny", False)):
        turn = (await chat.say("run the command `git log`" if ok else "run the command `git push`"))["turn_id"]
        await chat.asks()
        command = "git log" if ok else "git push"
        await here.ask("POST", "/v1/rules", {"decision": decision, "workspace": str(here.workspace), "tool": "shell", "command": command})
        await chat.ended(turn)
        result = chat.of("tool_call_completed")[-1]["data"]["tool_result"]
        assert result.get("error", {}).get("code") == (None if ok else "tool_denied") or result["error"]["code"] == "tool_error"


# --- what reaches model and tool ------------------------------------------------------------------------------------------------


async def test_a_denials_reason_and_a_changed_input_reach_model_and_tool(tmp_path: Path) -> None:
    """T-11, P-02."""
    steps = [calls(("shell", {"command": "echo first > out"}), ("shell", {"command": "echo second > out"})), text("done")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        turn = (await chat.say("go"))["turn_id"]
        asks = await chat.asks(2)
        await answer(chat, asks[0]["id"], input={"command": "echo changed > out; cat out"})
        await answer(chat, asks[1]["id"], "deny", reason="one is enough")
        await chat.ended(turn)
        assert (here.workspace / "out").read_text() == "changed\n"
        granted = chat.of("approval_granted")[0]["data"]
        assert (granted["input"], granted["scope"]) == ({"command": "echo changed > out; cat out"}, "once")
        told = [one["content"] for one in model.requests[1]["messages"] if one["role"] == "tool"]
        assert "changed" in told[0] and "one is enough" in told[1]
        code = chat.result(asks[1]["data"]["tool_call"]["id"])["error"]["code"]
        assert code == "tool_denied"


async def test_a_changed_input_that_makes_no_sense_leaves_the_approval_open(chat: Chat) -> None:
    """It is checked like any other: 422 with the field's name, and what the floor denies is refused."""
    await chat.say("run the command `rm -f x`")
    [ask] = await chat.asks()
    path = f"/v1/approvals/{ask['id']}"
    assert (await chat.refused("POST", path, {"action": "approve", "input": {"comand": "ls"}})).status == 422
    floor = await chat.refused("POST", path, {"action": "approve", "input": {"command": f"cat {chat.client.data}/token"}})
    assert (floor.status, floor.code) == (422, "denied_by_rule")
    assert chat.open_asks() == [ask["id"]]


# --- questions ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given,cause,told",
    [
        ({"answers": {"choice": {"selected": ["blue"]}}}, "user", "blue"),
        ({"answers": {"choice": {"selected": [], "text": "green, really"}}}, "user", "green, really"),
        ({"agent_decides": True}, "agent_decides", "Decide yourself"),
        ({"declined": True, "reason": "none of your business"}, "declined", "none of your business"),
    ],
    ids=["an option", "own words", "the agent decides", "declined"],
)
async def test_a_question_is_answered_once_and_the_model_reads_it(chat: Chat, given: Json, cause: str, told: str) -> None:
    """API, Asking: and the second answer gets 409 with the first."""
    turn = (await chat.say("ask me which with red or blue"))["turn_id"]
    [ask] = await chat.asks()
    assert (ask["kind"], (await chat.get())["status"]) == ("question", "waiting_approval")
    path = f"/v1/questions/{ask['id']}"
    first = await chat.client.ask("POST", path, {**given, "client_answer_id": "a1"})
    assert (first["question_id"], first["cause"], first["by"]) == (ask["id"], cause, "user")
    await chat.ended(turn)
    assert await chat.client.ask("POST", path, {**given, "client_answer_id": "a1"}) == first
    late = await chat.refused("POST", path, given)
    assert (late.code, late.json["cause"], late.json["at"]) == ("already_answered", cause, first["at"])
    assert told in str(chat.of("tool_call_completed")[0]["data"]["tool_result"]["parts"])
    assert "tool_call_running" not in chat.turn(turn), "its only effect is the question"


async def test_an_answer_that_does_not_fit_its_question_is_refused(chat: Chat) -> None:
    await chat.say("ask me which with red or blue")
    [ask] = await chat.asks()
    path = f"/v1/questions/{ask['id']}"
    for wrong in ({"choice": {"selected": ["green"]}}, {"colour": {"selected": ["red"]}}, {"choice": {"selected": ["red", "blue"]}}):
        assert (await chat.refused("POST", path, {"answers": wrong})).status == 422
    assert (await chat.refused("POST", path, {})).status == 422
    assert chat.open_asks() == [ask["id"]]


ASKED = [
    {
        "header": "Colour",
        "text": "Which?",
        "options": [{"label": "red", "description": "warm"}, "blue"],
        "free_text": False,
        "default": "red",
    },
    {"text": "How many?", "type": "integer", "default": 3},
    {"text": "Really?", "type": "boolean", "default": False},
    {"text": "Anything else?", "default": "no"},
]


async def test_four_questions_are_asked_at_once_and_own_words_are_an_answer_to_each(tmp_path: Path) -> None:
    """Header, options, free text always, also where the model says not."""
    async with ScriptedModel([calls(("ask_user", {"questions": ASKED})), text("ok")]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
            sent = await chat.say("go")
            [ask] = await chat.asks()
            questions = ask["data"]["questions"]
            assert [(one["id"], one["header"], one["type"], one["free_text"]) for one in questions] == [
                ("q1", "Colour", "choice", True),
                ("q2", "How many?", "integer", True),
                ("q3", "Really?", "boolean", True),
                ("q4", "Anything else?", "text", True),
            ]
            path = f"/v1/questions/{ask['id']}"
            for wrong in ({"q2": {"selected": [], "value": "three"}}, {"q3": {"selected": [], "value": 1}}):
                assert (await chat.refused("POST", path, {"answers": wrong})).status == 422
            given = {
                "q1": {"selected": ["blue"], "text": "a dark one"},
                "q2": {"text": "a few"},
                "q3": {"value": True},
                "q4": {"text": "nö"},
            }
            await here.ask("POST", path, {"answers": given})
            await chat.ended(sent["turn_id"])
            told = model.requests[1]["messages"][-1]["content"]
            for words in ("blue; in their words: a dark one", "a few", "true", "nö"):
                assert words in told


async def test_a_question_that_nobody_answers_gets_its_stated_defaults(tmp_path: Path) -> None:
    """DESIGN 3: a deadline with a stated default; the model hears that nobody answered."""
    async with ScriptedModel([calls(("ask_user", {"questions": ASKED})), text("ok")]) as model:
        config = "[approval]\ndeadline_s = 0.3\n"
        async with palaver(tmp_path, env=scripted(model.url), config=config) as here, here.chat() as chat:
            sent = await chat.say("go")
            [ask] = await chat.asks()
            assert ask["deadline"] > ask["requested_at"]
            answered = (await chat.happens("question_answered"))["data"]
            assert (answered["cause"], answered["answers"]["q1"]["selected"], answered["answers"]["q3"]["value"]) == (
                "default",
                ["red"],
                False,
            )
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
            assert "Nobody answered in time; these are the defaults" in model.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize("delivery", ["auto", "queue", "steer"])
async def test_a_message_sent_while_a_question_is_open_cancels_nothing(tmp_path: Path, delivery: str) -> None:
    """P-11: it waits, or is read after the answer; the question is answered as if nothing had been said."""
    async with ScriptedModel([calls(("ask_user", {"questions": ASKED[:1]})), text("ok"), text("and that")]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
            sent = await chat.say("go")
            [ask] = await chat.asks()
            other = await chat.say("by the way", delivery=delivery)
            assert [one["id"] for one in await here.inbox()] == [ask["id"]] and not chat.of("question_answered")
            await here.ask("POST", f"/v1/questions/{ask['id']}", {"answers": {"q1": {"selected": ["blue"]}}})
            assert (await chat.ended(sent["turn_id"]))["outcome"] == "completed"
            await chat.ended(other["turn_id"])
            roles = [one["role"] for one in model.requests[1]["messages"][-2:]]
            assert roles == (["tool", "user"] if delivery == "steer" else ["assistant", "tool"])
            assert "by the way" in str(model.requests[-1]["messages"])
            check_ended(await chat.check())


# --- deadlines and restarts -------------------------------------------------------------------------------------------------------


async def test_what_nobody_answers_in_time_expires_everywhere(tmp_path: Path) -> None:
    """T-11, R-07: approvals and questions, with the deadline shown beforehand and an event for every client."""
    async with palaver(tmp_path, config="[approval]\ndeadline_s = 0.3\n") as here, here.chat() as chat:
        turn = (await chat.say("run the command `touch a` then ask me which with red or blue"))["turn_id"]
        [ask] = await chat.asks()
        assert ask["deadline"] > ask["requested_at"]
        denied = (await chat.happens("approval_denied"))["data"]
        assert denied["cause"] == "expired"
        assert (await chat.refused("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})).code == "already_answered"
        assert (await chat.happens("question_answered"))["data"]["cause"] == "expired"
        assert (await chat.ended(turn))["outcome"] == "completed"
        assert await here.inbox() == [] and not (here.workspace / "a").exists()


async def test_open_asks_are_alive_after_a_restart(tmp_path: Path) -> None:
    """T-11, R-08, P-26, promise 6: by SIGTERM and by kill -9 the turn stays open, its steers too, and goes on from the log."""
    async with palaver_process(tmp_path) as first, first.chat() as chat:
        turn = (await chat.say("run the command `touch a` then ask me which with red or blue then write 3 words"))["turn_id"]
        [ask] = await chat.asks()
        await chat.say("write 4 words", delivery="steer")
        await first.end()
    async with palaver_process(tmp_path) as second, second.chat(chat.id) as chat:
        await _same_ask(chat, ask, "turn_parked")
        await second.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
        await chat.happens("question_asked")
        [question] = await chat.asks()
        assert (second.workspace / "a").exists() and question["kind"] == "question"
        assert [one["turn_id"] for one in chat.of("message_delivered")] == [turn]
        await second.kill()
    async with palaver_process(tmp_path) as third, third.chat(chat.id) as chat:
        await _same_ask(chat, question, "turn_parked")
        await third.ask("POST", f"/v1/questions/{question['id']}", {"answers": {"choice": {"selected": ["red"]}}})
        assert (await chat.ended(turn))["outcome"] == "completed"
        assert [len(said.split("\n\n")[-1].split()) for said in chat.answers()[-1:]] == [4], "the steer's words come last"
        check_ended(await chat.check())


async def _same_ask(chat: Chat, ask: Json, parked: str) -> None:
    await chat.happens(parked)
    [found] = await chat.asks()
    assert found == ask


async def test_a_deadline_that_passed_while_the_daemon_was_away_expires_at_the_start(tmp_path: Path) -> None:
    """Promise 6: expired first, then the turn is judged anew: it waits for nobody any more, so it ends `interrupted`."""
    settings = "[approval]\ndeadline_s = 0.5\n"
    async with palaver(tmp_path, config=settings) as here, here.chat() as chat:
        await chat.say("run the command `touch a`")
        [ask] = await chat.asks()
    deadline = datetime.fromisoformat(ask["deadline"])
    await until(lambda: datetime.now(UTC) > deadline)
    async with palaver(tmp_path, config=settings) as here, here.chat(chat.id) as chat:
        ended = (await chat.happens("turn_completed"))["data"]
        assert chat.of("approval_denied")[0]["data"]["cause"] == "expired"
        assert (ended["outcome"], ended["cause"]) == ("interrupted", "crash")
        assert not (here.workspace / "a").exists()
        check_ended(await chat.check())


async def test_the_inbox_holds_the_asks_of_all_sessions_oldest_first(here: Here) -> None:
    """API, `GET /v1/inbox`: what a phone shows, enough to answer from."""
    ids = []
    for said in ("run the command `rm -f x`", "ask me which with red or blue", 'write the file a.txt with "b"'):
        async with here.chat(title=said[:8]) as chat:
            await chat.say(said)
            ids += [ask["id"] for ask in await chat.asks()]
    items = await here.inbox()
    assert [item["id"] for item in items] == ids
    assert [item["kind"] for item in items] == ["approval", "question", "approval"]
    assert [item["session_title"] for item in items] == ["run the ", "ask me w", "write th"]
    assert items[2]["data"]["preview"]["diff"].count("+b") == 1
    assert all(item["path"] == [item["session_id"]] for item in items)
    hello = await _hello_of_all(here)
    assert [ask["approval_id"] for ask in hello["open"]["approvals"]] == [ids[0], ids[2]]
    assert [ask["question_id"] for ask in hello["open"]["questions"]] == [ids[1]]


async def _hello_of_all(here: Here | Process) -> Json:
    async with here.stream("/v1/events") as stream:
        frame = await stream.next()
        assert frame is not None and frame.event == "hello"
        data: Json = frame.data["data"]
        return data


async def test_a_change_far_from_what_was_shown_is_asked_again_too(tmp_path: Path) -> None:
    """SECURITY 18: an approved patch goes only onto the bytes that its diff was made from, else a new approval."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        file, text = here.workspace / "a.txt", "one\n" + "line\n" * 50
        file.write_text(text)
        turn = (await chat.say('change "one" to "uno" in a.txt'))["turn_id"]
        [ask] = await chat.asks()
        file.write_text(text + "by hand\n")
        await answer(chat, ask["id"])
        again = (await chat.happens("approval_requested", 2))["data"]
        assert again["approval_id"] != ask["id"] and again["preview"]["diff"] != ask["data"]["preview"]["diff"]
        await answer(chat, again["approval_id"])
        await chat.ended(turn)
        assert file.read_text() == text.replace("one", "uno") + "by hand\n"


async def test_a_change_is_approved_for_the_file_that_was_shown(tmp_path: Path) -> None:
    """The file changes while the approval waits: what was approved is not done to something else, it is asked again."""
    async with palaver(tmp_path) as here, here.chat() as chat:
        file = here.workspace / "a.txt"
        file.write_text("one\ntwo\n")
        turn = (await chat.say('change "one" to "uno" in a.txt'))["turn_id"]
        [ask] = await chat.asks()
        file.write_text("zero\none\ntwo\n")
        await answer(chat, ask["id"])
        again = (await chat.happens("approval_requested", 2))["data"]
        assert "zero" in again["preview"]["diff"] and file.read_text() == "zero\none\ntwo\n"
        await answer(chat, again["approval_id"])
        await chat.ended(turn)
        assert file.read_text() == "zero\nuno\ntwo\n"
        assert texts(chat.of("model_output_completed")[-1]["data"]["message"])
