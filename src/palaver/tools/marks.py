"""The mark of a call in the environment of its children: made, found again after a crash, ended (SECURITY.md 9).

A mark is looked for in the environment that a process was started with. Linux: through `/proc`, with a pidfd opened before the
environment is read, so that a number given out again is never mistaken for the process. Elsewhere, and where a Linux has no pidfd: with
the start time compared again before each signal; macOS reads environments through `ps`. Only Linux was tested. A process
that wiped its environment is out of reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

MARK = "PALAVER_CALL"
GRACE_S = 1.0
_MAX_ENVIRONMENT = 4 << 20
sweeps = ThreadPoolExecutor(max_workers=4, thread_name_prefix="palaver-sweep")
"""Ending processes never waits behind slow reads of files."""


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
    return await asyncio.get_running_loop().run_in_executor(sweeps, _end_marked, marks.secret, ends)


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


def end_strays(mark: str, group: int) -> None:
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

    def _marked(secret: str) -> Iterator[Held]:
        ours = _self_and_ancestors(_parent_by_proc)
        for pid in _numbers_in_proc():
            if pid in ours:
                continue
            descriptor = _pidfd(pid)
            started = _started_by_proc(pid) if descriptor is None else None
            found = _marked_by_proc(pid, secret)
            if found is not None and descriptor is not None:
                yield _ByPidfd(found, descriptor)
            elif found is not None and started is not None:
                yield ByStartTime(found, started, _started_by_proc)
            elif descriptor is not None:
                os.close(descriptor)

    def _pidfd(pid: int) -> int | None:
        """None: it is gone, or this system has no pidfds or forbids them."""
        try:
            return os.pidfd_open(pid)
        except OSError as error:
            if error.errno in (errno.ESRCH, errno.ENOSYS, errno.EPERM):
                return None
            raise

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

    def only_ended(group: int) -> bool:
        """Whether all of a group have ended and wait for an init that takes its time to collect them."""
        members = (fields[0] for fields in map(_stat_by_proc, _numbers_in_proc()) if fields and int(fields[2]) == group)
        return all(state in (b"Z", b"X") for state in members)

    def _started_by_proc(pid: int) -> str | None:
        fields = _stat_by_proc(pid)
        return None if not fields or fields[0] == b"Z" else fields[19].decode()

else:

    def only_ended(group: int) -> bool:
        """Told by `killpg` itself: it may not signal a group of which all have ended."""
        return False

    def _marked(secret: str) -> Iterator[Held]:
        return _by_ps(secret)


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
class ByStartTime:
    found: Found
    started: str
    started_now: Callable[[int], str | None]

    def send(self, number: int) -> None:
        if not self.gone():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.found.pid, number)

    def gone(self) -> bool:
        return self.started_now(self.found.pid) != self.started

    def close(self) -> None:
        """Nothing is held but a number and a time."""


def _started_by_ps(pid: int) -> str | None:
    return next((row.started for row in _read_rows("-p", str(pid))), None)


def _by_ps(secret: str) -> Iterator[Held]:
    rows = _read_rows("-axww", "-E")
    parents = {row.pid: row.parent for row in rows}
    ours = _self_and_ancestors(lambda pid: parents.get(pid, 0))
    for row in rows:
        marked = re.search(rf"(?:^|\s){MARK}=(\S+)", row.rest)
        if marked and row.pid not in ours and row.uid == os.geteuid():
            found = _parse(marked[1], row.pid, secret)
            if found is not None:
                yield ByStartTime(found, row.started, _started_by_ps)


__all__ = [
    "GRACE_S",
    "MARK",
    "ByStartTime",
    "Found",
    "Marks",
    "end_marked",
    "end_strays",
    "find_marked",
    "new_secret",
    "only_ended",
    "sweeps",
    "with_call",
]
