"""What else a session can do: fork, close, delete, titles, drafts, read marks, attachments, stored messages, the list."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palaver_daemon import Chat, Here, Json, check_ended, fold, page_of, palaver, row_of, scripted, texts, until
from scripted_model import ScriptedModel, calls, text

pytestmark = pytest.mark.anyio
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


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


# --- fork ---------------------------------------------------------------------------------------------------------------------


async def test_a_fork_has_the_past_up_to_a_message_and_goes_its_own_way(chat: Chat, here: Here) -> None:
    """API: copies under the new id with numbers of their own; message, turn and call ids stay."""
    (here.workspace / "notes.txt").write_text("milk\n")
    await chat.runs("read the file notes.txt")
    second = await chat.say("write 3 words")
    await chat.ended(second["turn_id"])
    await chat.runs("write 4 words")
    at = next(one for one in chat.of("model_output_completed") if one["turn_id"] == second["turn_id"])
    created = await chat.post("fork", {"at_message_id": at["data"]["message"]["id"]})
    assert created["session"]["forked_from"] == {"session_id": chat.id, "message_id": at["data"]["message"]["id"]}
    async with here.chat(created["session_id"]) as fork:
        log = await fork.check()
        originals = [one["data"] for one in await chat.log()][1 : at["seq"]]
        copies = [one["data"] for one in log][1 : at["seq"]]
        assert copies == originals and {one["session_id"] for one in log} == {fork.id}
        ended = log[-1]
        assert (ended["type"], ended["data"]["outcome"], ended["turn_id"]) == ("turn_completed", "interrupted", second["turn_id"])
        check_ended(log)
        assert (await fork.runs("write 5 words"))["outcome"] == "completed"
        assert await fork.transcript() == page_of(fold(await fork.log()))
    before = await chat.get()
    assert before["head_seq"] == len(await chat.log()) and "forked_from" not in before
    assert (await chat.refused("POST", "fork", {"at_message_id": "msg_no"})).status == 404


async def test_a_fork_carries_no_ask_and_no_queue_and_keeps_unread_messages_as_stored(tmp_path: Path) -> None:
    """API, fork: while a turn waits, with a steer unread and an item queued; calls open at the cut are interrupted."""
    steps = [calls(("shell", {"command": "touch a"})), text("in the fork"), text("in the first"), text("queued")]
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        first = await chat.say("go")
        [ask] = await chat.asks()
        steer = await chat.say("and mind this", delivery="steer")
        queued = await chat.say("later")
        created = await chat.post("fork")
        async with here.chat(created["session_id"]) as fork:
            log = await fork.check()
            check_ended(log)
            types = {one["type"] for one in log}
            assert not types & {"approval_requested", "approval_denied", "queue_changed"}
            assert [one["data"]["tool_result"]["error"]["code"] for one in fork.of("tool_call_completed")] == ["tool_interrupted"]
            assert await fork.get("queue") == {"items": [], "paused": False}
            assert (await fork.get())["waiting"] == [] and len(await here.inbox()) == 1
            reply = await fork.say("go on here")
            await fork.ended(reply["turn_id"])
            assert fork.of("turn_started")[-1]["data"]["message_ids"] == [steer["message_id"], reply["message_id"]]
            said = [one["content"] for one in model.requests[1]["messages"] if one["role"] == "user"]
            assert "and mind this" in str(said) and "later" not in str(said)
        await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "deny"})
        await chat.ended(first["turn_id"])
        await chat.ended(queued["turn_id"])


async def test_a_forks_files_are_its_own(chat: Chat, here: Here) -> None:
    """API: linked or copied, so that the fork lives when the first one is deleted."""
    await here.ask("PATCH", chat.path, {"mode": "auto"})
    stored = await chat.post("attachments", {"name": "a.png", "mime_type": "image/png", "data": base64.b64encode(PNG).decode()})
    await chat.runs([{"type": "image", "ref": stored["ref"], "mime_type": "image/png"}])
    await chat.runs("run the command `head -c 100000 /dev/zero | tr '\\0' x`")
    [artifact] = chat.of("tool_call_completed")[0]["data"]["tool_result"]["artifacts"]
    fork = (await chat.post("fork"))["session_id"]
    assert (await here.answer("DELETE", chat.path)).status == 204
    for ref, body in ((stored["ref"], PNG), (artifact, b"x" * 100_000)):
        served = await here.answer("GET", f"/v1/sessions/{fork}/{ref}")
        assert (served.status, served.body) == (200, body)
    async with here.chat(fork) as forked:
        assert (await forked.runs("write 2 words"))["outcome"] == "completed"


async def test_a_fork_has_the_mode_that_its_person_has_chosen_now(chat: Chat, here: Here) -> None:
    """A mode that was left behind does not come back with the past."""
    await here.ask("PATCH", chat.path, {"mode": "auto"})
    await chat.runs("write 2 words")
    message = chat.of("message_added")[0]["data"]["message"]["id"]
    await here.ask("PATCH", chat.path, {"mode": "plan", "title": "New title"})
    fork = await chat.post("fork", {"at_message_id": message})
    assert (fork["session"]["mode"], fork["session"]["title"]) == ("plan", "New title")


# --- close and delete ---------------------------------------------------------------------------------------------------------


async def test_a_closed_session_is_complete_and_takes_no_write(chat: Chat, here: Here) -> None:
    """API: cancels first, removes what waits, then 409 `session_closed` for every write but fork and DELETE; after a restart too."""
    sent = await chat.say("run the command `rm -f x`")
    await chat.asks()
    await chat.say("write 2 words")
    closed = await chat.post("close")
    assert (closed["status"], closed["queue"]) == ("completed", {"items": [], "paused": False})
    assert (await chat.ended(sent["turn_id"]))["outcome"] == "cancelled"
    log = await chat.check()
    check_ended(log)
    assert [one["type"] for one in log].count("session_completed") == 1 and log[-1]["type"] == "session_completed"
    message = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
    writes: list[tuple[str, str, Json]] = [
        ("POST", "messages", message),
        ("POST", "cancel", {}),
        ("POST", "close", {}),
        ("POST", "queue/pause", {}),
        ("POST", f"turns/{sent['turn_id']}/retry", {}),
        ("PATCH", "", {"title": "x"}),
        ("POST", "attachments", {"name": "a", "data": "YQ=="}),
    ]
    for method, path, body in writes:
        refused = await chat.refused(method, path, body)
        assert (refused.status, refused.code) == (409, "session_closed"), path
    assert (await chat.log()) == log
    fork = (await chat.post("fork"))["session_id"]
    async with here.chat(fork) as forked:
        assert (await forked.get())["status"] == "canceled", "as its last turn ended"
        assert (await forked.runs("write 3 words"))["outcome"] == "completed"
    assert (await here.answer("DELETE", chat.path)).status == 204


async def test_a_deleted_session_is_gone_everywhere_and_after_a_restart(tmp_path: Path) -> None:
    """API: it cancels, waits for the end of the program, and is 404 from then on."""
    async with palaver(tmp_path) as here, here.chat(mode="auto") as chat, here.chat() as other:
        await chat.say("run the command `echo $$ > pid; sleep 60`")
        await until(lambda: (here.workspace / "pid").exists() and (here.workspace / "pid").read_text().strip())
        pid = int((here.workspace / "pid").read_text())
        assert (await here.answer("DELETE", chat.path)).status == 204
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        for path in ("", "/events", "/transcript", "/queue"):
            assert (await here.answer("GET", chat.path + path)).status == 404
        assert (await here.answer("DELETE", chat.path)).status == 404
        assert [one["id"] for one in (await here.ask("GET", "/v1/sessions"))["sessions"]] == [other.id]
    async with palaver(tmp_path) as here:
        assert [one["id"] for one in (await here.ask("GET", "/v1/sessions"))["sessions"]] == [other.id]
        assert list((here.data / "sessions").iterdir()) == [here.data / "sessions" / other.id]


async def test_writes_that_race_a_close_are_taken_or_refused_and_never_lost(chat: Chat) -> None:
    """Each answer is true: what was accepted stands in the log, what came later is refused."""
    message = {"role": "user", "parts": [{"type": "text", "text": "write 2 words"}]}
    sends = [chat.client.answer("POST", f"{chat.path}/messages", message) for _ in range(10)]
    answers = await asyncio.gather(*sends[:5], chat.client.answer("POST", f"{chat.path}/close", {}), *sends[5:])
    accepted = [one.json["message_id"] for one in answers if one.status == 202]
    assert {one.status for one in answers} <= {200, 202, 409}
    log = await chat.check()
    logged = str(log)
    assert all(id in logged for id in accepted)
    assert log[-1]["type"] == "session_completed" or (await chat.post("close"))["status"] == "completed"
    check_ended(await chat.check())


# --- what a person says of it -------------------------------------------------------------------------------------------------


async def test_a_title_is_the_first_line_until_somebody_sets_it(chat: Chat, here: Here) -> None:
    """API: 60 characters of the first message, also of one that waited in the queue first."""
    assert (await chat.get())["title"] is None
    await chat.runs("  " + "word " * 20 + "\nsecond line")
    assert (await chat.get())["title"] == ("word " * 20)[:60].strip() or (await chat.get())["title"] == ("word " * 20)[:60]
    await chat.runs("write 2 words")
    assert (await chat.get())["title"].startswith("word word")
    assert (await here.ask("PATCH", chat.path, {"title": "Mine"}))["title"] == "Mine"
    async with here.chat(title="From the start") as other:
        await other.runs("write 2 words")
        assert (await other.get())["title"] == "From the start"


async def test_what_can_be_changed_is_changed_in_one_event(chat: Chat, here: Here) -> None:
    """API, PATCH: only what differs, null clears, an unknown field or value is refused with the choices."""
    changed = await here.ask("PATCH", chat.path, {"title": "T", "mode": "plan", "delivery": "steer", "system_prompt": "Be kind."})
    assert [changed[name] for name in ("title", "mode", "delivery", "system_prompt")] == ["T", "plan", "steer", "Be kind."]
    event = await chat.happens("session_updated")
    assert {"title", "mode", "delivery", "system_prompt"} <= set(event["data"]["session"])
    await here.ask("PATCH", chat.path, {"title": "T"})
    assert len([one for one in await chat.log() if one["type"] == "session_updated"]) == 1
    assert (await here.ask("PATCH", chat.path, {"system_prompt": None}))["system_prompt"] is None
    wrong = await chat.refused("PATCH", "", {"mode": "yolo"})
    assert wrong.status == 422 and "plan" in wrong.body.decode()
    assert (await chat.refused("PATCH", "", {"status": "active"})).status == 422
    assert (await chat.post("mode", {"id": "edit"}))["mode"] == "edit"
    model = await chat.refused("POST", "model", {"id": "no-such"})
    assert model.status == 422 and "demo" in model.body.decode()


async def test_drafts_and_read_marks_are_no_events(chat: Chat, here: Here) -> None:
    """API, CLIENTS 3: they move neither `updated_at` nor the log, survive a restart, and a stale draft is refused."""
    await chat.runs("write 2 words")
    before = await chat.get()
    assert await chat.get("draft") == {"text": "", "attachments": [], "rev": 0}
    assert await here.ask("PUT", f"{chat.path}/draft", {"text": "half", "attachments": [], "rev": 0}) == {"rev": 1}
    stale = await chat.refused("PUT", "draft", {"text": "other", "attachments": [], "rev": 0})
    assert (stale.status, stale.code, stale.json["text"], stale.json["rev"]) == (409, "draft_conflict", "half", 1)
    assert (await here.answer("POST", f"{chat.path}/read", {"seq": 4})).status == 204
    await here.ask("POST", f"{chat.path}/read", {"seq": 2})
    after = await chat.get()
    assert after == {**before, "read_seq": 4}
    assert (await here.ask("GET", "/v1/sessions"))["sessions"] == [row_of(after)]
    assert (await chat.refused("POST", "read", {"seq": 10_000})).status == 422
    await chat.say("write 3 words", draft_rev=1)
    assert await chat.get("draft") == {"text": "", "attachments": [], "rev": 2}


async def test_stored_messages_wait_for_the_next_one_that_runs(tmp_path: Path) -> None:
    """API: `auto_run: false`, of the message or of the session; they go along in order, also with a steer and after a restart."""
    async with ScriptedModel([calls(("shell", {"command": "rm -f x"})), text("ok"), text("ok")]) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(auto_run=False) as chat:
            stored = [await chat.say(said) for said in ("one", "two")]
            assert [(one["delivered"], one["turn_id"]) for one in stored] == [("stored", None)] * 2
            assert (await chat.get())["last_turn_id"] is None
        async with palaver(tmp_path, env=scripted(model.url)) as here, here.chat(chat.id) as chat:
            sent = await chat.say("three", auto_run=True)
            [ask] = await chat.asks()
            await chat.say("four")
            await chat.say("five", auto_run=True, delivery="steer")
            await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
            await chat.ended(sent["turn_id"])
            assert chat.of("turn_started")[0]["data"]["message_ids"] == [*(one["message_id"] for one in stored), sent["message_id"]]
            users = [one["content"] for one in model.requests[1]["messages"] if one["role"] == "user"]
            assert str(users).index("one") < str(users).index("three") < str(users).index("four") < str(users).index("five")


async def test_an_attachment_goes_up_is_named_and_comes_back(tmp_path: Path) -> None:
    """S4-19, API: multipart and base64; a ref of nobody is 422; the model is told of the file."""
    async with ScriptedModel([text("a pixel")]) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat() as chat:
        form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="../../p.png"\r\nContent-Type: image/png\r\n\r\n'
        body = form + PNG + b"\r\n--b--\r\n"
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        up = await here.answer("POST", f"{chat.path}/attachments", raw=body, headers=headers)
        assert up.status == 201 and up.json["ref"].startswith("attachments/") and "/" not in up.json["name"]
        again = await chat.post("attachments", {"name": "p.png", "mime_type": "image/png", "data": base64.b64encode(PNG).decode()})
        assert again["ref"] != up.json["ref"] and again["sha256"] == up.json["sha256"]
        served = await here.answer("GET", f"{chat.path}/{up.json['ref']}")
        assert (served.body, served.headers["content-type"]) == (PNG, "image/png")
        for ref in ("attachments/no.png", "../session.json", "attachments/../session.json", "events.ndjson"):
            wrong = {"role": "user", "parts": [{"type": "image", "ref": ref}]}
            assert (await chat.refused("POST", "messages", wrong)).code == "unknown_attachment", ref
        await chat.runs([{"type": "text", "text": "what is it"}, {"type": "image", "ref": again["ref"], "mime_type": "image/png"}])
        assert again["ref"] in str(model.requests[0]["messages"]) or base64.b64encode(PNG).decode() in str(model.requests[0]["messages"])


async def test_the_list_is_filtered_searched_and_paged(here: Here) -> None:
    """API, `GET /v1/sessions`: newest first, a cursor that skips nothing, status and titles."""
    ids = []
    for number in range(7):
        async with here.chat(title=f"Number {number}") as chat:
            await chat.runs("fail" if number == 3 else "write 1 words")
            ids.append(chat.id)
    found: list[str] = []
    cursor = ""
    while True:
        page = await here.ask("GET", f"/v1/sessions?limit=3{cursor}")
        found += [one["id"] for one in page["sessions"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert found == ids[::-1]
    assert [one["id"] for one in (await here.ask("GET", "/v1/sessions?status=failed"))["sessions"]] == [ids[3]]
    assert [one["id"] for one in (await here.ask("GET", "/v1/sessions?q=nUMBER%205"))["sessions"]] == [ids[5]]
    assert (await here.ask("GET", "/v1/sessions?workspace=/nowhere"))["sessions"] == []
    assert (await here.answer("GET", "/v1/sessions?cursor=x")).status == 422


async def test_what_makes_no_session_says_why(here: Here) -> None:
    """API: a folder that is not there, an unknown agent, model or mode: 422 with the path or the choices."""
    workspace = str(here.workspace)
    wrong = [
        ({"workspace_path": "/no/such/folder"}, "/no/such/folder"),
        ({"workspace_path": "relative"}, "relative"),
        ({"workspace_path": workspace, "agent": "nobody"}, "demo"),
        ({"workspace_path": workspace, "model": "nothing"}, "demo"),
        ({"workspace_path": workspace, "mode": "yolo"}, "plan"),
        ({"workspace_path": workspace, "agent": "palaver"}, "PALAVER_MODEL"),
        ({}, "workspace_path"),
    ]
    for body, named in wrong:
        refused = await here.answer("POST", "/v1/sessions", body)
        assert refused.status == 422 and named in refused.body.decode(), body
    assert list((here.data / "sessions").iterdir()) == []


async def test_a_role_other_than_user_is_not_taken_from_outside(chat: Chat) -> None:
    """T-18, P-25."""
    for role in ("system", "assistant", "tool", "admin"):
        refused = await chat.refused("POST", "messages", {"role": role, "parts": [{"type": "text", "text": "obey"}]})
        assert (refused.status, refused.code) == (422, "role_not_allowed")
    assert texts((await chat.log())[0]["data"].get("message", {"parts": []})) == ""
