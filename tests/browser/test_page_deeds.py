"""Everything else that can be done on the page, by clicks and keys, checked in the daemon's log or answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_world import PageWorld, page_world
from person import Person

TEXTS = "[...document.querySelectorAll('[role=log] .say, [role=log] .prose')].map((one) => one.textContent)"
OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder = tmp_path_factory.mktemp("page")
    with page_world(folder) as world:
        (folder / "work" / "notes.txt").write_text("one\ntwo\nthree\n")
        (folder / "work" / "a b.txt").write_text("blank\n")
        yield world


async def armed(one: Person) -> None:
    await one.finds(".cardx.waiting")
    began = await one.tab.run("performance.now()")
    await one.sees(f"performance.now() > {began} + 650")


def test_the_palette_finds_sessions_and_runs_commands(world: PageWorld) -> None:
    """UI 6: Ctrl+K; what waits first, then this session, then sessions."""

    async def run() -> None:
        other = await world.daemon.new_session(title="Zebra crossing")
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.finds("#composer")
            await ann.presses("Control+K")
            await ann.finds("dialog[open] [role=combobox]")
            await ann.types("zebra")
            await ann.presses("Enter")
            await ann.sees(f"location.pathname === '/s/{other}'")
            await ann.reads("Zebra crossing", ".top h1")

    world.run(run())


def test_slash_commands_are_completed_and_run(world: PageWorld) -> None:
    """Item 3: ours at least /model /mode /agent /new /fork /compact /undo /export /help; a completed one is done, not sent."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.types("/", into="#composer")
            await ann.finds("[role=listbox] [role=option]")
            names = await ann.tab.run("[...document.querySelectorAll('.offers [role=option] b')].map((one) => one.textContent)")
            assert {"/model", "/mode", "/agent", "/new", "/fork", "/compact", "/undo", "/export", "/help"} <= set(names)
            await ann.types("mode ")
            await ann.sees("[...document.querySelectorAll('.offers b')].some((one) => one.textContent === 'plan')")
            await ann.types("plan")
            await ann.presses("Enter")
            await ann.reads("Plan only", ".box")
            assert (await chat.get())["mode"] == "plan"
            await ann.types("/help", into="#composer")
            await ann.presses("Enter")
            await ann.reads("Keys and commands", "dialog")
            await ann.presses("Escape")
            assert not chat.of("message_added")

    world.run(run())


def test_a_file_is_named_after_an_at_sign(world: PageWorld) -> None:
    """CLIENTS 3: `@path` stays text, with quotes where the name has a blank."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.types("look at @not", into="#composer")
            await ann.sees("document.querySelector('.offers b')?.textContent === 'notes.txt'")
            await ann.presses("Tab")
            await ann.sees("document.querySelector('#composer').value === 'look at @notes.txt '")
            await ann.types("@a")
            await ann.sees("[...document.querySelectorAll('.offers b')].some((one) => one.textContent === 'a b.txt')")

    world.run(run())


def test_a_long_paste_becomes_a_file_and_goes_along(world: PageWorld) -> None:
    """Item 3: over 4 KiB."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.clicks("#composer")
            await ann.pastes("short ")
            await ann.sees("document.querySelector('#composer').value === 'short '")
            await ann.pastes("long " * 1000)
            await ann.finds(".attached .chip .icon-btn")
            await ann.reads("pasted.txt", ".attached")
            await ann.presses("Enter")
            added = await chat.happens("message_added")
            parts = added["data"]["message"]["parts"]
            assert [part["type"] for part in parts] == ["text", "file"]
            answer = await world.daemon.answer("GET", f"/v1/sessions/{chat.id}/{parts[1]['ref']}")
            assert answer.body == b"long " * 1000
            await ann.finds(".turn.user .paper")

    world.run(run())


def test_the_queue_is_edited_moved_and_emptied(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("wait 60 seconds")
            await ann.finds(".typing")
            for text in ("first", "second", "third"):
                await chat.say(text, delivery="queue")
            await ann.sees("document.querySelectorAll('.queue [data-item]').length === 3")
            await ann.clicks("=Move queued message 3 up")
            await ann.sees("[...document.querySelectorAll('.queue .q')].map((one) => one.innerText).join() === 'first,third,second'")
            await ann.clicks("=Edit queued message 1")
            await ann.finds(".queue textarea")
            await ann.types(" of all", into=".queue textarea")
            await ann.presses("Enter")
            await ann.sees("document.querySelector('.queue .q')?.innerText.includes('of all')")
            await ann.clicks("=Remove queued message 2")
            await ann.sees("document.querySelectorAll('.queue [data-item]').length === 2")
            items = (await chat.get("queue"))["items"]
            assert [item["message"]["parts"][0]["text"].replace(" of all", "") for item in items] == ["first", "second"]
            await chat.post("cancel", {"keep_queue": False})

    world.run(run())


def test_all_calls_of_one_tool_are_allowed_at_once_when_each_was_seen(world: PageWorld) -> None:
    """Item 3: "allow all N" of one tool, one batch."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await chat.say("run the command `echo one` then run the command `echo two`")
            await armed(ann)
            if await ann.tab.run("document.querySelectorAll('.cardx.waiting').length") > 1:
                await ann.clicks("=Allow all 2")
                await chat.happens("approval_granted", 2)

    world.run(run())


def test_a_session_is_renamed_archived_and_deleted_with_a_way_back(world: PageWorld) -> None:
    async def run() -> None:
        session = await world.daemon.new_session(title="Old name")
        async with world.person(f"/s/{session}") as ann:
            await ann.reads("Old name", ".top h1")
            await ann.clicks("=More about this session")
            await ann.clicks("=Rename…")
            await ann.finds("dialog[open] input[name=title]")
            await ann.tab.run("document.querySelector('input[name=title]').select()")
            await ann.types("New name")
            await ann.presses("Enter")
            await ann.reads("New name", ".top h1")
            await ann.clicks("=More about this session")
            await ann.clicks("=Archive")
            await ann.misses(f"[data-session={session}]")
            assert (await world.daemon.ask("GET", f"/v1/sessions/{session}"))["archived"] is True
            await ann.clicks("=Undo")
            await ann.finds(f"[data-session={session}]")
            await ann.clicks("=More about this session")
            await ann.clicks("=Delete")
            await ann.misses(f"[data-session={session}]")
            assert (await world.daemon.answer("GET", f"/v1/sessions/{session}")).status == 200
            await ann.clicks("=Undo")
            await ann.finds(f"[data-session={session}]")
            await ann.clicks("=More about this session")
            await ann.clicks("=Delete")
            await ann.misses(f"[data-session={session}]")
            await ann.tab.run("window.dispatchEvent(new Event('pagehide'))")
            await ann.sees(f"fetch('/v1/sessions/{session}', {{ headers: {{}} }}) && true")

    world.run(run())


def test_an_earlier_message_is_edited_in_a_copy(world: PageWorld) -> None:
    """Item 3: a fork before it, with its words in the composer."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("write 4 words")
            await ann.finds(".end[data-outcome=completed]")
            await ann.says("write 6 words")
            await ann.sees("document.querySelectorAll('.end[data-outcome=completed]').length === 2")
            await ann.tab.run("[...document.querySelectorAll('[aria-label^=\"Edit and send\"]')].at(-1).click()")
            await ann.sees(f"location.pathname !== '/s/{chat.id}'")
            await ann.sees("document.querySelector('#composer')?.value === 'write 6 words'")
            await ann.sees("document.querySelectorAll('.turn.user').length === 1")
            copy = (await ann.tab.run("location.pathname")).removeprefix("/s/")
            assert (await world.daemon.ask("GET", f"/v1/sessions/{copy}"))["forked_from"]["session_id"] == chat.id

    world.run(run())


def test_a_failed_turn_is_tried_again(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("fail")
            await ann.finds(".turn-failed")
            await ann.clicks("=Try again")
            started = await chat.happens("turn_started", 2)
            assert started["data"]["trigger"] == "retry"

    world.run(run())


def test_a_turns_changes_open_and_are_taken_back_and_done_again(world: PageWorld) -> None:
    """Change report, diff view, undo and redo; the file on the disk follows."""

    async def run() -> None:
        note = world.daemon.workspace / "notes.txt"
        async with world.daemon.chat(mode="auto") as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says('change "two" to "2" in notes.txt')
            await ann.finds(".changes .file")
            await ann.clicks(".changes .file summary")
            await ann.reads("two", ".changes .diff")
            await ann.clicks(".changes header .btn")
            await ann.clicks("=Take it back")
            await chat.happens("turn_undone")
            await ann.finds(".changes[data-undone]")
            assert note.read_text() == "one\ntwo\nthree\n"
            await ann.clicks(".changes header .btn")
            await ann.clicks("=Do it again")
            await chat.happens("turn_undone", 2)
            assert note.read_text() == "one\n2\nthree\n"
            await ann.clicks("=Review it")
            await ann.reads("notes.txt", "dialog")

    world.run(run())


def test_what_was_said_is_found_and_gone_to(world: PageWorld) -> None:
    """Item 3: Ctrl+F searches; a hit leads to its message."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("think about xylophones")
            await ann.finds(".end[data-outcome=completed]")
            await ann.presses("Control+F")
            await ann.finds("dialog[open] input[type=search]")
            await ann.types("xylophones")
            await ann.finds(".hits button")
            await ann.reads("xylophones", ".hits mark")
            await ann.clicks(".hits button")
            await ann.misses("dialog[open]")

    world.run(run())


def test_theme_and_settings_are_kept(world: PageWorld) -> None:
    async def run() -> None:
        async with world.person() as ann:
            await ann.in_theme("light")
            await ann.clicks("=Switch theme")
            await ann.sees("getComputedStyle(document.body).backgroundColor === 'rgb(19, 20, 23)'")
            await ann.reloads()
            await ann.sees("getComputedStyle(document.body).backgroundColor === 'rgb(19, 20, 23)'")
            await ann.clicks("=Settings")
            await ann.reads("The daemon", "dialog")
            await ann.reads("limits.steps", "dialog")

    world.run(run())


def test_news_are_marked_and_the_title_counts_who_needs_somebody(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person() as ann:
            await chat.say("run the command `echo hello`")
            await ann.finds(f"section[aria-label='Needs you'] [data-session={chat.id}]")
            await ann.sees("/^\\(\\d+\\) /.test(document.title)")
            await ann.reads("Approve a call", f"[data-session={chat.id}]")

    world.run(run())


def test_an_export_opens_from_a_file_and_shows_the_same(world: PageWorld, tmp_path: Path) -> None:
    """CLIENTS 3: one file, no network, the same rows; JSON with every event."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("think about it then read the file notes.txt")
            await ann.finds(".end[data-outcome=completed]")
            html = (await world.daemon.answer("GET", f"/v1/sessions/{chat.id}/export?format=html")).body
            saved = tmp_path / "export.html"
            saved.write_bytes(html)
            shown = await ann.tab.run(TEXTS)
            async with world.browser.tab() as tab:
                await world.browser.call("Network.emulateNetworkConditions", tab.session, **OFFLINE)
                assert not await tab.open(saved.as_uri())
                bob = Person(tab, world.daemon)
                await bob.finds(".exported .end[data-outcome=completed]")
                assert await tab.run(TEXTS) == shown
                assert bob.complaints() == []
            document = (await world.daemon.answer("GET", f"/v1/sessions/{chat.id}/export?format=json")).json
            assert [event["seq"] for event in document["events"]] == [event["seq"] for event in await chat.log()]
            assert json.dumps(document["format"]) == "1"

    world.run(run())


def test_interrupt_stops_the_turn_and_goes_first(world: PageWorld) -> None:
    """UI 6, Composer: the switch says what Enter does while the agent works."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("wait 60 seconds")
            await ann.finds(".typing")
            await ann.clicks("=Interrupt")
            await ann.says("write 3 words")
            end = await chat.happens("turn_completed")
            assert (end["data"]["outcome"], end["data"]["cause"]) == ("cancelled", "superseded")
            await ann.reads("by your next message")
            await ann.finds(".end[data-outcome=completed]")

    world.run(run())


def test_a_turn_is_copied_as_markdown(world: PageWorld) -> None:
    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.says("write 3 words")
            await ann.finds(".end[data-outcome=completed]")
            await ann.tab.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
            await ann.clicks("=Copy this turn as Markdown")
            said = await ann.sees("window.copied")
            assert said.startswith("> write 3 words\n\n") and "the daemon keeps" in said

    world.run(run())
