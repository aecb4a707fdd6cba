"""Child processes: each in a group of its own, marked with its call, ended whole, and found again after a crash (SECURITY.md 9).

- A call's end ends its group: TERM, a second, KILL. When it is ended by force (cancel, timeout, too much output), whatever left the
  group but carries the mark goes too; what a command that ended by itself started on purpose in a session of its own stays.
- Nobody waits for the end of a pipe: a grandchild may hold it open for ever. What the child wrote before its end is read, no more.
- A mark is looked for in the environment that a process was started with. Linux: through `/proc`, with a pidfd opened before the
  environment is read, so that a number given out again is never mistaken for the process. macOS: through `ps`, with the start time
  compared again before each signal. Only Linux was tested. A process that wiped its environment is out of reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol

from palaver.errors import ToolFailed
from palaver.wire.values import Stream

MARK = "PALAVER_CALL"
GRACE_S = 1.0
_BLOCK = 65_536
_LAST = 1 << 20
"""As much as a pipe can hold: what is read after the group has ended."""
_MAX_ENVIRONMENT = 4 << 20
_sweeps = ThreadPoolExecutor(max_workers=4, thread_name_prefix="palaver-sweep")
"""Ending processes never waits behind slow reads of files."""

Sink = Callable[[Stream, bytes], bool]
"""Takes a block of output. False: enough, end the child."""


# --- marks --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marks:
    """What tells our children from all others: a secret of the data folder, kept there, and a number of this run."""

    secret: str
    run: str

    def of(self, call_id: str) -> str:
        """The value of `PALAVER_CALL` for the children of one call."""
        return f"{self.secret}.{self.run}.{call_id}"


def new_secret() -> str:
    """A part of a mark that nobody can guess."""
    return secrets.token_hex(16)


def with_call(mark: str, call_id: str) -> str:
    """The same mark for another id: what a background job gets instead of its call's."""
    return ".".join([*mark.split(".", 2)[:2], call_id])


@dataclass(frozen=True)
class Found:
    """A process that carries a mark of this data folder."""

    pid: int
    run: str
    call_id: str


def find_marked(marks: Marks) -> list[Found]:
    """Every process of our user with a mark of this data folder, of any run; never this process or one that it descends from."""
    with _held(marks.secret) as held:
        return [process.found for process in held]


async def end_marked(marks: Marks, ends: Callable[[Found], bool]) -> list[Found]:
    """End what carries a mark that `ends` says yes to (TERM, a second, KILL) and what such a process starts meanwhile.

    For a start after a crash: `ends` asks whether the log shows that call, or that job, as open.
    """
    return await asyncio.get_running_loop().run_in_executor(_sweeps, _end_marked, marks.secret, ends)


def _end_marked(secret: str, ends: Callable[[Found], bool], rounds: int = 5) -> list[Found]:
    ended: list[Found] = []
    for number in range(rounds):
        with _held(secret) as held:
            chosen = [process for process in held if ends(process.found)]
            if not chosen:
                break
            ended += [process.found for process in chosen]
            _end_held(chosen, GRACE_S if number == 0 else 0)
    return ended


def _end_held(held: Iterable[Held], grace: float) -> None:
    left = list(held)
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 0.5)):
        if number == signal.SIGTERM and grace == 0:
            continue
        for process in left:
            process.send(number)
        deadline = time.monotonic() + patience
        while (left := [process for process in left if not process.gone()]) and time.monotonic() < deadline:
            time.sleep(0.01)


class Held(Protocol):
    """A process that cannot be mistaken for a later one of the same number."""

    @property
    def found(self) -> Found: ...

    def send(self, number: int) -> None: ...

    def gone(self) -> bool: ...

    def close(self) -> None: ...


@contextlib.contextmanager
def _held(secret: str) -> Iterator[list[Held]]:
    held = list(_marked(secret))
    try:
        yield held
    finally:
        for process in held:
            process.close()


def _parse(mark: str, pid: int, secret: str) -> Found | None:
    parts = mark.split(".", 2)
    if len(parts) != 3 or not secrets.compare_digest(parts[0].encode(), secret.encode()):
        return None
    return Found(pid, parts[1], parts[2])


if sys.platform == "linux":

    @dataclass(frozen=True)
    class _ByPidfd:
        found: Found
        descriptor: int

        def send(self, number: int) -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self.descriptor, number)

        def gone(self) -> bool:
            poll = select.poll()
            poll.register(self.descriptor, select.POLLIN)
            return bool(poll.poll(0))

        def close(self) -> None:
            os.close(self.descriptor)

    def _by_pidfd(secret: str) -> Iterator[Held]:
        ours = _self_and_ancestors(_parent_by_proc)
        for pid in _numbers_in_proc():
            if pid in ours:
                continue
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(pid)
                found = _marked_by_proc(pid, secret)
                if found is None:
                    os.close(descriptor)
                else:
                    yield _ByPidfd(found, descriptor)

    def _marked_by_proc(pid: int, secret: str) -> Found | None:
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                return None
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read(_MAX_ENVIRONMENT)
        except OSError:
            return None  # it ended, or is not ours to look into
        for entry in environment.split(b"\0"):
            if entry.startswith(MARK.encode() + b"="):
                return _parse(entry.split(b"=", 1)[1].decode("utf-8", "replace"), pid, secret)
        return None

    def _numbers_in_proc() -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]

    def _stat_by_proc(pid: int) -> list[bytes]:
        """State, parent, group and more; nothing of a process that is gone."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                return file.read().rpartition(b")")[2].split()
        except OSError:
            return []

    def _parent_by_proc(pid: int) -> int:
        fields = _stat_by_proc(pid)
        return int(fields[1]) if fields else 0

    def _only_ended(group: int) -> bool:
        """Whether all of a group have ended and wait for an init that takes its time to collect them."""
        members = (fields[0] for fields in map(_stat_by_proc, _numbers_in_proc()) if fields and int(fields[2]) == group)
        return all(state in (b"Z", b"X") for state in members)

    _marked = _by_pidfd

else:

    def _only_ended(group: int) -> bool:
        """Told by `killpg` itself: it may not signal a group of which all have ended."""
        return False

    def _marked(secret: str) -> Iterator[Held]:
        return _by_start_time(secret)


def _self_and_ancestors(parent_of: Callable[[int], int]) -> set[int]:
    seen: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in seen:
        seen.add(pid)
        pid = parent_of(pid)
    return seen


@dataclass(frozen=True)
class _Row:
    """One line of `ps`: a process with what it was started with."""

    pid: int
    parent: int
    uid: int
    started: str
    rest: str


def _read_rows(*options: str) -> list[_Row]:
    command = ["/bin/ps", *options, "-o", "pid=,ppid=,uid=,lstart=,command="]
    told = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return parse_rows(told.stdout.decode("utf-8", "replace"))


def parse_rows(text: str) -> list[_Row]:
    """What `ps -E` prints: numbers, a start time of five words, then the command with its environment."""
    rows = []
    for line in text.split("\n"):
        words = line.split(None, 8)
        if len(words) == 9:
            rows.append(_Row(int(words[0]), int(words[1]), int(words[2]), " ".join(words[3:8]), words[8]))
    return rows


@dataclass(frozen=True)
class _ByStartTime:
    found: Found
    started: str

    def send(self, number: int) -> None:
        if not self.gone():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.found.pid, number)

    def gone(self) -> bool:
        return all(row.started != self.started for row in _read_rows("-p", str(self.found.pid)))

    def close(self) -> None:
        """Nothing is held but a number and a time."""


def _by_start_time(secret: str) -> Iterator[Held]:
    rows = _read_rows("-axww", "-E")
    parents = {row.pid: row.parent for row in rows}
    ours = _self_and_ancestors(lambda pid: parents.get(pid, 0))
    for row in rows:
        marked = re.search(rf"(?:^|\s){MARK}=(\S+)", row.rest)
        if marked and row.pid not in ours and row.uid == os.geteuid():
            found = _parse(marked[1], row.pid, secret)
            if found is not None:
                yield _ByStartTime(found, row.started)


# --- one child ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a child ended: by itself with a status (negative: the signal), or by us."""

    why: Literal["exited", "timeout", "enough"]
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
        """Until it exits, its sink has enough, or the time is over. Ends nothing."""
        enough = [pipe.enough for pipe in self._pipes]
        done, _ = await asyncio.wait([self._exit, *enough], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self._exit in done:
            return Ended("exited", self.status)
        return Ended("enough" if done else "timeout", None)

    async def end(self, *, forced: bool) -> None:
        """End what is left of the group and read what it wrote. `forced`: also whatever left the group with the mark.

        A cancel that comes while this waits makes it KILL at once.
        """
        try:
            await self._end_group(forced=forced)
        finally:
            self._signal(signal.SIGKILL)
            for pipe in self._pipes:
                pipe.finish()
            self._transport.close()

    async def _end_group(self, *, forced: bool) -> None:
        self._signal(signal.SIGTERM)
        strays = asyncio.get_running_loop().run_in_executor(_sweeps, _end_strays, self._mark, self.pid) if forced and self._mark else None
        if not await self._gone_within(GRACE_S):
            self._signal(signal.SIGKILL)
            await self._gone_within(0.4)
        if strays is not None:
            await strays

    async def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.002
        while not self._exit.done() or (self._signal(0) and not (pause > 0.01 and _only_ended(self.pid))):
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


def _end_strays(mark: str, group: int) -> None:
    """End what carries exactly this mark outside the group, and what it starts meanwhile."""
    secret, run, call_id = mark.split(".", 2)

    def strayed(found: Found) -> bool:
        if (found.run, found.call_id) != (run, call_id):
            return False
        try:
            return os.getpgid(found.pid) != group
        except ProcessLookupError:
            return False

    _end_marked(secret, strayed)


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
