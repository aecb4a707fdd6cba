"""SECURITY 5 and 8 in a real browser: the daemon's page keeps its own policy, and a stored file never runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from browser_world import Target, World, browser_world
from chromium import Tab
from wire import Request, answer

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
RUN_WHERE_NOTHING_HOLDS = {"page.html", "drawing.svg", "page.xhtml", "feed.xml", "code.js", "style.css", "plain.txt", "<script>.html"}


def file_of(name: str, port: int) -> tuple[str, bytes]:
    mime_type, text = CORPUS[name]
    return mime_type, text.replace("PORT", str(port)).replace("NAME", quote(name, safe="")).encode()


def planted(request: Request) -> bytes | None:
    """At the daemon's own address: a page without any policy, the corpus as a careless server gives it out, and the canary."""
    if request.path == "/planted":
        return answer(200, "text/html", f"<!doctype html><link rel=icon href=data:,><body><script>{WAYS}</script>")
    if request.path.startswith("/careless/"):
        return answer(200, *file_of(_name(request), request.port))
    if request.path.startswith("/canary/"):
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


async def store(target: Target) -> list[str]:
    """The corpus as attachments; where each one is."""
    stored = []
    for name in CORPUS:
        mime_type, data = file_of(name, target.client.port)
        stored.append(await target.upload(name, mime_type, data))
    return stored
