"""A browser, two daemons, one with a token and one without, and the wire between them: started once for all tests of a file."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from attacker import CODE, PICTURE, attacker, defenceless
from browser_wire import Play, Wire, wired
from chromium import Browser, Json, chromium

from palaver_daemon import Client, palaver_process

T = TypeVar("T")


class Target(NamedTuple):
    """A daemon, and a session in it that is worth an attack."""

    client: Client
    session: str

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.client.port}"

    async def upload(self, name: str, mime_type: str, data: bytes) -> str:
        """The address of the attachment."""
        body = {"name": name, "mime_type": mime_type, "data": base64.b64encode(data).decode()}
        made = await self.client.ask("POST", f"/v1/sessions/{self.session}/attachments", body)
        return f"/v1/sessions/{self.session}/{quote(made['ref'])}"

    async def everything(self) -> tuple[Json, Json, list[bytes], list[str]]:
        """All that an attack could have changed."""
        sessions = await self.client.ask("GET", "/v1/sessions")
        inbox = (await self.client.ask("GET", "/v1/inbox"))["items"]
        files = sorted(str(path.relative_to(self.client.data)) for path in (self.client.data / "sessions").rglob("*"))
        return sessions, inbox, self.client.lines(self.session), files


class World:
    def __init__(self, runner: asyncio.Runner, wire: Wire, browser: Browser, targets: dict[str, Target]) -> None:
        self._runner = runner
        self.wire, self.browser, self.targets = wire, browser, targets

    def run(self, test: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(test)


@contextmanager
def browser_world(folder: Path, *plays: Play) -> Iterator[World]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            yield runner.run(_build(folder, runner, stack, plays))
        finally:
            runner.run(stack.aclose())


async def _build(folder: Path, runner: asyncio.Runner, stack: AsyncExitStack, plays: tuple[Play, ...]) -> World:
    targets = {}
    for name, words in (("token", ()), ("no-token", ("--no-token",))):
        place = folder / name
        place.mkdir()
        targets[name] = await _worth_an_attack(await stack.enter_async_context(palaver_process(place, *words)))
    ports = frozenset(target.client.port for target in targets.values())
    wire = await stack.enter_async_context(wired(ports, *plays, attacker, defenceless))
    browser = await stack.enter_async_context(chromium(folder, wire.port))
    return World(runner, wire, browser, targets)


async def _worth_an_attack(client: Client) -> Target:
    async with client.chat() as chat:
        await chat.runs("think about a secret")
    target = Target(client, chat.id)
    await target.upload("picture.png", "image/png", PICTURE)
    await target.upload("code.js", "text/javascript", CODE.encode())
    return target
