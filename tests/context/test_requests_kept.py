"""`GET …/context?turn=&step=` is the request as the service got it, field for field, of every step, then and after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palaver.context.kept import Known, keep, sent
from palaver_daemon import Chat, palaver, scripted
from scripted_model import ScriptedModel, calls, status, text

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def shown(chat: Chat) -> list[dict[str, Any]]:
    """The request of every step, asked for by its own name."""
    steps = [(one["turn_id"], one["data"]["step_id"]) for one in chat.of("step_started")]
    return [(await chat.get(f"context?turn={turn}&step={step}"))["request"] for turn, step in steps]


async def test_the_request_of_every_step_is_shown_as_it_was_sent_also_after_a_restart(tmp_path: Path) -> None:
    """Equal, field for field, to the body that the scripted server received."""
    steps = [
        text("Hello."),
        calls(("read_file", {"path": "a.txt"}), ("search", {"pattern": "näh"})),
        text("Read it."),
        text("More."),
    ]
    async with ScriptedModel(steps) as model:
        async with palaver(tmp_path, env=scripted(model.url)) as here:
            (here.workspace / "a.txt").write_text("ünï \u2028 code\n" * 30)
            async with here.chat(system_prompt="Be kind.") as chat:
                for said in ("one", 'two "quoted" \\ 😀', "three"):
                    assert (await chat.runs(said))["outcome"] == "completed"
                assert await shown(chat) == model.requests
                session_id, turns = chat.id, [one["turn_id"] for one in chat.of("turn_started")]
        async with palaver(tmp_path, env=scripted(model.url), config="[limits]\nsteps = 9\n") as here, here.chat(session_id) as chat:
            await chat.reader.reached((await chat.get())["head_seq"])
            assert await shown(chat) == model.requests
            assert (await chat.get("context"))["request"] == model.requests[-1]
            assert (await chat.get(f"context?turn={turns[1]}"))["request"] == model.requests[2]
            step = chat.of("step_started")[0]["data"]["step_id"]
            assert (await chat.get(f"context?step={step}"))["request"] == model.requests[0]
            await chat.say("four")
            await chat.happens("context_usage", 5)
            await model.received(5)
            assert await shown(chat) == model.requests, "what is known of the files was lost with the process, the files were not"


async def test_the_latest_try_of_a_step_is_the_one_that_is_shown(tmp_path: Path) -> None:
    async with ScriptedModel([status(500, retry_after=0), text("ok")]) as model, palaver(tmp_path, env=scripted(model.url)) as here:
        async with here.chat() as chat:
            await chat.runs("go")
            assert await shown(chat) == [model.requests[1]]


async def test_usage_is_told_once_a_step_by_category(tmp_path: Path) -> None:
    """`context_usage`: what fills the window."""
    config = '[models.scripted]\nbase_url = "URL"\ncontext_window = 32000\n'
    async with ScriptedModel([calls(("read_file", {"path": "a.txt"})), text("ok")]) as model:
        async with (
            palaver(tmp_path, config=config.replace("URL", model.url), env={"PALAVER_MODEL": "scripted"}) as here,
            here.chat() as chat,
        ):
            (here.workspace / "a.txt").write_text("some word\n" * 800)
            await chat.runs("go")
            first, second = [one["data"] for one in chat.of("context_usage")]
            assert (first["limit"], first["source"], first["compressed"]) == (32_000, "estimated", False)
            assert [one["name"] for one in first["categories"]] == ["instructions", "files", "tool_results", "conversation"]
            assert [first["message_count"], second["message_count"]] == [len(one["messages"]) for one in model.requests]
            for usage in (first, second):
                assert usage["tokens"] == sum(one["tokens"] for one in usage["categories"])
            before, after = ({one["name"]: one["tokens"] for one in usage["categories"]} for usage in (first, second))
            assert before["tool_results"] == 0 and 2_000 < after["tool_results"] < 6_000
            assert before["instructions"] == after["instructions"] > 200
            answer = await chat.get("context")
            assert answer["categories"] == second["categories"]


async def test_no_secret_is_part_of_what_is_kept(tmp_path: Path) -> None:
    config = '[models.m]\nbase_url = "URL"\napi_key_env = "MY_KEY"\n'
    async with ScriptedModel([text("ok")]) as model:
        env = {"PALAVER_MODEL": "m", "MY_KEY": "sk-planted"}
        async with palaver(tmp_path, config=config.replace("URL", model.url), env=env) as here, here.chat() as chat:
            await chat.runs("go")
            assert "sk-planted" in str(model.headers[0])
            assert "sk-planted" not in json.dumps(await chat.get("context"))
        kept = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert any(path.name.startswith("request") for path in kept)
        assert not any(b"sk-planted" in path.read_bytes() for path in kept)


async def test_what_was_never_asked_is_not_found(tmp_path: Path) -> None:
    async with palaver(tmp_path) as here, here.chat() as chat:
        for query in ("", "?turn=turn_none", "?step=step_none", "?turn=turn_none&step=step_none"):
            assert (await chat.refused("GET", f"context{query}")).code == "not_found"
        await chat.runs("hello")
        assert (await chat.get("context"))["request"]["messages"][-1] == {"role": "user", "content": "hello"}
        turn = chat.of("turn_started")[0]["turn_id"]
        assert (await chat.refused("GET", f"context?turn={turn}&step=step_none")).code == "not_found"


async def test_a_request_costs_what_is_new_in_it() -> None:
    """The files of a session together are hardly larger than its last request."""
    files: dict[str, bytes] = {}

    async def put(data: bytes) -> str:
        files[f"f{len(files)}"] = data
        return f"f{len(files) - 1}"

    async def load(ref: str) -> bytes:
        return files[ref]

    known, bodies, refs = Known(), list[dict[str, Any]](), list[str]()
    messages: list[dict[str, Any]] = [{"role": "system", "content": "s" * 5_000}]
    for number in range(100):
        messages = [*messages, {"role": "user", "content": f"{number} " + "u" * 500}, {"role": "assistant", "content": "same"}]
        if number == 50:
            messages = [messages[0], *messages[60:]]
            known = Known()  # a restart
        bodies.append({"model": "m", "tools": [{"t": "x" * 3_000}], "messages": messages, "max_tokens": 1e3, "big": 12345678901234567890})
        refs.append(await keep(json.dumps(bodies[-1]).encode(), known, put))
    for body, ref in zip(bodies, refs, strict=True):
        assert json.loads(json.dumps(body)) == json.loads(_encoded(await sent(ref, load)))
    assert sum(map(len, files.values())) < 3.5 * len(json.dumps(bodies[-1]))


def _encoded(body: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.encode(body)
