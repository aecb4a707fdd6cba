"""SECURITY 5 and 8 in a real browser: the daemon's page keeps its own policy, and a stored file never runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from browser_wire import Request, answer
from browser_world import Target, World, browser_world
from chromium import Tab

WAYS = Path(__file__).with_name("ways.js").read_text(encoding="utf-8")
CANARY = "fetch('http://127.0.0.1:PORT/canary/NAME')"
HTML = f"<title>It is shown</title><script>{CANARY}</script>"

CORPUS = {
    "page.html": ("text/html", f"<!doctype html>{HTML}"),
    "drawing.svg": ("image/svg+xml", f'<svg xmlns="http://www.w3.org/2000/svg"><script>{CANARY}</script></svg>'),
    "page.xhtml": ("application/xhtml+xml", f'<html xmlns="http://www.w3.org/1999/xhtml"><script>{CANARY}</script></html>'),
    "feed.xml": ("text/xml", f'<x xmlns:h="http://www.w3.org/1999/xhtml"><h:script>{CANARY}</h:script></x>'),
    "code.js": ("text/javascript", CANARY),
    "style.css": ("text/css", "@import url(http://127.0.0.1:PORT/canary/NAME);"),
    "plain.txt": ("text/plain", CANARY),
    "picture.gif": ("image/gif", f"GIF89a=0;{CANARY}//<!doctype html>{HTML}"),
    "paper.pdf": ("application/pdf", f"%PDF-1.7\n<!doctype html>{HTML}"),
    "bytes.bin": ("application/octet-stream", f"<!doctype html>{HTML}"),
    "page without a type": ("", f"<!doctype html>{HTML}"),
    "<script>.html": ("text/html", f"</script>{HTML}"),
}
INERT = {"picture.gif", "paper.pdf", "bytes.bin"}
"""What the browser runs from nobody: these are here to see that we do not give them another type."""

ELSEWHERE = "http://127.0.0.1:6333/x"
BREACHES = {
    "document.body.innerHTML = '<b>x</b>'": "require-trusted-types-for",
    f"document.createElement('script').src = '{ELSEWHERE}'": "require-trusted-types-for",
    "document.body.setAttribute('onclick', 'x()')": "require-trusted-types-for",
    f"new Worker('{ELSEWHERE}')": "require-trusted-types-for",
    "trustedTypes.createPolicy('x', {})": "trusted-types",
    "add('style').textContent = 'a { color: red }'": "style-src-elem",
    f"Object.assign(add('link'), {{ rel: 'stylesheet', href: '{ELSEWHERE}' }})": "style-src-elem",
    f"add('img').src = '{ELSEWHERE}'": "img-src",
    f"add('audio').src = '{ELSEWHERE}'": "media-src",
    f"add('iframe').src = '{ELSEWHERE}'": "frame-src",
    "add('iframe').src = '/'": "frame-src",
    f"add('base').href = '{ELSEWHERE}'": "base-uri",
    "add('form').submit()": "form-action",
    f"new FontFace('x', 'url({ELSEWHERE})').load().catch(() => 0)": "font-src",
    f"fetch('{ELSEWHERE}').catch(() => 0)": "connect-src",
    "new WebSocket('ws://127.0.0.1:6333/x')": "connect-src",
    f"new EventSource('{ELSEWHERE}')": "connect-src",
    f"navigator.sendBeacon('{ELSEWHERE}')": "connect-src",
}
DRAWN = """new Promise((drawn) => {
  const look = () => (document.querySelector("h1, h2") ? drawn() : setTimeout(look, 10));
  look();
})"""
BREACH = """new Promise((resolve) => {
  const add = (tag) => document.body.appendChild(document.createElement(tag));
  addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective), { once: true });
  try { BREACH; } catch {}
})"""


def file_of(name: str, port: int) -> tuple[str, bytes]:
    mime_type, text = CORPUS[name]
    return mime_type, text.replace("PORT", str(port)).replace("NAME", quote(name, safe="")).encode()


def planted(request: Request) -> bytes | None:
    """At the daemon's own address: a page without any policy, the corpus as a careless server gives it out, and the canary."""
    if request.path == "/planted":
        return answer(200, "text/html", f"<!doctype html><link rel=icon href=data:,><body><script>{WAYS}</script>")
    if request.path.startswith("/careless/"):
        return answer(200, *file_of(_name(request), request.port))
    if request.path == "/fence" or request.path.startswith("/canary/"):
        return answer(200, "text/plain", "it sang")
    return None


def _name(request: Request) -> str:
    return next(name for name in CORPUS if request.path.endswith("/" + quote(name, safe="")))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with browser_world(tmp_path_factory.mktemp("browser"), planted) as world:
        yield world


def sang(world: World, since: int) -> set[str]:
    return {_name(one.request) for one in world.wire.seen[since:] if one.request.path.startswith("/canary/")}


async def try_every_way(world: World, tab: Tab, target: Target, paths: list[str]) -> None:
    """Until each file has been asked for in each way."""
    begun = len(world.wire.seen)
    assert not await tab.open(f"{target.origin}/planted")
    await tab.run(f"everyWay({json.dumps(paths)})")
    wanted = {(path, way) for path in paths for way in await tab.run("Object.keys(ways)")}

    def missing() -> set[tuple[str, str]]:
        return wanted - {(one.request.path, one.request.asked("way")) for one in world.wire.seen[begun:]}

    await world.wire.until(lambda: not missing(), missing)


async def all_sent(tab: Tab) -> None:
    """Whatever the page's scripts and frames have asked for by now has been sent: a browser sends in order."""
    assert await tab.run("fetch('/fence').then((got) => got.status)") == 200


async def store(target: Target) -> list[str]:
    """The corpus as attachments; where each one is."""
    stored = []
    for name in CORPUS:
        mime_type, data = file_of(name, target.client.port)
        stored.append(await target.upload(name, mime_type, data))
    return stored


@pytest.mark.parametrize("daemon", ["token", "no-token"])
def test_the_page_keeps_its_own_policy(world: World, daemon: str) -> None:
    """SECURITY 8: at each of its addresses it shows itself whole, and the browser has nothing to report."""

    async def run() -> None:
        target = world.targets[daemon]
        origins = (target.origin, target.origin.replace("127.0.0.1", "localhost"))
        async with world.browser.tab() as tab:
            for url in (f"{origin}{path}" for origin in origins for path in ("/", f"/s/{target.session}")):
                assert not await tab.open(url)
                assert await tab.run("document.title") == "Palaver"
                assert await tab.run("Array.from(document.styleSheets, (sheet) => sheet.cssRules.length > 0)") == [True]
                await tab.run(DRAWN)
                assert await tab.run("fetch('/v1/health').then((got) => got.status)") == 200
            assert tab.policy_reports() == []

    world.run(run())


async def told_of(tab: Tab, breach: str) -> str:
    """The directive that the page is told of, once the browser has reported it too."""
    reported = len(tab.policy_reports())
    directive: str = await tab.run(BREACH.replace("BREACH", breach))
    await tab.browser.until(lambda: len(tab.policy_reports()) > reported, f"a report of {breach}")
    return directive


def test_whatever_breaks_the_policy_is_stopped_and_reported(world: World) -> None:
    """SECURITY 8: each directive holds, and the test above would see a breach."""

    async def run() -> None:
        target = world.targets["token"]
        begun = len(world.wire.seen)
        async with world.browser.tab() as tab:
            for breach, directive in BREACHES.items():
                assert not await tab.open(f"{target.origin}/")
                assert await told_of(tab, breach) == directive, breach
        assert not [one for one in world.wire.seen[begun:] if one.request.port == 6333]

    world.run(run())


@pytest.mark.parametrize("daemon", ["token", "no-token"])
def test_the_page_shows_in_no_frame_not_even_in_one_of_its_own_origin(world: World, daemon: str) -> None:
    """SECURITY 8: the guard lets this one pass, since the frame's page is of the same origin; `frame-ancestors` stops it."""

    async def run() -> None:
        target = world.targets[daemon]
        async with world.browser.tab() as tab:
            for path in ("/", f"/s/{target.session}"):
                assert not await tab.open(f"{target.origin}/planted")
                begun = len(world.wire.seen)
                await tab.run(
                    f"new Promise((shown) => {{ add('iframe', {{ src: '{path}' }}); document.querySelector('iframe').onload = shown; }})"
                )
                assert [(one.request.path, one.status) for one in world.wire.seen[begun:] if one.request.path == path] == [(path, 200)]
                assert await tab.frames() == ["chrome-error://chromewebdata/"]

    world.run(run())


def test_a_browser_that_shows_no_token_gets_no_file(world: World) -> None:
    """SECURITY 8 and API "Doors": an address that is typed carries no token, and a ticket opens streams only."""

    async def run() -> None:
        target = world.targets["token"]
        ticket = (await target.client.ask("POST", "/v1/tickets"))["ticket"]
        begun = len(world.wire.seen)
        paths = await store(target)
        async with world.browser.tab() as tab:
            for path in paths:
                for query in ("", f"?ticket={ticket}"):
                    assert not await tab.open(f"{target.origin}{path}{query}")
                    assert tab.statuses()[f"{target.origin}{path}{query}"] == 401
        assert not sang(world, begun)

    world.run(run())


def test_a_careless_server_would_have_its_files_run(world: World) -> None:
    """What the tests below rest on: the corpus can run, and the canary is heard."""

    async def run() -> None:
        begun = len(world.wire.seen)
        dangerous = CORPUS.keys() - INERT
        async with world.browser.tab() as tab:
            paths = [f"/careless/{quote(name, safe='')}" for name in CORPUS]
            await try_every_way(world, tab, world.targets["no-token"], paths)
            await world.wire.until(lambda: sang(world, begun) >= dangerous, lambda: sang(world, begun))
        assert sang(world, begun) == dangerous

    world.run(run())


def test_a_stored_file_never_runs_whatever_a_page_of_our_own_does_with_it(world: World) -> None:
    """SECURITY 8: where no token is asked, so that the browser gets each file; what would be shown is downloaded."""

    async def run() -> None:
        target = world.targets["no-token"]
        paths = await store(target)
        begun = len(world.wire.seen)
        async with world.browser.tab() as tab:
            await try_every_way(world, tab, target, paths)
            framed = 2 * len(paths)
            await world.browser.until(
                lambda: len(tab.named("Page.downloadWillBegin")) == framed, "the download of what was put into a frame"
            )
            assert set(await tab.frames()) <= {"", "about:blank"}
            await all_sent(tab)
            for path in paths:
                assert await tab.open(target.origin + path) == "net::ERR_ABORTED", path  # a download leaves the tab where it was
        asked = [one for one in world.wire.seen[begun:] if one.request.path in paths]
        assert {one.status for one in asked} == {200}
        assert not sang(world, begun)

    world.run(run())


def test_a_stored_file_that_was_fetched_with_a_token_shows_as_text(world: World) -> None:
    """SECURITY 8: no answer gives a browser a type that runs, so what a client shows from it does not run."""

    async def run() -> None:
        target = world.targets["token"]
        paths = await store(target)
        begun = len(world.wire.seen)
        async with world.browser.tab() as tab:
            assert not await tab.open(f"{target.origin}/planted")
            types = await tab.run(f"fetched({json.dumps(paths)}, {json.dumps(target.client.token)})")
            assert set(types) == {"text/plain; charset=utf-8", "image/gif"}
            assert all(shown.startswith("blob:") for shown in await tab.frames())
            await all_sent(tab)
        assert not sang(world, begun)

    world.run(run())
