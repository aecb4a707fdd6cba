"""One browser and one daemon for all tests of a file; each test has people and sessions of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from chromium import Browser
from person import Person, desk, person

from palaver_daemon import Client

T = TypeVar("T")


class PageWorld:
    def __init__(self, runner: asyncio.Runner, browser: Browser, daemon: Client) -> None:
        self._runner = runner
        self.browser, self.daemon = browser, daemon

    def run(self, test: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(test)

    def person(self, path: str = "/", **options: Any) -> AbstractAsyncContextManager[Person]:
        return person(self.browser, self.daemon, path, **options)


@contextmanager
def page_world(folder: Path, **options: Any) -> Iterator[PageWorld]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            browser, daemon = runner.run(stack.enter_async_context(desk(folder, **options)))
            yield PageWorld(runner, browser, daemon)
        finally:
            runner.run(stack.aclose())
