"""A window whose cable is cut for ten seconds in the middle of a text, beside one whose cable is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cable import cabled
from chromium import Browser, chromium
from person import DESK, Person, person

from palaver_daemon import Client, palaver_process

CUT_MS = 10_000
ENDS = "document.querySelectorAll('.end[data-outcome=completed]').length === {}"


async def watching(browser: Browser, daemon: Client, one: Person, session: str) -> None:
    """Signed in at the daemon's other name, whose connections the cable spares."""
    code = (await daemon.ask("POST", "/v1/codes", {"scope": "admin"}))["code"]
    await one.sized(DESK)
    assert not await one.tab.open(f"http://localhost:{daemon.port}/s/{session}#code={code}")
    await one.sees("document.querySelector('.foot .dot.ok')")


def test_a_stream_cut_for_ten_seconds_in_a_text_shows_what_an_uncut_one_shows(tmp_path: Path) -> None:
    """UI 8, gate 6, and item 4: it shows itself and heals; what is written meanwhile waits in view and is sent once."""

    async def story() -> None:
        (tmp_path / "browser").mkdir()
        async with (
            palaver_process(tmp_path) as daemon,
            cabled(daemon.port) as cable,
            chromium(tmp_path / "browser", cable.port) as browser,
            daemon.chat() as chat,
            person(browser, daemon, f"/s/{chat.id}") as ann,
            browser.tab() as other,
        ):
            bob = Person(other, daemon)
            await watching(browser, daemon, bob, chat.id)
            await ann.says("write 900 words")
            await ann.sees("document.querySelector('.prose.live')?.textContent.length > 200")
            cable.cut()
            began = await ann.tab.run("performance.now()")
            await ann.reads("The connection to Palaver is lost")
            await ann.says("write 5 words")
            await ann.reads("Waits for the connection", ".outbox")
            await ann.sees(f"performance.now() - {began} > {CUT_MS}")
            assert cable.refused > 0, "the page tries again by itself"
            assert len(chat.of("message_added")) == 1
            cable.mend()
            await ann.misses(".offline")
            for one in (ann, bob):
                await one.sees(ENDS.format(2))
                await one.misses(".typing")
            await ann.misses(".outbox")
            await chat.idle()
            log = await chat.check()
            said = [event["data"]["message"]["parts"][0]["text"] for event in log if event["type"] == "message_added"]
            assert said == ["write 900 words", "write 5 words"]
            assert (await ann.transcript()).splitlines() == (await bob.transcript()).splitlines()
            assert bob.complaints() == []

    asyncio.run(story())
