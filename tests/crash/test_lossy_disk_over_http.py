"""The power goes while clients follow over SSE; they come back to the next daemon from where they were (promises 1 and 4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from engines import WITHIN, Engine, built

from disks import LossyDisk
from palaver.errors import DiskFailed
from palaver_daemon import Chat, Client, Json, Reader, check_log, fold, page_of
from serving import serving

LOSSES = 10
"""Over one conversation, evenly."""


@asynccontextmanager
async def served(one: Engine, folder: Path) -> AsyncIterator[Client]:
    one.daemon.sessions.start()
    async with serving(one.data, one.daemon.hub) as daemon:
        yield Client(daemon.port, daemon.token, folder)


class Followers:
    """Three that watch one session: two from its beginning, with and without the tail, one that joined in its middle."""

    def __init__(self, client: Client, session_id: str) -> None:
        self.client, self.session_id = client, session_id
        self.readers: list[Reader] = []

    async def join(self, stack: AsyncExitStack, *, tail: bool) -> Reader:
        reader = await stack.enter_async_context(self.client.reader(self.session_id, tail=tail))
        self.readers.append(reader)
        return reader


async def converse(chat: Chat, followers: Followers, stack: AsyncExitStack, acknowledged: list[str]) -> None:
    """Text, a tool, an approval, a question, a queue and a cancel. Raises `DiskFailed` at the first 507."""

    async def post(path: str, body: Json) -> Any:
        answer = await chat.client.answer("POST", path, body)
        if answer.status == 507:
            raise DiskFailed(answer.json["detail"])
        assert answer.status < 300, answer
        return answer.json

    async def say(text: str, **more: Any) -> str:
        body = {"role": "user", "parts": [{"type": "text", "text": text}], **more}
        sent = await post(f"{chat.path}/messages", body)
        acknowledged.append(sent["message_id"])
        return str(sent["turn_id"])

    turn = await say("think about rivers then write 400 words then run the command `seq 1 200` then ask me which with red or blue")
    await chat.reader.until(lambda: chat.of("approval_requested"))
    await followers.join(stack, tail=True)
    await post(f"/v1/approvals/{chat.open_asks()[0]}", {"action": "approve"})
    await chat.reader.until(lambda: chat.of("question_asked"))
    await post(f"/v1/questions/{chat.open_asks()[0]}", {"answers": {"choice": {"selected": ["red"]}}})
    await chat.ended(turn)
    turn = await say("write 200 words then wait 600 seconds")
    await chat.reader.until(lambda: [one for one in chat.of("model_output_delta") if one["turn_id"] == turn])
    await say("write 20 words", delivery="queue")
    await post(f"{chat.path}/cancel", {})
    await chat.ended(turn)


async def watch_until_lost(folder: Path, lose_at: int | None) -> tuple[Followers, list[str], range]:
    """One conversation on a disk that loses power; the daemon is dropped as it stands. Also gives the numbers of its changes."""
    disk = LossyDisk(folder / "graveyard")
    one = built(folder, disk)
    acknowledged: list[str] = []
    async with served(one, folder) as client:
        session_id = await client.new_session(workspace_path=str(one.workspace), agent="demo")
        followers = Followers(client, session_id)
        async with AsyncExitStack() as stack:
            chat = Chat(client, session_id, await followers.join(stack, tail=False))
            await followers.join(stack, tail=True)
            first = disk.changes + 1
            disk.goes_at(None if lose_at is None else first + lose_at)
            talking = asyncio.ensure_future(converse(chat, followers, stack, acknowledged))
            async with asyncio.timeout(WITHIN):
                while not (talking.done() or disk.lost):
                    await asyncio.wait([talking], timeout=0.02)
            if not talking.done():
                talking.cancel()
            with suppress(DiskFailed, asyncio.CancelledError):
                await talking
    await drop(one, disk)
    return followers, acknowledged, range(disk.changes + 1 - first)


async def drop(one: Engine, disk: LossyDisk) -> None:
    """As it stands: nothing of it writes any more."""
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()
    disk.lose()
    await one.daemon.log.shut()


async def come_back(folder: Path, followers: Followers, acknowledged: list[str]) -> None:
    """The next daemon, on a good disk and what the loss has left of the files: each goes on from its cursor."""
    one = built(folder)
    try:
        async with served(one, folder) as client, AsyncExitStack() as stack:
            chat = Chat(client, followers.session_id, await stack.enter_async_context(client.reader(followers.session_id)))
            await one.daemon.sessions.recovered()
            await one.until(followers.session_id, lambda state: state.turn is None or state.only_waits)
            log = await chat.log()
            check_log(log)
            told = await chat.transcript()
            assert told == page_of(fold(log))
            assert {one["data"]["message"]["id"] for one in log if one["type"] == "message_added"} >= set(acknowledged) - queued(log)
            for before in followers.readers:
                assert before.events == log[: len(before.events)], "it was shown what is gone"
                options = {"after": before.after, "tail": before.tail, "transcript": before.transcript}
                again = await stack.enter_async_context(client.reader(before.session_id, **options))
                await again.reached(len(log))
                assert before.events + again.events == log
                assert again.page() == told and again.transcript.tails == {}
                assert again.controls[0].data["data"]["epoch"] == before.controls[0].data["data"]["epoch"]
    finally:
        await one.daemon.close()


def queued(log: list[Json]) -> set[str]:
    """Messages that wait for their turn."""
    changes = [one["data"]["items"] for one in log if one["type"] == "queue_changed"]
    return {item["message_id"] for item in changes[-1]} if changes else set()


def one_loss(folder: Path, lose_at: int | None) -> int:
    folder.mkdir()
    followers, acknowledged, changes = asyncio.run(watch_until_lost(folder, lose_at))
    asyncio.run(come_back(folder, followers, acknowledged))
    return len(changes)


@pytest.mark.timeout(120)
def test_who_followed_until_the_power_went_and_resumes_over_sse_has_the_fold_of_the_log(tmp_path: Path) -> None:
    """Promises 1 and 4, T-01: with the tail and without, wherever the power goes; nothing shown is gone, nothing comes twice."""
    changes = one_loss(tmp_path / "whole", None)
    assert changes > 2 * LOSSES
    for lose_at in range(0, changes, changes // LOSSES):
        one_loss(tmp_path / str(lose_at), lose_at)
