"""Blocking calls beside the event loop, and how a busy loop is kept from starving them.

A thread that has to wait for the interpreter asks for it only after a while in which nobody let go of it. A loop that always has
something to run lets go all the time and takes it back at once, so the thread can wait for seconds (seen). Hence: where no thread has
finished anything for a moment, the loop itself sleeps for the blink that a thread needs.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar
from weakref import WeakKeyDictionary

PATIENCE = 0.002
"""Seconds without a finished call after which the loop lets the threads have the interpreter."""
BLINK = 0.00005

T = TypeVar("T")


class Patience:
    """What the threads of one loop have left to do. Every call of `begun` is followed by one of `ended`, both on the loop."""

    def __init__(self) -> None:
        self._unfinished = 0
        self._finished = 0
        self._watching = False

    def begun(self) -> None:
        self._unfinished += 1
        if not self._watching:
            self._watching = True
            asyncio.get_running_loop().call_later(PATIENCE, self._watch, self._finished)

    def ended(self) -> None:
        self._unfinished -= 1
        self._finished += 1

    def _watch(self, finished: int) -> None:
        self._watching = self._unfinished > 0
        if self._watching:
            if finished == self._finished:
                time.sleep(BLINK)  # while this thread sleeps nobody else wants the interpreter
            asyncio.get_running_loop().call_later(PATIENCE, self._watch, self._finished)


_patience: WeakKeyDictionary[AbstractEventLoop, Patience] = WeakKeyDictionary()


def patience() -> Patience:
    """The one of the running loop."""
    loop = asyncio.get_running_loop()
    found = _patience.get(loop)
    if found is None:
        found = _patience[loop] = Patience()
    return found


async def in_thread(job: Callable[[], T], executor: Executor | None = None) -> T:
    """Run `job` in a thread. A caller that is cancelled leaves when the thread has ended, so what it cleans up is not in use."""
    watched = patience()
    running = asyncio.get_running_loop().run_in_executor(executor, job)
    watched.begun()
    cancelled = None
    while not running.done():
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError as error:
            cancelled = error
    watched.ended()
    if cancelled is not None:
        running.exception()  # whoever asked is gone
        raise cancelled
    return running.result()
