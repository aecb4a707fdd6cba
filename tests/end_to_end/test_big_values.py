"""Values of any size, and bytes of any kind: every line stays small, nothing is lost, and the model gets the whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palaver_daemon import Chat, Here, Json, check_ended, palaver, scripted, texts
from scripted_model import ScriptedModel, Step, calls, text

pytestmark = pytest.mark.anyio
LINE = 64 * 1024


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def with_model(tmp_path: Path, steps: Sequence[Step], **fields: Any) -> AsyncIterator[tuple[Here, Chat, ScriptedModel]]:
    """Checks at the end that every line is small, that every ref leads to what it names, and that the folds are equal."""
    async with ScriptedModel(steps) as model, palaver(tmp_path, env=scripted(model.url)) as here, here.chat(**fields) as chat:
        yield here, chat, model
        await chat.idle()
        log = await chat.check()
        check_ended(log)
        assert await chat.transcript() == chat.reader.page()
        for event, line in zip(log, here.lines(chat.id), strict=True):
            assert len(line) < LINE or event["type"] == "model_output_completed", event["type"]
            await _check_refs(chat, event["data"])


async def _check_refs(chat: Chat, data: Json) -> None:
    for pointer, ref in data.get("refs", {}).items():
        served = await chat.client.answer("GET", f"{chat.path}/{ref['ref']}")
        assert (served.status, len(served.body)) == (200, ref["size"])
        assert hashlib.sha256(served.body).hexdigest() == ref["sha256"]
        head = _at(data, pointer)
        assert served.body.decode().startswith(head) and 2000 < len(head.encode()) <= 2048


def _at(value: Any, pointer: str) -> str:
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        value = value[int(step)] if isinstance(value, list) else value[step]
    return str(value)


def told(model: ScriptedModel, request: int, role: str) -> list[str]:
    found = [message["content"] for message in model.requests[request]["messages"] if message["role"] == role]
    return [one if isinstance(one, str) else "".join(part.get("text", "") for part in one) for one in found]


@pytest.mark.parametrize("delivery", ["auto", "queue", "steer"])
async def test_a_message_of_a_mebibyte_is_short_in_the_log_and_whole_for_the_model(tmp_path: Path, delivery: str) -> None:
    """API, Messages: started, queued or steered."""
    said = "é😀 and more\n" * 60_000
    steps = [calls(("shell", {"command": "rm -f x"})), text("ok"), text("ok")]
    async with with_model(tmp_path, steps) as (here, chat, model):
        reply = await chat.say(said if delivery == "auto" else "go")
        [ask] = await chat.asks()
        if delivery != "auto":
            reply = await chat.say(said, delivery=delivery)
        await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
        await chat.ended(reply["turn_id"])
        [added] = [one for one in chat.of("message_added") if one["data"]["message"]["id"] == reply["message_id"]]
        [part] = added["data"]["message"]["parts"]
        assert part["truncated"] is True and "/message/parts/0/text" in added["data"]["refs"]
        assert any(said in one for one in told(model, -1, "user"))


async def test_a_big_message_counts_once_and_is_edited_in_the_queue(tmp_path: Path) -> None:
    """Promise 5 and the queue, with files behind both."""
    said, edited = "a" * 300_000, "b" * 300_000
    async with with_model(tmp_path, [calls(("shell", {"command": "rm -f x"})), text("ok"), text("ok")]) as (here, chat, model):
        await chat.say("go")
        [ask] = await chat.asks()
        first = await chat.say(said, client_message_id="big")
        assert await chat.say(said, client_message_id="big") == first
        other = {"role": "user", "parts": [{"type": "text", "text": said + "!"}], "client_message_id": "big"}
        assert (await chat.refused("POST", "messages", other)).code == "id_reused"
        parts = [{"type": "text", "text": edited}]
        await here.ask("PATCH", f"{chat.path}/queue/{first['item_id']}", {"parts": parts})
        await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
        await chat.ended(first["turn_id"])
        assert edited in told(model, -1, "user") and said not in str(model.requests[-1])


async def test_a_patch_of_300_kib_is_shown_in_part_and_done_in_full(tmp_path: Path) -> None:
    """API: a client loads a shortened preview before it offers Approve; call and diff are whole behind their refs."""
    lines = [f"line {number} of many, with some length to it" for number in range(8000)]
    patch = "*** Begin Patch\n*** Add File: big.txt\n" + "".join(f"+{line}\n" for line in lines) + "*** End Patch\n"
    assert len(patch) > 300 * 1024
    async with with_model(tmp_path, [calls(("apply_patch", {"patch": patch}), split=4096), text("done")]) as (here, chat, model):
        turn = (await chat.say("go"))["turn_id"]
        [ask] = await chat.asks()
        assert {"/tool_call/input/patch", "/preview/diff"} <= set(ask["data"]["refs"])
        whole = await here.answer("GET", f"{chat.path}/{ask['data']['refs']['/preview/diff']['ref']}")
        assert all(f"+{line}\n".encode() in whole.body for line in lines[::500])
        await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
        await chat.ended(turn)
        assert (here.workspace / "big.txt").read_text() == "".join(f"{line}\n" for line in lines)
        [call] = [call for one in model.requests[1]["messages"] for call in one.get("tool_calls") or []]
        assert json.loads(call["function"]["arguments"]) == {"patch": patch}


async def test_a_changed_input_may_be_big_too(tmp_path: Path) -> None:
    async with with_model(tmp_path, [calls(("shell", {"command": "true"})), text("done")]) as (here, chat, _):
        turn = (await chat.say("go"))["turn_id"]
        [ask] = await chat.asks()
        command = "printf %s " + "x" * 100_000 + " > out"
        await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve", "input": {"command": command}})
        await chat.ended(turn)
        assert (here.workspace / "out").read_text() == "x" * 100_000


async def test_ten_mebibytes_in_one_line_of_output_are_kept_beside_the_log(tmp_path: Path) -> None:
    """T-18, DESIGN 4: 256 KiB are logged and streamed, head and tail go to the model, the whole is an artifact that it can read."""
    command = "head -c 10485759 /dev/zero | tr '\\0' x; echo"
    steps = [calls(("shell", {"command": command})), text("done")]
    async with with_model(tmp_path, steps, mode="auto") as (here, chat, model):
        await chat.runs("go")
        result = chat.of("tool_call_completed")[0]["data"]["tool_result"]
        assert result["ok"] and result["truncated"]
        [ref] = result["artifacts"]
        whole = await here.answer("GET", f"{chat.path}/{ref}")
        assert whole.body == b"x" * 10485759 + b"\n"
        streamed = "".join(one["data"]["text"] for one in chat.of("tool_output_delta"))
        assert 200 * 1024 < len(streamed) <= 256 * 1024
        [shown] = told(model, 1, "tool")
        assert ref in shown and len(shown) < 64 * 1024


async def test_output_of_any_bytes_is_text_that_json_can_carry(tmp_path: Path) -> None:
    """T-18: NUL, invalid UTF-8, U+2028, a character cut in two by the pipe, an escape."""
    command = r"printf 'a\000b\377c\342\200\250d\033[31m'; printf '\360\237'; sleep 0.05; printf '\230\200'; printf '\303'"
    async with with_model(tmp_path, [calls(("shell", {"command": command})), text("done")], mode="auto") as (here, chat, _):
        await chat.runs("go")
        printed = "".join(one["data"]["text"] for one in chat.of("tool_output_delta"))
        assert printed == "a\0b\ufffdc\u2028d\x1b[31m😀\ufffd"
        assert len(here.lines(chat.id)) == len(await chat.log()), "a line ends at a line feed and nowhere else"


async def test_text_with_odd_line_ends_is_one_line_of_the_log(tmp_path: Path) -> None:
    """STACK: U+2028, U+0085 and form feeds split no line; control characters arrive as they were sent."""
    odd = "a\u2028b\u2029c\x85d\x0ce\x0bf\x1cg\x01h\r\ni"
    async with with_model(tmp_path, [text(odd), text("ok")]) as (here, chat, model):
        await chat.runs(odd)
        assert chat.answers() == [odd] and told(model, 0, "user") == [odd]
        disk = (here.data / "sessions" / chat.id / "events.ndjson").read_bytes()
        assert disk.count(b"\n") == len(await chat.log())
    async with palaver(tmp_path) as here, here.chat(chat.id) as again:
        assert texts((await again.happens("message_added"))["data"]["message"]) == odd


async def test_a_big_file_is_read_in_part(tmp_path: Path) -> None:
    async with with_model(tmp_path, [calls(("read_file", {"path": "big.txt"})), text("done")]) as (here, chat, _):
        (here.workspace / "big.txt").write_text("".join(f"line {number} é\n" for number in range(100_000)))
        await chat.runs("go")
        assert chat.of("tool_call_completed")[0]["data"]["tool_result"]["ok"]


async def test_big_questions_and_answers_stay_small_in_the_log(tmp_path: Path) -> None:
    """API: any event over 48 KiB is made smaller; the answer reaches the model whole."""
    question = {"questions": [{"text": "Which? " + "q" * 100_000, "options": ["red", "blue"]}]}
    async with with_model(tmp_path, [calls(("ask_user", question)), text("ok")]) as (here, chat, model):
        turn = (await chat.say("go"))["turn_id"]
        [ask] = await chat.asks()
        own = "my words " * 20_000
        answers = {ask["data"]["questions"][0]["id"]: {"selected": [], "text": own}}
        await here.ask("POST", f"/v1/questions/{ask['id']}", {"answers": answers})
        await chat.ended(turn)
        assert own.strip() in told(model, 1, "tool")[0]
        [block] = [block for entry in (await chat.transcript())["entries"] for block in entry["blocks"] if block["kind"] == "ask_user"]
        pointers = set(block["data"]["refs"])
        assert "/questions/0/text" in pointers and any(pointer.startswith("/answers/") for pointer in pointers)


async def test_a_reason_is_bounded(tmp_path: Path) -> None:
    """What a person says at a denial is in three events: it is a sentence, not a file."""
    async with with_model(tmp_path, [calls(("shell", {"command": "true"})), text("ok")]) as (here, chat, model):
        turn = (await chat.say("go"))["turn_id"]
        [ask] = await chat.asks()
        path = f"/v1/approvals/{ask['id']}"
        assert (await chat.refused("POST", path, {"action": "deny", "reason": "r" * 100_000})).status == 422
        await here.ask("POST", path, {"action": "deny", "reason": "\x01" * 3999 + "!"})
        await chat.ended(turn)
        assert "!" in told(model, 1, "tool")[0]


async def test_a_system_prompt_is_whole_or_refused(tmp_path: Path) -> None:
    """A session's facts are one event: what does not fit is refused with the field's name, at creation and later."""
    async with with_model(tmp_path, [text("ok")], system_prompt="p" * 30_000) as (here, chat, model):
        await chat.runs("go")
        [system] = told(model, 0, "system")
        assert "\n\n" + "p" * 30_000 in system
        for method, path, body in (
            ("POST", "/v1/sessions", {"workspace_path": str(here.workspace)}),
            ("PATCH", chat.path, {}),
        ):
            refused = await here.answer(method, path, {**body, "system_prompt": "p" * 100_000})
            assert (refused.status, refused.json["errors"][0]["path"]) == (422, "system_prompt")


async def test_a_call_with_a_name_as_long_as_a_book_is_a_call_of_an_unknown_tool(tmp_path: Path) -> None:
    async with with_model(tmp_path, [calls(("n" * 100_000, {"a": 1})), text("ok")]) as (_, chat, _):
        await chat.runs("go")
        assert chat.of("tool_call_completed")[0]["data"]["tool_result"]["error"]["code"] == "unknown_tool"


async def test_arguments_of_countless_values_are_a_result(tmp_path: Path) -> None:
    """No string of them is long, and no line holds them all."""
    async with with_model(tmp_path, [calls(("shell", {"command": ["a"] * 50_000}), split=4096), text("ok")]) as (_, chat, _):
        await chat.runs("go")
        assert chat.of("tool_call_completed")[0]["data"]["tool_result"]["error"]["code"] == "invalid_arguments"


async def test_a_message_of_countless_parts_is_refused(tmp_path: Path) -> None:
    async with with_model(tmp_path, [text("ok")]) as (_, chat, _):
        parts = [{"type": "text", "text": "p" * 2000}] * 500
        refused = await chat.refused("POST", "messages", {"role": "user", "parts": parts})
        assert (refused.status, refused.json["errors"][0]["path"]) == (422, "parts")
        await chat.runs("go")


async def test_a_long_queue_and_a_big_message_fit_into_one_line(tmp_path: Path) -> None:
    async with with_model(tmp_path, [calls(("shell", {"command": "true"}))]) as (_, chat, _):
        await chat.say("go")
        await chat.asks()
        for _ in range(150):
            await chat.say("later")
        await chat.say("b" * 45_000)
        await chat.post("cancel")


async def test_many_unread_messages_fit_into_the_lines_of_a_cancel(tmp_path: Path) -> None:
    """Each was short enough for a line of its own; as paused items they may not share one."""
    async with with_model(tmp_path, [calls(("shell", {"command": "true"}))]) as (_, chat, _):
        await chat.say("go")
        await chat.asks()
        steers = [await chat.say(letter * 40_000, delivery="steer") for letter in "abcde"]
        await chat.post("cancel")
        await chat.idle()
        items = (await chat.get("queue"))["items"]
        assert [item["message_id"] for item in items] == [steer["message_id"] for steer in steers]
        assert all(item["paused"] for item in items)


async def test_a_delta_of_any_size_becomes_short_lines(tmp_path: Path) -> None:
    """Some providers send an answer in one piece."""
    said = "é\x01😀" * 50_000
    async with with_model(tmp_path, [text(said)]) as (_, chat, _):
        await chat.runs("go")
        assert chat.answers() == [said]
        assert "".join(one["data"]["text"] for one in chat.of("model_output_delta")) == said


async def test_an_error_as_long_as_a_book_is_cut(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": "e" * 200_000}}).encode()
    async with with_model(tmp_path, [Step(status=400, body=body)]) as (_, chat, _):
        assert (await chat.runs("go"))["outcome"] == "failed"
