"""What a page shows survives: live equals reloaded, a lost connection heals, drafts stay, a page of the past is read-only."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from gallery import gallery, plant
from page_world import PageWorld, page_world
from person import PHONE

from palaver_daemon import Chat, palaver_process

GOLDEN = Path(__file__).parents[2] / "golden"
LOGS = sorted(path.parent.name for path in GOLDEN.glob("*/log.ndjson"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    folder = tmp_path_factory.mktemp("page")
    data = folder / "data"
    data.mkdir(mode=0o700)
    (folder / "work").mkdir(mode=0o700)
    plant(data, gallery(folder / "work"))
    for name in LOGS:
        place = data / "sessions" / f"sess_{name}"
        place.mkdir(mode=0o700)
        shutil.copy(GOLDEN / name / "log.ndjson", place / "events.ndjson")
        (place / "events.ndjson").chmod(0o600)
        (data / "open" / f"sess_{name}").touch(mode=0o600)
    with page_world(folder) as world:
        (folder / "work" / "notes.txt").write_text("one\ntwo\n")
        yield world


async def settled(chat: Chat) -> None:
    await chat.happens("turn_completed")


TALES = {
    "text and tools": ["think about it then read the file notes.txt then write 120 words"],
    "a stop in the text": ["write 4000 words"],
    "a stop in a tool": ["wait 60 seconds"],
    "a failure": ["fail"],
    "markdown": ['write the file a.md with "# T\\n- a\\n- b\\n\\n1. x\\n"'],
}


@pytest.mark.parametrize("tale", TALES)
def test_what_was_seen_live_is_what_a_reload_shows(world: PageWorld, tale: str) -> None:
    """UI 8, gate 1, and CLIENTS 5: the same rows, byte for byte, for somebody who watched and somebody who came later. S2-50 … S2-59."""

    async def run() -> None:
        async with world.daemon.chat(mode="auto") as chat, world.person(f"/s/{chat.id}") as ann:
            for said in TALES[tale]:
                await ann.says(said)
                if "stop" in tale:
                    await ann.finds(".prose.live" if "text" in tale else ".tool.pending, .typing")
                    await ann.clicks("=Stop the agent")
            await settled(chat)
            await ann.finds(".end[data-outcome]")
            await ann.misses(".typing")
            live = await ann.transcript()
            await ann.reloads()
            await ann.finds(".end[data-outcome]")
            assert (await ann.transcript()).splitlines() == live.splitlines()
            if "stop" in tale:
                assert "⚠" in live and "Interrupted" in live

    world.run(run())


@pytest.mark.parametrize("name", LOGS)
def test_every_golden_log_is_shown_without_a_complaint(world: PageWorld, name: str) -> None:
    """Every block that any event makes, those too that no backend writes yet; no row falls back to its raw form."""

    async def run() -> None:
        async with world.person(f"/s/sess_{name}") as ann:
            await ann.finds("[role=log] [data-id]")
            assert await ann.tab.run("document.querySelectorAll('.broken').length") == 0
            entries = (await world.daemon.ask("GET", f"/v1/sessions/sess_{name}/transcript?limit=1000"))["entries"]
            shown = await ann.tab.run("[...document.querySelectorAll('[role=log] [data-id]')].map((row) => row.dataset.id)")
            assert [entry["message"]["id"] for entry in entries if entry["message"]] == [id for id in shown if id.startswith("msg_")]
            assert [one for one in ann.complaints() if one.get("source") != "network"] == []  # their attachments are not there

    world.run(run())


def test_a_page_of_the_past_is_as_it_was_and_read_only(world: PageWorld) -> None:
    """CLIENTS 3: `?at=`: no composer, no card to answer, and the way back."""

    async def run() -> None:
        async with world.person("/s/sess_gallery?at=30") as ann:
            await ann.reads("As it was at event 30")
            assert await ann.tab.run("document.querySelector('#composer') === null")
            rows = await ann.tab.run("document.querySelectorAll('[role=log] [data-id]').length")
            await ann.clicks("=Back to now")
            await ann.finds("#composer")
            await ann.sees(f"document.querySelectorAll('[role=log] [data-id]').length > {rows}")

    world.run(run())


def test_a_lost_connection_shows_itself_heals_and_loses_nothing(tmp_path: Path) -> None:
    """Item 4 and gate 6: the daemon is killed; what is written meanwhile waits in view, and is sent once."""

    async def story() -> None:
        (tmp_path / "browser").mkdir()
        async with palaver_process(tmp_path) as first:
            from chromium import chromium
            from person import person

            port = first.port
            async with chromium(tmp_path / "browser", port) as browser, first.chat() as chat:
                session = chat.id
                async with person(browser, first, f"/s/{session}") as ann:
                    await ann.says("write 5 words")
                    await ann.finds(".end[data-outcome=completed]")
                    await first.kill()
                    await ann.reads("The connection to Palaver is lost")
                    await ann.says("write 7 words")
                    await ann.reads("Waits for the connection", ".outbox")
                    async with palaver_process(tmp_path, "--port", str(port)) as second:
                        await ann.finds(".foot .dot.ok")
                        await ann.misses(".offline")
                        await ann.sees("document.querySelectorAll('.end[data-outcome=completed]').length === 2")
                        await ann.misses(".outbox")
                        async with second.chat(session) as after:
                            said = [event for event in await after.log() if event["type"] == "message_added"]
                        assert len(said) == 2
                        live = await ann.transcript()
                        await ann.reloads()
                        await ann.sees("document.querySelectorAll('.end[data-outcome=completed]').length === 2")
                        assert await ann.transcript() == live

    asyncio.run(story())


def test_a_draft_survives_a_switch_a_reload_and_a_card(world: PageWorld) -> None:
    """Gate 4: kept with every key here, and mirrored to the daemon."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.types("half a thought", into="#composer")
            await ann.clicks("[data-session=sess_gallery]")
            await ann.sees("document.querySelector('#composer')?.value === ''")
            await ann.clicks(f"[data-session={chat.id}]")
            await ann.sees("document.querySelector('#composer')?.value === 'half a thought'")
            await ann.reloads()
            await ann.sees("document.querySelector('#composer')?.value === 'half a thought'")
            await chat.say("run the command `echo hello`")
            await ann.finds(".cardx.waiting")
            assert await ann.tab.run("document.querySelector('#composer').value") == "half a thought"
            async with world.person(f"/s/{chat.id}", size=PHONE, touch=True) as bob:
                await bob.sees("document.querySelector('#composer')?.value === 'half a thought'")

    world.run(run())


def test_a_turn_asks_for_no_transcript_again(world: PageWorld) -> None:
    """Between sending and `turn_completed` everything comes over the stream."""

    async def run() -> None:
        async with world.daemon.chat() as chat, world.person(f"/s/{chat.id}") as ann:
            await ann.finds("#composer")
            begun = len(ann.tab.events())
            await ann.says("think about it then write 50 words")
            await ann.finds(".end[data-outcome=completed]")
            asked = [one["request"]["url"] for one in ann.tab.named("Network.requestWillBeSent", begun)]
            frames = [one["response"]["payloadData"] for one in ann.tab.named("Network.webSocketFrameSent", begun)]
            assert not [one for one in [*asked, *frames] if "/transcript" in one or "/events" in one]

    world.run(run())


def test_eight_tabs_of_one_browser_all_load(world: PageWorld) -> None:
    """Gate 6: browsers allow six HTTP streams to a host; the page uses one socket each."""

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(_looks(world))

    world.run(run())


async def _looks(world: PageWorld) -> None:
    async with world.person("/s/sess_gallery") as one:
        await one.finds(".cardx.waiting")
