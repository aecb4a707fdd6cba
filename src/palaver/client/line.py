"""What goes to the daemon and what comes from it, on one event loop: commands in order, and the sessions that are followed.

Whoever uses it may live on the same loop or in another thread: everything that comes back goes through one function, `deliver`.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, Protocol

from palaver.client.connect import Connection
from palaver.client.types import Json, Unsubscribe
from palaver.errors import Failed, PalaverError, Refused

PATIENCE_S = 30.0
"""How long a command is tried while the daemon cannot be reached."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_BEGIN_ANEW = frozenset(("log_replaced", "cursor_ahead", "cursor_gone"))

Work = Callable[[Connection], Awaitable[Any]]
Done = Callable[[Any, PalaverError | None], None]
"""Called with the answer, or with why there is none."""
Deliver = Callable[[Callable[[], object]], None]


class Follower(Protocol):
    def take(self, envelope: Json) -> None: ...
    def begin(self) -> None:
        """What was taken so far no longer holds; all of it comes again."""

    def fail(self, error: PalaverError) -> None:
        """Nothing more comes."""


class Wire(Protocol):
    """What a session needs to reach its daemon. Nothing here waits."""

    def hand_over(self, key: str | None, work: Work, done: Done) -> None: ...
    def follow(self, session_id: str, follower: Follower) -> Unsubscribe: ...
    def later(self, delay_s: float, call: Callable[[], object]) -> None: ...


class _Job(NamedTuple):
    work: Work
    done: Done


class Line:
    """Belongs to the running loop. `broke` hears of a task that ended by an error which is nobody's answer: a bug."""

    def __init__(self, connection: Connection, deliver: Deliver, broke: Callable[[BaseException], None]) -> None:
        self.connection = connection
        self._deliver = deliver
        self._broke = broke
        self._outboxes: dict[str, deque[_Job]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._outstanding = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closed = False

    def hand_over(self, key: str | None, work: Work, done: Done) -> None:
        """Have `work` done, with others of the same key in the order in which they came. It is tried again while nobody answers."""
        if self._is_closed:
            raise closed()
        self._outstanding += 1
        self._idle.clear()
        job = _Job(work, done)
        if key is None:
            self._start(self._do(job))
        elif key in self._outboxes:
            self._outboxes[key].append(job)
        else:
            self._outboxes[key] = deque([job])
            self._start(self._empty(key))

    def follow(self, session_id: str, follower: Follower) -> Unsubscribe:
        """Give every envelope of the session, from the first one on, with the tail; reconnects for as long as it takes."""
        if self._is_closed:
            raise closed()
        task = self._start(self._follow(session_id, follower))

        def stop() -> None:
            task.cancel()

        return stop

    def later(self, delay_s: float, call: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(delay_s, self._deliver, call)

    async def drained(self, timeout_s: float | None) -> bool:
        """Wait until everything that was handed over is answered; False if that takes longer."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.connection.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._deliver(partial(self._broke, error))

    async def _empty(self, key: str) -> None:
        outbox = self._outboxes[key]
        while outbox:
            await self._do(outbox[0])
            outbox.popleft()
        del self._outboxes[key]

    async def _do(self, job: _Job) -> None:
        try:
            answer = await self._patiently(job.work)
        except PalaverError as error:
            self._tell(partial(job.done, None, error))
        except Exception as bug:
            # it rises where the client is waited for or left; whoever waits for this answer, or for a later one, goes on
            self._tell(partial(self._broke, bug))
            self._tell(partial(job.done, None, Failed("bug", f"The answer could not be understood ({bug!r}). Report it.")))
        else:
            self._tell(partial(job.done, answer, None))
        finally:
            self._outstanding -= 1
            if not self._outstanding:
                self._idle.set()

    def _tell(self, call: Callable[[], object]) -> None:
        try:
            self._deliver(call)
        except Exception as bug:
            self._broke(bug)

    async def _patiently(self, work: Work) -> Any:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + PATIENCE_S, _FIRST_PAUSE_S
        while True:
            try:
                return await work(self.connection)
            except Failed as error:
                if error.code != "unreachable" or loop.time() + pause > end:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _follow(self, session_id: str, follower: Follower) -> None:
        while True:
            try:
                async with aclosing(self.connection.events(session_id, tail=True, patience_s=math.inf)) as envelopes:
                    async for envelope in envelopes:
                        self._deliver(partial(follower.take, envelope))
                raise Refused("deleted", "The session was deleted. What it showed is all that there is.")
            except PalaverError as error:
                if not isinstance(error, Refused) or error.code not in _BEGIN_ANEW:
                    self._deliver(partial(follower.fail, error))
                    return
            self._deliver(follower.begin)


def closed() -> Refused:
    return Refused("client_closed", "This client was left, so nothing goes through it any more. Connect again.")
