"""The page against the real daemon: signing in, a session, a turn, its approvals and questions, the queue, stopping."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from page_world import PageWorld, page_world
from person import PHONE, Person

from palaver_daemon import Chat

SETTLED = "!document.querySelector('.typing')"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder = tmp_path_factory.mktemp("page")
    with page_world(folder) as world:
        (folder / "work" / "notes.txt").write_text("one\ntwo\nthree\n")
        yield world


async def armed(one: Person) -> None:
    """The card has been there, whole and in view, for as long as it needs."""
    await one.finds(".cardx.waiting")
    began = await one.tab.run("performance.now()")
    await one.sees(f"performance.now() > {began} + 650")


def test_a_link_signs_in_and_leaves_no_code_behind(world: PageWorld) -> None:
    """SECURITY 5: the code is gone from the address before anything else; the token stays, through a reload, until signing out ends it."""

    async def run() -> None:
        async with world.person() as ann:
            assert await ann.tab.run("location.href") == f"http://127.0.0.1:{world.daemon.port}/"
            kept = await ann.tab.run("JSON.parse(localStorage['palaver:token']).token")
            assert (await world.daemon.answer("GET", "/v1/sessions", token=kept)).status == 200
            await ann.reloads()
            await ann.finds(".foot .dot.ok")
            await ann.presses("Control+K")
            await ann.types("sign out")
            await ann.presses("Enter")
            await ann.reads("palaver open")
            assert (await world.daemon.answer("GET", "/v1/sessions", token=kept)).status == 401
            assert ann.complaints() == []

    world.run(run())


def test_without_a_token_the_page_says_how_to_get_one(world: PageWorld) -> None:
    """API "Doors": `/` without a token shows the `palaver open` line; a used code says so."""

    async def run() -> None:
        code = (await world.daemon.ask("POST", "/v1/codes", {"scope": "read"}))["code"]
        await world.daemon.ask("POST", "/v1/login", {"code": code}, token=None)
        async with world.browser.tab() as tab:
            ann = Person(tab, world.daemon)
            await ann.goes(f"/#code={code}")
            await ann.reads("palaver open")
            await ann.finds("[role=alert]")
            assert tab.policy_reports() == []

    world.run(run())


def test_a_session_is_begun_and_answers(world: PageWorld) -> None:
    """By clicks and keys alone; the log has what the page shows."""

    async def run() -> None:
        async with world.person() as ann:
            await ann.clicks("=New session")
            await ann.finds("dialog[open] input[name=workspace]")
            await ann.tab.run("document.querySelector('input[name=workspace]').select()")
            await ann.types(str(world.daemon.workspace), into="input[name=workspace]")
            await ann.clicks("=Begin")
            await ann.finds("#composer")
            await ann.says("think about the weather then read the file notes.txt")
            await ann.finds(".turn.user .say")
            await ann.finds(".tool.success[data-state=success]")
            await ann.finds(".end[data-outcome=completed]")
            session = (await ann.tab.run("location.pathname")).removeprefix("/s/")
            async with world.daemon.chat(session) as chat:
                types = [event["type"] for event in await chat.log()]
            assert types.count("turn_completed") == 1
            assert await ann.tab.run("document.querySelector('[role=log]').ariaLive") == "off"
            assert "Message" in await ann.tab.run("document.querySelector('#composer').labels[0].textContent")
            assert ann.complaints() == []

    world.run(run())


async def waits(world: PageWorld, chat: Chat, said: str = "run the command `echo hello`") -> str:
    await chat.say(said)
    return str((await chat.asks())[0]["id"])


def test_an_approval_is_answered_on_its_card_and_becomes_a_record(world: PageWorld) -> None:
    """UI 6: the exact command, one click, one line of record in the place of the card; the log names the approval."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            ask = await waits(world, chat)
            await armed(ann)
            await ann.reads("echo hello", ".approve .cmd")
            await ann.clicks("=Allow once")
            granted = await chat.happens("approval_granted")
            assert (granted["data"]["approval_id"], granted["data"]["scope"]) == (ask, "once")
            await ann.finds(".tool.success")
            await ann.clicks(".tool.success summary")
            await ann.reads("Allowed once by you", ".tool.success .record")
            assert ann.complaints() == []

    world.run(run())


def test_a_denial_takes_its_note_to_the_model(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await waits(world, chat)
            await armed(ann)
            await ann.clicks("=Deny with a note…")
            await ann.types("use the other folder", into=".note-form textarea")
            await ann.presses("Enter")
            denied = await chat.happens("approval_denied")
            assert denied["data"]["reason"] == "use the other folder"
            await ann.finds(".tool.error[data-state=error]")
            await ann.reads("denied", ".tool.error .tag")

    world.run(run())


def test_a_key_answers_the_marked_card(world: PageWorld) -> None:
    """SECURITY 20: Alt+Y means the card that was whole in view, wherever the focus is."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            ask = await waits(world, chat)
            await armed(ann)
            await ann.presses("Alt+Y")
            assert (await chat.happens("approval_granted"))["data"]["approval_id"] == ask

    world.run(run())


def test_a_question_is_answered_by_choosing(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await chat.say("ask me Which colour with red or blue")
            await armed(ann)
            await ann.clicks("input[value=blue]")
            await ann.clicks("=Send answer")
            answered = await chat.happens("question_answered")
            assert [one["selected"] for one in answered["data"]["answers"].values()] == [["blue"]]
            await ann.reads("blue", ".asked")
            await ann.reads("Answered by you", ".asked")

    world.run(run())


def test_messages_queue_steer_and_stop_while_the_agent_works(world: PageWorld) -> None:
    """UI 6, Composer: what Enter does is chosen beside it; Alt+Enter does the other; Stop stops, and the queue pauses."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("wait 60 seconds")
            await ann.finds(".typing")
            await ann.says("afterwards write 3 words")
            await chat.happens("queue_changed")
            await ann.finds(".queue [data-item]")
            await ann.types("and be brief", into="#composer")
            await ann.presses("Alt+Enter")
            await ann.reads("Will be read at the next step")
            await ann.clicks("=Stop the agent")
            end = await chat.happens("turn_completed")
            assert end["data"]["outcome"] == "cancelled"
            await ann.sees("document.querySelector('[role=log]').textContent.includes('⚠ Interrupted')")
            await ann.reads("Queue paused", ".paused")
            await ann.clicks("=Go on")
            await ann.finds(".end[data-outcome=completed]")
            assert ann.complaints() == []

    world.run(run())


def test_escape_twice_stops(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("wait 60 seconds")
            await ann.finds(".typing")
            await ann.presses("Escape")
            await ann.presses("Escape")
            assert (await chat.happens("turn_completed"))["data"]["cause"] == "user_cancel"

    world.run(run())


def test_two_windows_agree_and_the_late_answer_is_told(world: PageWorld) -> None:
    """UI 8, gate 5: what one window answers becomes a record in the other; a 390 px touch screen is one of them."""

    async def run() -> None:
        async with world.daemon.chat() as chat:
            path = f"/s/{chat.id}"
            async with world.person(path) as ann, world.person(path, size=PHONE, touch=True) as bob:
                ask = await waits(world, chat)
                await armed(ann)
                await armed(bob)
                await ann.clicks("=Allow once")
                await chat.happens("approval_granted", approval_id=ask)
                await bob.finds(".tool.success")
                await bob.misses(".cardx.waiting")
                late = await world.daemon.answer("POST", f"/v1/approvals/{ask}", {"action": "deny"})
                assert (late.status, late.json["code"]) == (409, "already_answered")
                await ann.sees(SETTLED)
                await bob.sees(SETTLED)
                assert await ann.transcript() == await bob.transcript()

    world.run(run())
