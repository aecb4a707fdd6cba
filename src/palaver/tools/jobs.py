"""Background jobs of `shell`: commands that outlive their call. They belong to the daemon and end with it."""

from __future__ import annotations

import asyncio
import builtins
import codecs
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from palaver.errors import Refused, ToolFailed
from palaver.tools.output import Clip
from palaver.tools.processes import MARK, Child, with_call
from palaver.wire.ids import new_id
from palaver.wire.values import Stream

MOST = 32
_REMEMBERED = 100
KEPT = 1_000_000
"""Characters of a job's output that are kept: its beginning and its end."""
_ABOUT = re.compile(r"(jobs)(?:\s+(job_\w+))?|(kill)\s+(job_\w+)")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Job:
    """What a list shows of a background job."""

    id: str
    session_id: str
    call_id: str
    command: str
    pid: int
    started_at: str
    running: bool = True
    status: int | None = None
    """Exit status once it ended by itself; negative: the signal."""
    output: str = ""
    """The beginning and the end of what it printed."""


class _Entry:
    """A job with the task that waits for its end."""

    def __init__(self, job: Job, child: Child, printed: Clip) -> None:
        self._job = job
        self._child = child
        self._printed = printed
        self.watch = asyncio.create_task(self._watch(), name=f"background job {job.id}")

    async def _watch(self) -> None:
        forced = True
        try:
            forced = (await self._child.wait(None)).why != "exited"
        finally:
            await self._child.end(forced=forced)

    def stop(self) -> asyncio.Task[None]:
        """Have it ended; the task is done when it is. Not by a cancel: a task that never ran would end nothing."""
        self._child.stop()
        return self.watch

    def seen(self) -> Job:
        shown = Clip()
        shown.add(self.printed())
        return replace(self._job, running=not self.watch.done(), status=self._child.status, output=shown.text("\n[…]\n"))

    def printed(self) -> str:
        return self._printed.text("\n[…]\n")


class BackgroundJobs:
    """Every background job of this daemon, running or ended not long ago."""

    def __init__(self, now: Callable[[], str] = _now) -> None:
        self._now = now
        self._entries: dict[str, _Entry] = {}

    async def start(self, command: Sequence[str], line: str, *, folder: str, env: Mapping[str, str], session_id: str, call_id: str) -> Job:
        """Start one, with a mark of its own (`job_…` in place of the call's id). Raises `ToolFailed` when there are too many."""
        if sum(not entry.watch.done() for entry in self._entries.values()) >= MOST:
            raise ToolFailed(f"{MOST} background jobs are running. Wait until one has ended, or ask the person to end one.")
        job_id = new_id("job")
        printed = Clip(KEPT)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode

        def sink(stream: Stream, data: bytes) -> bool:
            printed.add(decode(data))
            return True

        marked = {**env, MARK: with_call(env[MARK], job_id)} if MARK in env else env
        child = await Child.start(command, folder=folder, env=marked, sink=sink)
        job = Job(job_id, session_id, call_id, line, child.pid, self._now())
        self._entries[job_id] = _Entry(job, child, printed)
        self._forget_old()
        return job

    def list(self, session_id: str | None = None) -> builtins.list[Job]:
        """In the order of their start; of one session where it is named."""
        jobs = (entry.seen() for entry in self._entries.values())
        return [job for job in jobs if session_id in (None, job.session_id)]

    def printed(self, job_id: str) -> str:
        """What is kept of its output. Raises `KeyError` for a job that `list` does not name."""
        return self._entries[job_id].printed()

    async def end(self, job_id: str) -> Job:
        """End a job and everything it started. Raises `Refused("not_found")`; one that ended already stays as it is."""
        if job_id not in self._entries:
            raise Refused("not_found", f"There is no background job {job_id}. The list names those there are.")
        await self._end([job_id])
        return self._entries[job_id].seen()

    async def close(self, session_id: str | None = None) -> None:
        """End all jobs, or those of one session."""
        await self._end(job.id for job in self.list(session_id))

    async def _end(self, job_ids: Iterable[str]) -> None:
        watches = [self._entries[job_id].stop() for job_id in job_ids]
        if watches:
            await asyncio.wait(watches)

    def _forget_old(self) -> None:
        ended = [job_id for job_id, entry in self._entries.items() if entry.watch.done()]
        for job_id in ended[: max(0, len(self._entries) - _REMEMBERED)]:
            del self._entries[job_id]


def about_jobs(command: str) -> tuple[str, str | None] | None:
    """Whether a command line speaks of background jobs: `jobs`, `jobs JOB`, `kill JOB`."""
    match = _ABOUT.fullmatch(command.strip())
    return None if match is None else (match[1] or match[3], match[2] or match[4])


def job_line(job: Job) -> str:
    """One job as a list shows it."""
    state = "running" if job.running else "ended" if job.status is None else f"ended with {job.status}"
    return f"{job.id}  {state}  since {job.started_at}  {job.command}"


__all__ = ["BackgroundJobs", "Job", "about_jobs", "job_line"]
