"""SECURITY 1 in a real browser: what a page of another origin gets from a daemon on this machine, which is nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import pytest
from attacker import ATTACKER, DEFENCELESS, REBOUND
from browser_world import Target, World, browser_world

LOOPBACK = f"http://127.0.0.1:{ATTACKER}"
LOCALHOST = f"http://localhost:{ATTACKER}"
FOREIGN = f"http://evil.example:{ATTACKER}"

READ_WHERE_NOTHING_HOLDS = {
    *("image", "script", "module", "style", "events", "socket", "fetch_get", "fetch_open_route", "fetch_signed"),
    *("fetch_post", "fetch_post_json", "fetch_post_signed", "fetch_delete"),
}
NEVER_SENT = {"service_worker"}
"""What the browser itself refuses a page of another origin."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with browser_world(tmp_path_factory.mktemp("browser")) as world:
        yield world


class Outcome(NamedTuple):
    got: dict[str, str | None]
    """What the page had in hand after each attempt."""
    answers: dict[str, set[int]]
    """With which statuses the server answered the requests of each attempt that reached it."""


async def attack(world: World, origin: str, at: str, target: Target) -> Outcome:
    """Everything that the hostile page at `origin` can try with the server at `at`; it has guessed the right token, if there is one."""
    begun = len(world.wire.seen)
    known = {"target": at, "session": target.session, "guess": target.client.token or "a.guess"}
    async with world.browser.tab() as tab:
        assert not await tab.open(f"{origin}/attack")
        got = await tab.run(f"attack({json.dumps(known)})")
        # beacons, pings and other tabs go out when the browser likes
        await world.wire.until(lambda: not got.keys() - NEVER_SENT - answers(world, begun).keys(), lambda: answers(world, begun))
    return Outcome(got, answers(world, begun))


def answers(world: World, since: int) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for request, status in world.wire.seen[since:]:
        if name := request.asked("try"):
            found.setdefault(name, set()).add(status)
    return found


def refused(outcome: Outcome, status: int, **others: int) -> dict[str, set[int]]:
    """The answers, if every attempt met that status, but for the `others`."""
    return {name: {others.get(name, status)} for name in outcome.got.keys() - NEVER_SENT}


@pytest.mark.parametrize("origin", [LOOPBACK, FOREIGN])
def test_every_attempt_reaches_a_server_that_does_not_defend_itself(world: World, origin: str) -> None:
    """What the other tests of this file rest on: the attempts work, and the page and the wire notice it."""
    outcome = world.run(attack(world, origin, f"http://127.0.0.1:{DEFENCELESS}", world.targets["token"]))
    assert {name for name, got in outcome.got.items() if got} == READ_WHERE_NOTHING_HOLDS
    assert outcome.answers == refused(outcome, 200, socket=101)


@pytest.mark.parametrize(
    ("origin", "host", "daemon"),
    [
        (LOOPBACK, "127.0.0.1", "token"),
        (LOOPBACK, "127.0.0.1", "no-token"),
        (LOCALHOST, "localhost", "no-token"),
        (FOREIGN, "127.0.0.1", "token"),
        (FOREIGN, "127.0.0.1", "no-token"),
    ],
)
def test_a_page_of_another_origin_gets_nothing_and_changes_nothing(world: World, origin: str, host: str, daemon: str) -> None:
    """SECURITY 1: also with the right token, and where none is asked. Only a tab with the page itself opens, which nobody else can read."""

    async def run() -> None:
        target = world.targets[daemon]
        before = await target.everything()
        outcome = await attack(world, origin, f"http://{host}:{target.client.port}", target)
        assert not {name: got for name, got in outcome.got.items() if got}
        assert outcome.answers == refused(outcome, 403, opened_page=200)
        assert await target.everything() == before

    world.run(run())


@pytest.mark.parametrize("daemon", ["token", "no-token"])
def test_a_name_that_was_pointed_here_gets_nothing_and_changes_nothing(world: World, daemon: str) -> None:
    """SECURITY 1: for the browser the page and the daemon are then of one origin, so it may read: all it reads is the refusal."""

    async def run() -> None:
        target = world.targets[daemon]
        before = await target.everything()
        rebound = f"http://{REBOUND}:{target.client.port}"
        outcome = await attack(world, rebound, rebound, target)
        assert {got[got.index("{") :][:34] for got in outcome.got.values() if got} == {'{"type":"urn:palaver:problem:host"'}
        assert outcome.answers == refused(outcome, 421)
        assert await target.everything() == before

    world.run(run())


def test_without_fetch_metadata_a_page_still_reads_nothing_and_changes_nothing(world: World) -> None:
    """SECURITY 1 and 8: an older browser says no `Sec-Fetch-…`. What has an Origin is refused, the rest is withheld from the page."""

    async def run() -> None:
        target = world.targets["no-token"]
        before = await target.everything()
        world.wire.drops_fetch_metadata = True
        try:
            outcome = await attack(world, LOOPBACK, target.origin, target)
        finally:
            world.wire.drops_fetch_metadata = False
        assert not {name: got for name, got in outcome.got.items() if got}
        without_origin = (
            "image",
            "script",
            "style",
            "prefetch",
            "preload",
            "object",
            "embed",
            "iframe",
            "fetch_opaque",
            "opened",
            "opened_page",
        )
        assert outcome.answers == refused(outcome, 403, **dict.fromkeys(without_origin, 200))
        assert await target.everything() == before

    world.run(run())


@pytest.mark.parametrize(("origin", "daemon"), [(LOOPBACK, "token"), (LOCALHOST, "no-token"), (FOREIGN, "token")])
def test_a_link_from_another_page_opens_the_page_and_nothing_else(world: World, origin: str, daemon: str) -> None:
    """SECURITY 1: `/` and `/s/X` may be linked to; what the API says may not be shown that way."""

    async def run() -> None:
        target = world.targets[daemon]
        session = f"/s/{target.session}"
        async with world.browser.tab() as tab:
            for path, status in (("/", 200), (session, 200), (f"/v1{session}", 403), ("/v1/health", 403), ("/openapi.json", 403)):
                url = target.origin + path
                assert not await tab.open(f"{origin}/link?to={quote(url, safe='')}")
                begun = len(tab.events())
                await tab.run("document.getElementById('link').click()")
                await tab.loaded(begun)
                assert tab.statuses()[url] == status
                assert (await tab.run("document.title") == "Palaver") == (status == 200), path

    world.run(run())
