"""What models cost, which one answers when one cannot, and what a provider is given back of its thinking, in whole turns."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from palaver_daemon import Chat, palaver
from scripted_model import Release, ScriptedModel, Step, calls, chunk, error_in_stream, raw, sse, status, text, thinking

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def section(name: str, url: str, **fields: Any) -> str:
    lines = [f"[models.{name}]", f'base_url = "{url}"']
    return "\n".join([*lines, *(f"{key} = {value!r}".replace("'", '"') for key, value in fields.items()), ""])


@pytest.mark.parametrize(
    ("first", "asked", "code"),
    [
        ([status(500, retry_after=0.05)] * 3, 3, "500"),
        ([status(401)], 1, "refused the key"),
        ([text("never").dropped_after(0)] + [status(503, retry_after=0.05)] * 2, 3, "503"),
        ([status(429, retry_after=3600)], 1, "Wait 3600 s"),
        ([error_in_stream(code=400)], 1, "fell over"),
        ([text("x").stalled_after(0, Release())], 1, "sent nothing for 1 s"),
    ],
    ids=["three tries", "no key", "drop", "a long wait", "error in the stream", "silence"],
)
async def test_the_fallback_answers_when_the_model_cannot(tmp_path: Path, first: list[Step], asked: int, code: str) -> None:
    """S4-42, DESIGN 5.3: retried at most twice before anything is visible, then the fallback, and from then on only that one."""
    async with ScriptedModel(first) as broken, ScriptedModel([calls(("repo", {})), text("done")]) as whole:
        config = section("first", broken.url, fallback="second") + section("second", whole.url)
        if "sent nothing" in code:
            config += "[limits]\nsilence_s = 1\n"
        async with palaver(tmp_path, config=config) as here, here.chat(model="first") as chat:
            ended = await chat.runs("go")
            assert (ended["outcome"], ended["counts"]["steps"], chat.answers()) == ("completed", 2, ["", "done"])
            assert (len(broken.requests), len(whole.requests)) == (asked, 2)
            [fallen] = [one["data"] for one in chat.of("model_fallback")]
            assert (fallen["preferred"], fallen["actual"]) == ("first", "second") and code in fallen["reason"]
            assert broken.requests[0]["messages"] == whole.requests[0]["messages"]
            await chat.check()


async def test_what_was_seen_is_never_answered_again_by_a_fallback(tmp_path: Path) -> None:
    """P-22."""
    async with ScriptedModel([text("half ", "an answer").dropped_after(1)]) as broken, ScriptedModel([text("x")]) as whole:
        config = section("first", broken.url, fallback="second") + section("second", whole.url)
        async with palaver(tmp_path, config=config) as here, here.chat(model="first") as chat:
            assert (await chat.runs("go"))["error"]["code"] == "model_unreachable"
            assert (chat.answers(), chat.of("model_fallback"), whole.requests) == (["half "], [], [])


async def test_fallbacks_that_name_each_other_end_the_turn(tmp_path: Path) -> None:
    async with ScriptedModel(lambda _: status(400)) as one, ScriptedModel(lambda _: status(400)) as other:
        config = section("first", one.url, fallback="second") + section("second", other.url, fallback="first")
        async with palaver(tmp_path, config=config) as here, here.chat(model="first") as chat:
            assert (await chat.runs("go"))["outcome"] == "failed"
            assert (len(one.requests), len(other.requests), len(chat.of("model_fallback"))) == (1, 1, 1)


async def test_a_turn_costs_what_its_answers_cost_at_the_prices_of_who_gave_them(tmp_path: Path) -> None:
    """S4-42: usage and cost are summed per turn and per session, also of a turn that was stopped."""
    release = Release()
    second = [calls(("repo", {})), text("done"), calls(("repo", {})), text("a", "b").stalled_after(1, release)]
    async with ScriptedModel([status(400)] * 4) as broken, ScriptedModel(second) as whole:
        config = section("first", broken.url, fallback="second", price_in=100, price_out=100)
        config += section("second", whole.url, price_in=1.0, price_out=4.0)
        async with palaver(tmp_path, config=config) as here, here.chat(model="first") as chat:
            ended = await chat.runs("go")
            assert ended["usage"] == {"input_tokens": 20, "output_tokens": 10}
            assert ended["cost"] == {"amount": pytest.approx(2 * 30e-6), "currency": "USD"}
            assert [one["data"]["cost"]["amount"] for one in chat.of("model_output_completed")] == [pytest.approx(30e-6)] * 2
            sent = await chat.say("again")
            await chat.happens("model_output_delta", 2)
            await chat.post("cancel")
            ended = await chat.ended(sent["turn_id"])
            assert (ended["outcome"], ended["cost"]["amount"]) == ("cancelled", pytest.approx(30e-6))
            session = await chat.get()
            assert session["usage"] == {"input_tokens": 30, "output_tokens": 15}
            assert session["cost"]["amount"] == pytest.approx(3 * 30e-6)


async def test_details_go_back_to_the_model_that_gave_them_and_to_no_other(tmp_path: Path) -> None:
    """PROTOCOLS 7.2: OpenRouter's reasoning_details return unchanged, after a restart too."""
    thought = thinking("I ", "look", name="reasoning_details")
    first = [thought + calls(("repo", {})), text("done"), text("still here")]
    async with ScriptedModel(first) as server, ScriptedModel([text("hello")]) as other:
        config = section("first", server.url) + section("second", other.url)
        async with palaver(tmp_path, config=config) as here, here.chat(model="first") as chat:
            await chat.runs("go")
            id = chat.id
        async with palaver(tmp_path, config=config) as here, here.chat(id) as chat:
            await chat.runs("and now")
            await chat.post("model", {"id": "second"})
            await chat.runs("and you")
        details = [{"type": "reasoning.text", "text": "I look", "index": 0}]
        for request in server.requests[1:]:
            answer = next(message for message in request["messages"] if message["role"] == "assistant")
            assert answer["reasoning_details"] == details and "reasoning_content" not in answer
        told = str(other.requests[0]["messages"])
        assert "reasoning_" not in told and "I look" not in told


async def test_a_signature_of_a_call_goes_back_with_that_call(tmp_path: Path) -> None:
    """Google's OpenAI-compatible end refuses a call without the signature that it came with."""
    signed = {"google": {"thought_signature": "sig"}}
    call = {"index": 0, "id": "x", "type": "function", "function": {"name": "repo", "arguments": "{}"}, "extra_content": signed}
    async with ScriptedModel([replace(raw(sse(chunk({"tool_calls": [call]}))), finish="tool_calls", done=True), text("done")]) as server:
        async with palaver(tmp_path, config=section("first", server.url)) as here, here.chat(model="first") as chat:
            assert (await chat.runs("go"))["outcome"] == "completed"
            [sent] = server.requests[1]["messages"][-2]["tool_calls"]
            assert (sent["extra_content"], sent["id"]) == (signed, chat.of("tool_call_started")[0]["data"]["tool_call"]["id"])


async def test_a_service_that_says_what_it_wants_back_gets_it(tmp_path: Path) -> None:
    """PROTOCOLS 7.2: one refuses its reasoning_content, another refuses to go on without; both changed during a year."""
    refused = status(400, message="reasoning_content is not allowed in input messages")
    wanted = status(400, message="Missing `reasoning_content` field in the assistant message at message index 2")
    thought = thinking("hm") + text("yes")
    async with ScriptedModel([thought, refused, text("good")]) as r1, ScriptedModel([text("yes"), wanted, text("good")]) as v4:
        config = section("r1", r1.url) + section("v4", v4.url)
        async with palaver(tmp_path, config=config) as here:
            for model in ("r1", "v4"):
                async with here.chat(model=model) as chat:
                    await chat.runs("go")
                    assert (await chat.runs("again"))["outcome"] == "completed"
        echoed = [[message.get("reasoning_content") for message in request["messages"][2:3]] for request in r1.requests + v4.requests]
        assert echoed == [[], ["hm"], [None], [], [None], [""]]


async def test_a_conversation_that_is_too_long_is_told_apart(tmp_path: Path) -> None:
    too_long = status(400, message="This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.")
    async with ScriptedModel([too_long] * 2) as server:
        async with palaver(tmp_path, config=section("first", server.url)) as here, here.chat(model="first") as chat:
            assert (await chat.runs("go"))["error"]["code"] == "context_overflow"
            assert len(server.requests) == 2, "once more, made shorter"


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()


async def attached(chat: Chat, type: str, name: str, data: str) -> dict[str, Any]:
    stored = await chat.post("attachments", {"name": name, "mime_type": "application/octet-stream", "data": data})
    return {"type": type, "ref": stored["ref"], "name": name}


async def test_an_image_reaches_a_model_that_sees_and_is_refused_for_one_that_does_not(tmp_path: Path) -> None:
    """A clear refusal with a stable code, before anything is accepted; capabilities follow the model."""
    async with ScriptedModel([text("a pixel")]) as server:
        config = section("seeing", server.url) + "vision = true\n" + section("blind", server.url) + "tools = false\n"
        async with palaver(tmp_path, config=config) as here, here.chat(model="seeing") as chat:
            assert (await chat.get())["capabilities"]["vision"] is True
            image = await attached(chat, "image", "a.png", PNG)
            await chat.runs([{"type": "text", "text": "what is it"}, image])
            assert f"data:image/png;base64,{PNG}" in str(server.requests[0]["messages"][-1])
            await chat.post("model", {"id": "blind"})
            capabilities = (await chat.get())["capabilities"]
            assert (capabilities["vision"], capabilities["tools"]) == (False, False)
            head = len(await chat.log())
            refused = await chat.refused("POST", "messages", {"role": "user", "parts": [image]})
            assert (refused.status, refused.code) == (422, "media_not_taken") and "takes no images" in refused.json["detail"]
            assert len(await chat.log()) == head


async def test_a_queued_image_whose_model_was_changed_is_named_to_the_model_and_to_the_person(tmp_path: Path) -> None:
    release = Release()
    async with ScriptedModel([text("a", "b").stalled_after(1, release), text("I see nothing"), text("yes")]) as server:
        config = section("seeing", server.url) + "vision = true\n" + section("blind", server.url)
        async with palaver(tmp_path, config=config) as here, here.chat(model="seeing") as chat:
            await chat.say("go")
            queued = await chat.say([await attached(chat, "image", "a.png", PNG)])
            await chat.post("model", {"id": "blind"})
            release.open()
            assert (await chat.ended(queued["turn_id"]))["outcome"] == "completed"
            [notice] = chat.of("notice")
            assert notice["data"]["code"] == "media_not_taken" and "blind: the model takes no images" in notice["data"]["text"]
            assert "a.png was attached here and is not shown" in str(server.requests[1]["messages"][-1])
            await chat.runs("go on")
            assert len(chat.of("notice")) == 1, "once, not with every request that repeats the history"


async def test_a_text_file_is_read_by_every_model(tmp_path: Path) -> None:
    async with ScriptedModel([text("yes")]) as server:
        async with palaver(tmp_path, config=section("blind", server.url)) as here, here.chat(model="blind") as chat:
            await chat.runs([await attached(chat, "file", "notes.md", base64.b64encode(b"# Remember the milk").decode())])
            assert "# Remember the milk" in server.requests[0]["messages"][-1]["content"]
            zipped = await attached(chat, "file", "a.zip", base64.b64encode(b"PK\x03\x04\x00\xff").decode())
            assert (await chat.refused("POST", "messages", {"role": "user", "parts": [zipped]})).code == "media_not_taken"
