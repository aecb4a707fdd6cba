"""What a token that may not approve can have done: only in folders that are known, and never unasked (SECURITY 3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from palaver_daemon import Chat, Client, Here, Json, check_ended, palaver, texts

pytestmark = pytest.mark.anyio

TOUCH = "run the command `touch made`"
HELD = "run the command `until [ -e go ]; do sleep 0.02; done`"
"""In mode `auto` a turn that goes on when the test says so."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with palaver(tmp_path) as here:
        yield here


async def guest_of(here: Here) -> Client:
    return Client(here.port, await here.mint("prompt"), here.folder)


def as_guest(chat: Chat, guest: Client) -> Chat:
    """The same session, and the same watcher, in other hands."""
    return Chat(guest, chat.id, chat.reader)


# --- folders --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [False, True], ids=["never used", "used by a token that may approve"])
async def test_a_narrow_token_works_in_no_folder_that_holds_private_ones(here: Here, used: bool) -> None:
    """SECURITY 3: `/`, `~`, the data folder and what is in it, whoever works there besides."""
    for folder in ("/", "~", str(here.data), str(here.data / "sessions"), str(here.folder / "settings")):
        if used:
            await here.new_session(workspace_path=folder)
        refused = await here.answer("POST", "/v1/sessions", {"workspace_path": folder}, token=await here.mint("prompt"))
        assert (refused.status, refused.code, refused.json["needed"]) == (403, "scope", "approve"), folder


async def test_a_narrow_token_works_where_one_that_may_approve_has_worked_and_nowhere_else(here: Here) -> None:
    """SECURITY 3: an unknown folder is 403 whether or not it is there, by a link too; a known one is known after a restart."""
    guest = await guest_of(here)
    unknown = here.folder / "unknown"
    unknown.mkdir()
    (here.workspace / "inside").mkdir()
    (here.workspace / "link").symlink_to(unknown)
    for known in (False, True):
        if known:
            await here.new_session()
        for folder in (unknown, here.workspace / "inside", here.workspace / "link", here.folder / "none"):
            refused = await guest.answer("POST", "/v1/sessions", {"workspace_path": str(folder)})
            assert (refused.status, refused.code) == (403, "scope"), folder
        answer = await guest.answer("POST", "/v1/sessions", {"workspace_path": str(here.workspace)})
        assert answer.status == (201 if known else 403)
    assert (await guest.answer("GET", f"/v1/workspace/tree?path={unknown}")).status == 403


async def test_a_folder_stays_known_after_a_restart(tmp_path: Path) -> None:
    """SECURITY 3."""
    async with palaver(tmp_path) as here:
        await here.new_session()
    async with palaver(tmp_path) as here:
        assert await (await guest_of(here)).new_session()


# --- turns ----------------------------------------------------------------------------------------------------------------------


async def by_message(owner: Chat, guest: Chat) -> str:
    return str((await guest.say(TOUCH))["turn_id"])


async def by_interrupt(owner: Chat, guest: Chat) -> str:
    held = await _held(owner)
    sent = await guest.say(TOUCH, delivery="interrupt")
    assert (await owner.ended(held))["outcome"] == "cancelled"
    return str(sent["turn_id"])


async def by_queue(owner: Chat, guest: Chat) -> str:
    await _held(owner)
    sent = await guest.say(TOUCH, delivery="queue")
    _go(owner)
    return str(sent["turn_id"])


async def by_steer(owner: Chat, guest: Chat) -> str:
    held = await _held(owner)
    assert (await guest.say(TOUCH, delivery="steer"))["delivered"] == "steered"
    _go(owner)
    return held


async def by_edit(owner: Chat, guest: Chat) -> str:
    await _held(owner)
    queued = await owner.say("write 2 words", delivery="queue")
    body = {"parts": [{"type": "text", "text": TOUCH}]}
    await guest.client.ask("PATCH", f"{guest.path}/queue/{queued['item_id']}", body)
    _go(owner)
    return str(queued["turn_id"])


async def by_move(owner: Chat, guest: Chat) -> str:
    await _held(owner)
    await owner.say("write 2 words", delivery="queue")
    queued = await owner.say(TOUCH, delivery="queue")
    first = (await guest.get("queue"))["items"][0]["id"]
    await guest.client.ask("PATCH", f"{guest.path}/queue/{queued['item_id']}", {"before": first})
    _go(owner)
    return str(queued["turn_id"])


async def by_promotion(owner: Chat, guest: Chat) -> str:
    held = await _held(owner)
    queued = await owner.say(TOUCH, delivery="queue")
    assert (await guest.post(f"queue/{queued['item_id']}/promote"))["delivered"] == "steered"
    _go(owner)
    return held


async def by_retry(owner: Chat, guest: Chat) -> str:
    sent = await owner.say(f"{TOUCH} then fail")
    assert (await owner.ended(sent["turn_id"]))["outcome"] == "failed"
    (owner.client.workspace / "made").unlink()
    return str((await guest.post(f"turns/{sent['turn_id']}/retry"))["turn_id"])


async def by_a_stored_message(owner: Chat, guest: Chat) -> str:
    """The turn is the owner's, and what it holds is not only the owner's."""
    assert (await guest.say("do as you are told", auto_run=False))["delivered"] == "stored"
    return str((await owner.say(TOUCH))["turn_id"])


async def _held(owner: Chat) -> str:
    (owner.client.workspace / "go").unlink(missing_ok=True)
    held = str((await owner.say(HELD))["turn_id"])
    await owner.reader.until(lambda: "tool_call_running" in owner.turn(held))
    return held


def _go(owner: Chat) -> None:
    (owner.client.workspace / "go").touch()


WAYS = [by_message, by_interrupt, by_queue, by_steer, by_edit, by_move, by_promotion, by_retry, by_a_stored_message]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("restart", [False, True], ids=["", "after a restart"])
async def test_a_turn_that_a_narrow_token_had_a_hand_in_does_nothing_unasked(
    tmp_path: Path, way: Callable[[Chat, Chat], Awaitable[str]], restart: bool
) -> None:
    """SECURITY 3: in a session of mode `auto` an approval opens instead; the next turn of the owner alone runs without asking."""
    made = tmp_path / "work" / "made"
    async with palaver(tmp_path) as here, here.chat(mode="auto") as chat:
        guest = await guest_of(here)
        turn = await way(chat, as_guest(chat, guest))
        [ask] = await chat.asks()
        assert (ask["turn_id"], ask["data"]["preview"]["command"]) == (turn, "touch made")
        for path, body in ((f"/v1/approvals/{ask['id']}", {"action": "approve"}), (f"{chat.path}/mode", {"id": "edit"})):
            refused = await guest.answer("POST", path, body)
            assert (refused.status, refused.code) == (403, "scope"), path
        assert not made.exists()
        if not restart:
            await _goes_on(chat, turn, ask, made)
    if restart:
        async with palaver(tmp_path) as here, here.chat(chat.id) as chat:
            await chat.happens("turn_parked")
            await _goes_on(chat, turn, ask, made)


async def _goes_on(chat: Chat, turn: str, ask: Json, made: Path) -> None:
    """Denied, the command never ran; then the owner's own turn, after whatever still waits."""
    await chat.client.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "deny"})
    await chat.ended(turn)
    await chat.idle()
    assert not made.exists()
    await chat.runs(TOUCH)
    assert made.exists() and len(chat.of("approval_requested")) == 1
    check_ended(await chat.check())


@pytest.mark.parametrize("mode", ["edit", "auto"])
async def test_a_narrow_message_changes_no_file_unasked(tmp_path: Path, mode: str) -> None:
    """SECURITY 3: at most the mode `ask`, whatever the session's; also where the settings make `auto` the default."""
    async with palaver(tmp_path, config=f'[defaults]\nmode = "{mode}"\n') as here:
        await here.new_session()
        guest = await guest_of(here)
        async with guest.chat() as chat:
            assert (await chat.get())["mode"] == mode
            turn = (await chat.say('write the file made with "x"'))["turn_id"]
            [ask] = await chat.asks()
            assert "+x" in ask["data"]["preview"]["diff"] and not (here.workspace / "made").exists()
            await here.ask("POST", f"/v1/approvals/{ask['id']}", {"action": "approve"})
            await chat.ended(turn)
            assert (here.workspace / "made").read_text() == "x\n"


async def test_a_narrow_message_in_mode_auto_reads_inside_the_workspace_only(here: Here) -> None:
    """SECURITY 3: nothing is asked for what is inside, and nothing outside is read."""
    (here.workspace / "notes.txt").write_text("remember the milk\n")
    (here.folder / "outside.txt").write_text("outside-planted\n")
    (here.workspace / "link.txt").symlink_to(here.folder / "outside.txt")
    async with here.chat(mode="auto") as chat:
        guest = as_guest(chat, await guest_of(here))
        await guest.runs("read the file notes.txt")
        for path in (
            "../outside.txt",
            str(here.folder / "outside.txt"),
            "link.txt",
            str(here.data / "token"),
            "../data/token",
            "/etc/passwd",
        ):
            await guest.runs(f"read the file {path}")
        results = [one["data"]["tool_result"] for one in chat.of("tool_call_completed")]
        assert [result["ok"] for result in results] == [True, *[False] * 6]
        assert {result["error"]["code"] for result in results[1:]} <= {"tool_error", "tool_denied"}
        assert chat.of("approval_requested") == [] and "milk" in texts(results[0])
        log = b"".join(here.lines(chat.id))
        assert b"outside-planted" not in log and (here.token or "").encode() not in log and b"root:" not in log
