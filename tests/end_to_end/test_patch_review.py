"""`[patch_review] mode = "request"`: in every mode a person looks at a patch before it is applied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palaver_daemon import Chat, Json, check_ended, palaver

pytestmark = pytest.mark.anyio
CONFIG = '[patch_review]\nmode = "request"\n'
EDITED = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+eins\n*** End Patch\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Chat]:
    async with palaver(tmp_path, config=CONFIG) as here, here.chat(mode="auto") as chat:
        (here.workspace / "a.txt").write_text("one\ntwo\n")
        yield chat


async def held(chat: Chat) -> tuple[str, Json]:
    """The turn whose patch waits, and the inbox's item; nothing is changed yet."""
    turn = (await chat.say('change "one" to "uno" in a.txt'))["turn_id"]
    [ask] = await chat.asks()
    assert (ask["kind"], ask["data"]["subject"], ask["data"]["kind"]) == ("review", "review", "write")
    assert "-one\n+uno" in ask["data"]["preview"]["diff"] and ask["data"]["preview"]["paths"] == ["a.txt"]
    assert (chat.client.workspace / "a.txt").read_text() == "one\ntwo\n"
    return turn, ask


async def ends_with(chat: Chat, turn: str, content: str) -> None:
    assert (await chat.ended(turn))["outcome"] == "completed"
    assert (chat.client.workspace / "a.txt").read_text() == content
    assert len(chat.of("approval_requested")) == 1, "one ask for one call"
    check_ended(await chat.check())


async def test_a_reviewed_patch_is_applied_once_it_is_approved(chat: Chat) -> None:
    """S4-07, S4-67: in mode `auto` too."""
    turn, ask = await held(chat)
    await chat.client.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
    await ends_with(chat, turn, "uno\ntwo\n")


async def test_a_reviewed_patch_that_is_denied_changes_nothing(chat: Chat) -> None:
    """S4-07, S4-67: the model hears why."""
    turn, ask = await held(chat)
    await chat.client.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "deny", "reason": "in German, please"})
    await ends_with(chat, turn, "one\ntwo\n")
    result = chat.result(ask["data"]["tool_call"]["id"])
    assert result["error"]["code"] == "tool_denied" and "in German, please" in result["error"]["message"]


async def test_a_patch_that_the_reviewer_edited_is_applied_as_edited(chat: Chat) -> None:
    """S4-67, API: `input {"patch": …}`. One that does not apply leaves the review open."""
    turn, ask = await held(chat)
    path = f"/v1/approvals/{ask['id']}"
    wrong = EDITED.replace("-one", "-three")
    refused = await chat.refused("POST", path, {"action": "approve", "input": {"patch": wrong}})
    assert refused.status == 422 and chat.open_asks() == [ask["id"]]
    await chat.client.ask("POST", path, {"action": "approve", "input": {"patch": EDITED}})
    await ends_with(chat, turn, "eins\ntwo\n")
    assert chat.of("approval_granted")[0]["data"]["input"] == {"patch": EDITED}


async def test_a_review_asks_about_patches_only(chat: Chat) -> None:
    """S4-67: what the mode allows besides runs unasked."""
    await chat.runs("run the command `echo three > b.txt` then read the file b.txt")
    assert chat.of("approval_requested") == [] and (chat.client.workspace / "b.txt").read_text() == "three\n"
