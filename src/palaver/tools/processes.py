"""Child processes: each in a group of its own, marked with its call, ended whole, and never left behind.

- A call's end ends its group: TERM, a second, KILL. When it is ended by force (cancel, timeout, too much output), whatever left the
  group but carries the mark goes too; what a command that ended by itself started on purpose in a session of its own stays.
- Nobody waits for the end of a pipe: a grandchild may hold it open for ever. What the child wrote before its end is read, no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from palaver.errors import ToolFailed
from palaver.tools.marks import GRACE_S, MARK, Found, Marks, end_marked, end_strays, find_marked, new_secret, only_ended, sweeps, with_call
from palaver.wire.values import Stream

_BLOCK = 65_536
_LAST = 1 << 20
"""As much as a pipe can hold: what is read after the group has ended."""

Sink = Callable[[Stream, bytes], bool]
"""Takes a block of output. False: enough, end the child."""


@dataclass(frozen=True)
class Ended:
    """How a child ended: by itself with a status (negative: the signal), or by us."""

    why: Literal["exited", "timeout", "enough", "stopped"]
    status: int | None


async def run(
    command: Sequence[str],
    *,
    folder: str,
    env: Mapping[str, str],
    sink: Sink,
    timeout_s: float | None,
    stdin: int | None = None,
) -> Ended:
    """Run a program to its end, with its output streamed to `sink` in blocks as they come. Raises `ToolFailed` if it cannot be started.

    When this returns or raises, cancelled too, the group is gone and the child is reaped; ending takes under two seconds.
    """
    child = await Child.start(command, folder=folder, env=env, sink=sink, stdin=stdin)
    ended = Ended("enough", None)
    try:
        ended = await child.wait(timeout_s)
    finally:
        await child.end(forced=ended.why != "exited")
    return ended


class Child:
    """A started program: its group, its pipes, its end."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, exit: asyncio.Future[None], pipes: Sequence[_Pipe], mark: str | None
    ) -> None:
        self._transport = transport
        self._exit = exit
        self._pipes = pipes
        self._mark = mark
        self._stop: asyncio.Future[None] = exit.get_loop().create_future()
        self.pid = transport.get_pid()

    @staticmethod
    async def start(command: Sequence[str], *, folder: str, env: Mapping[str, str], sink: Sink, stdin: int | None = None) -> Child:
        """Start it in a session, and so a group, of its own. A cancel that comes meanwhile ends it again."""
        starting = asyncio.ensure_future(_start(command, folder, env, sink, stdin))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if not starting.cancelled():
                with contextlib.suppress(ToolFailed):
                    await (await starting).end(forced=True)
            raise

    @property
    def status(self) -> int | None:
        return self._transport.get_returncode()

    async def wait(self, timeout_s: float | None) -> Ended:
        """Until it exits, its sink has enough, the time is over, or `stop`. Ends nothing."""
        enough = [pipe.enough for pipe in self._pipes]
        done, _ = await asyncio.wait([self._exit, self._stop, *enough], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self._exit in done:
            return Ended("exited", self.status)
        if self._stop in done:
            return Ended("stopped", None)
        return Ended("enough" if done else "timeout", None)

    def stop(self) -> None:
        """Make whoever waits go on to end it, now or when it comes to wait."""
        if not self._stop.done():
            self._stop.set_result(None)

    async def end(self, *, forced: bool) -> None:
        """End what is left of the group and read what it wrote. `forced`: also whatever left the group with the mark.

        A cancel that comes while this waits makes it KILL at once.
        """
        gone = False
        try:
            gone = await self._end_group(forced=forced)
        finally:
            if not gone:
                self._signal(signal.SIGKILL)
            for pipe in self._pipes:
                pipe.finish()
            self._transport.close()

    async def _end_group(self, *, forced: bool) -> bool:
        self._signal(signal.SIGTERM)
        strays = asyncio.get_running_loop().run_in_executor(sweeps, end_strays, self._mark, self.pid) if forced and self._mark else None
        gone = await self._gone_within(GRACE_S)
        if not gone:
            self._signal(signal.SIGKILL)
            gone = await self._gone_within(0.4)
        if strays is not None:
            await strays
        return gone

    async def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.002
        while not self._exit.done() or (self._signal(0) and not (pause > 0.01 and only_ended(self.pid))):
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)
        return True

    def _signal(self, number: int) -> bool:
        """Send to the group; whether anybody is in it."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return sys.platform == "linux"  # macOS says so of a group that has only zombies left
        return True


async def _start(command: Sequence[str], folder: str, env: Mapping[str, str], sink: Sink, stdin: int | None) -> Child:
    loop = asyncio.get_running_loop()
    exit: asyncio.Future[None] = loop.create_future()
    pipes = (_Pipe("stdout", sink), _Pipe("stderr", sink))
    try:
        transport, _ = await loop.subprocess_exec(
            lambda: _Exit(exit),
            *command,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=pipes[0].write_end,
            stderr=pipes[1].write_end,
            cwd=folder,
            env=dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        for pipe in pipes:
            pipe.finish()
        raise ToolFailed(f"{command[0]} could not be started: {error}.") from error
    finally:
        for pipe in pipes:
            os.close(pipe.write_end)
    for pipe in pipes:
        pipe.begin()
    return Child(transport, exit, pipes, env.get(MARK))


class _Exit(asyncio.SubprocessProtocol):
    def __init__(self, exit: asyncio.Future[None]) -> None:
        self._exit = exit

    def process_exited(self) -> None:
        if not self._exit.done():
            self._exit.set_result(None)


class _Pipe:
    """The end of a child's stream that we read, block by block, as it comes."""

    def __init__(self, stream: Stream, sink: Sink) -> None:
        self._loop = asyncio.get_running_loop()
        self._stream: Stream = stream
        self._sink = sink
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self.enough: asyncio.Future[None] = self._loop.create_future()

    def begin(self) -> None:
        self._loop.add_reader(self._read_end, self._take)

    def _take(self) -> int:
        """Read one block; how many bytes it had."""
        try:
            data = os.read(self._read_end, _BLOCK)
        except BlockingIOError:
            return 0
        if not data:
            self._close()
        elif not self._sink(self._stream, data):
            self._close()
            self.enough.set_result(None)
        return len(data)

    def finish(self) -> None:
        """Read what is there and let go, whoever else holds the other end."""
        left = _LAST
        while self._read_end >= 0 and left > 0 and (taken := self._take()):
            left -= taken
        self._close()
        self.enough.cancel()

    def _close(self) -> None:
        if self._read_end >= 0:
            self._loop.remove_reader(self._read_end)
            os.close(self._read_end)
            self._read_end = -1


__all__ = ["MARK", "Child", "Ended", "Found", "Marks", "Sink", "end_marked", "find_marked", "new_secret", "run", "with_call"]
