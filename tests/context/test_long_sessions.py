"""A session that is much longer than its model's window: every request fits, and what was decided and is open is never lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from palaver.backends.compacting import Summary
from palaver.backends.history import is_legal
from palaver.backends.late import Late
from palaver.context.compaction import Cut
from palaver.daemon import Daemon
from palaver.models.base import Model, ModelCall, ModelMessage
from palaver.wire.values import Part
from palaver_daemon import Chat, palaver
from scripted_model import ScriptedModel, Step, calls, status, text

pytestmark = pytest.mark.anyio

WINDOW = 8_000
TURNS = 200
DECISION = "Decision: the port of the relay is 48611, because 8080 is taken."
OPEN = "Write the migration for the old rooms"
Json = dict[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def config(url: str, window: int | None = WINDOW) -> str:
    limit = f"context_window = {window}\n" if window else ""
    return f'[defaults]\nmodel = "m"\n[models.m]\nbase_url = "{url}"\n{limit}[limits]\ntool_calls_per_minute = 1000000\n'


def tokens(body: Json) -> int:
    """As a stranger would count: four bytes of the body are one."""
    return len(json.dumps(body, ensure_ascii=False).encode()) // 4


def plain(body: Json) -> list[ModelMessage]:
    """The body's messages as the history's checker reads them."""
    return [
        ModelMessage(
            one["role"],
            (Part("text", text=one["content"]),) if one.get("content") else (),
            tuple(ModelCall(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in one.get("tool_calls") or ()),
            call_id=one.get("tool_call_id"),
        )
        for one in body["messages"]
    ]


def is_summary(body: Json) -> bool:
    return "tools" not in body


class Worker:
    """A model that reads a file in every turn, keeps a plan in turn 5, and writes summaries as its user wants them."""

    def __init__(self, summarize: Callable[[Json], Step]) -> None:
        self.summarize = summarize
        self.sizes: list[int] = []
        self.summaries = 0
        self.last: Json = {}

    def __call__(self, body: Json) -> Step:
        self.sizes.append(tokens(body))
        assert is_legal(plain(body)) is None, is_legal(plain(body))
        if is_summary(body):
            self.summaries += 1
            return self.summarize(body)
        self.last = body
        asked = body["messages"][-1]
        if asked["role"] == "tool":
            return text("I have looked at it. " + "There is more to it than it seems. " * 6)
        turn = int(re.findall(r"turn (\d+)", asked["content"])[-1])
        if turn == 5:
            plan = [{"text": OPEN, "status": "pending"}, {"text": "Name the relay", "status": "done"}]
            return calls(("update_plan", {"items": plan}))
        batch = [("read_file", {"path": "notes.txt"})] * (1 + turn % 3)
        return calls(*batch) if turn % 2 else text("Yes. " * 40)


async def talk(chat: Chat, turns: int) -> None:
    for turn in range(1, turns + 1):
        decided = f" {DECISION}" if turn == 3 else ""
        said = f"This is turn {turn}.{decided} Please look at the notes and tell me what they say about rooms and relays."
        assert (await chat.runs(said))["outcome"] == "completed"


def generic(body: Json) -> Step:
    return text("The person and the agent talked about notes.")


def failing(body: Json) -> Step:
    return status(400, message="summaries are not for me")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("summarize", [generic, failing], ids=["a careless summary", "no summary at all"])
async def test_200_turns_fit_a_small_window_and_lose_no_decision_and_no_open_work(
    tmp_path: Path, summarize: Callable[[Json], Step]
) -> None:
    """Every request fits, no call is parted from its result, a decision from turn 3 and the open work stand in the last one."""
    worker = Worker(summarize)
    async with ScriptedModel(worker) as model, palaver(tmp_path, config=config(model.url)) as here:
        (here.workspace / "notes.txt").write_text("".join(f"room {n} has a relay of its own\n" for n in range(120)))
        async with here.chat(mode="auto") as chat:
            await talk(chat, TURNS)
            assert max(worker.sizes) <= WINDOW - WINDOW // 8, "there is room for an answer too"
            assert worker.summaries >= 3
            said = json.dumps(worker.last, ensure_ascii=False)
            assert DECISION in said and OPEN in said
            compacted = [one["data"] for one in chat.of("context_compacted")]
            assert all(one["tokens_after"] < one["tokens_before"] for one in compacted)
            assert {one.get("written_by", "model") for one in compacted} == {"model" if summarize is generic else "rules"}
            log = await chat.log()
            assert any(DECISION in json.dumps(one) for one in log[:60] if one["type"] == "message_added"), "the original is in the log"
            assert (await chat.get("context"))["request"] == worker.last
            usage = chat.of("context_usage")[-1]["data"]
            assert usage["limit"] == WINDOW and usage["tokens"] <= WINDOW


async def only_drop(model: Model, cut: Cut, pins: object, window: int, room: int, instructions: str | None) -> Summary:
    return Summary("[earlier messages]", "rules")


def dropping(built: Daemon) -> None:
    late = built.sessions.around.work.backends["loop"]  # type: ignore[attr-defined]  # the one worker there is
    assert isinstance(late, Late)
    late.loop.requests.summarize = only_drop


@pytest.mark.timeout(300)
async def test_a_loop_that_only_drops_old_messages_loses_them(tmp_path: Path) -> None:
    """The test above can fail: without pins and without a model's words the decision is gone."""
    worker = Worker(generic)
    async with ScriptedModel(worker) as model, palaver(tmp_path, config=config(model.url), change=dropping) as here:
        (here.workspace / "notes.txt").write_text("".join(f"room {n} has a relay of its own\n" for n in range(120)))
        async with here.chat(mode="auto") as chat:
            await talk(chat, 60)
            said = json.dumps(worker.last)
            assert DECISION not in said and OPEN not in said


async def test_one_result_that_is_larger_than_the_window_is_shortened_and_the_turn_goes_on(tmp_path: Path) -> None:
    """Also a long turn fits: its own older steps are compacted, and the request that it works on is not forgotten."""
    sizes: list[int] = []

    def respond(body: Json) -> Step:
        sizes.append(tokens(body))
        assert is_legal(plain(body)) is None
        if is_summary(body):
            return text("Read the same file again and again.")
        assert "Find the relay of room 77" in json.dumps(body)
        return calls(("read_file", {"path": "huge.txt"})) if len(sizes) < 25 else text("done")

    async with ScriptedModel(respond) as model, palaver(tmp_path, config=config(model.url) + "same_call = 1000\n") as here:
        (here.workspace / "huge.txt").write_text("word \U0001f600 {x}\n" * 30_000)
        async with here.chat() as chat:
            assert (await chat.runs("Find the relay of room 77, and nothing else."))["outcome"] == "completed"
            assert max(sizes) <= WINDOW - WINDOW // 8
            assert chat.of("context_usage")[-1]["data"]["compressed"] is True


@pytest.mark.parametrize("message", ["This model's maximum context length is 6000 tokens, you sent 9000.", "prompt is too long"])
async def test_a_request_that_was_too_long_is_compacted_and_tried_once_more(tmp_path: Path, message: str) -> None:
    """Where nobody said how large the window is, the service's refusal says it."""
    limit, refused = 6_000, 0

    def respond(body: Json) -> Step:
        nonlocal refused
        if tokens(body) > limit:
            refused += 1
            return status(400, message=message)
        return text("ok " * 900) if not is_summary(body) else text("They went on.")

    async with ScriptedModel(respond) as model, palaver(tmp_path, config=config(model.url, None)) as here, here.chat() as chat:
        for turn in range(12):
            assert (await chat.runs(f"Go on, {turn}."))["outcome"] == "completed"
        assert refused >= 1
        assert chat.of("context_compacted")[0]["data"]["cause"] == "overflow"
        first = chat.of("context_usage")
        assert first[0]["data"]["limit"] is None and first[-1]["data"]["limit"] is not None


async def test_a_request_that_stays_too_long_fails_the_turn(tmp_path: Path) -> None:
    script: Sequence[Step] = [status(400, message="maximum context length is 4096 tokens")] * 9
    async with ScriptedModel(script) as model, palaver(tmp_path, config=config(model.url, None)) as here, here.chat() as chat:
        ended = await chat.runs("hello")
        assert (ended["outcome"], ended["error"]["code"]) == ("failed", "context_overflow")
        assert len(model.requests) <= 3
