"""`shell`: a command line, run where the agent works, streamed as it prints."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools.arguments import Arguments, arguments, refuse, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.confined import caution_of, launched
from palaver.tools.jobs import BackgroundJobs, about_jobs, job_line
from palaver.tools.output import KEPT, Output
from palaver.tools.paths import Spot, spot
from palaver.tools.processes import Ended, run
from palaver.wire.values import CallError, Location, Part, Preview, ToolCall, ToolResult

if TYPE_CHECKING:
    from palaver.sandbox.variants import Launch, Sandbox

_TITLE = 80


class ShellArguments(Arguments, frozen=True, kw_only=True):
    command: Annotated[str, Meta(min_length=1, description="The command line, for bash (else sh). It gets no input.")]
    cwd: Annotated[str, Meta(description="Folder to run it in, relative to the workspace.")] = "."
    timeout_s: Annotated[float, Meta(gt=0, le=3600, description="Seconds until it is ended.")] = 120
    background: Annotated[bool, Meta(description="Start it and return at once: for servers and watchers.")] = False


class Shell:
    """Runs a command line. What it leaves running in its group ends with the call, background jobs with the daemon."""

    def __init__(self, jobs: BackgroundJobs | None = None, sandbox: Sandbox | None = None, *, kept: int = KEPT) -> None:
        self.jobs = jobs or BackgroundJobs()
        self._sandbox = sandbox
        self._kept = kept

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "shell",
            "Run a command line in the workspace. Gives its output and exit code. What it starts with & ends with the call; use background "
            "for what should go on. Files can be written in the workspace and in $TMPDIR only. The commands `jobs`, `jobs JOB` and "
            "`kill JOB` list your background jobs, show the output of one, and end it.",
            schema_of(ShellArguments),
            ToolKind.EXEC,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        asked = _arguments(call)
        with spot(context, asked.cwd, only_look=True) as place:
            where = place.label
        return Description(
            title=_title(asked.command),
            locations=() if where == "." else (Location(where),),
            preview=Preview(command=asked.command),
            command=asked.command,
            caution=caution_of(self._sandbox),
        )

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        asked = _arguments(call)
        if (order := about_jobs(asked.command)) is not None:
            return await self._about_jobs(context, call, *order)
        with spot(context, asked.cwd) as place:
            _check_folder(place)
            launch = await launched(self._sandbox, context, place, shell_program(asked.command), [asked.command])
            if asked.background:
                return await self._start(context, call, asked, launch)
            output = Output(context.output, kept=self._kept)
            ended = await run(launch.command, folder=launch.folder, env=launch.env, sink=output.take, timeout_s=asked.timeout_s)
        output.finish()
        return await self._result(context, call, asked, output, ended)

    async def _start(self, context: ToolContext, call: ToolCall, asked: ShellArguments, launch: Launch) -> ToolResult:
        job = await self.jobs.start(
            launch.command, asked.command, folder=launch.folder, env=launch.env, session_id=context.session_id, call_id=call.id
        )
        text = (
            f"Started as background job {job.id}. It ends with the session or the daemon. "
            f"`jobs {job.id}` shows its output, `kill {job.id}` ends it."
        )
        return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text=text),))

    async def _about_jobs(self, context: ToolContext, call: ToolCall, word: str, job_id: str | None) -> ToolResult:
        """`jobs` and `kill`, of this session's own jobs."""
        jobs = {job.id: job for job in self.jobs.list(context.session_id)}
        if job_id is None:
            text = "\n".join(map(job_line, jobs.values())) or "There are no background jobs."
            return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text=text),))
        if job_id not in jobs:
            raise ToolFailed(f"There is no background job {job_id}. There are: {', '.join(jobs) or 'none'}.")
        job = await self.jobs.end(job_id) if word == "kill" else jobs[job_id]
        printed = self.jobs.printed(job_id)
        ref = await context.artifact(f"{job_id}-output.txt", printed.encode(), "text/plain; charset=utf-8") if printed else None
        where = f"\n[The whole is in {ref}: use read_file]" if ref and len(printed) > len(job.output) else ""
        parts = (Part(type="text", text=f"{job_line(job)}\n{job.output or '(no output)'}{where}"),)
        return ToolResult(id=call.id, ok=True, parts=parts, artifacts=(ref,) if ref else ())

    async def _result(self, context: ToolContext, call: ToolCall, asked: ShellArguments, output: Output, ended: Ended) -> ToolResult:
        left_out = output.clip.left_out
        artifacts: tuple[str, ...] = ()
        note = ""
        if left_out:
            ref = await context.artifact(f"{call.id}-output.txt", bytes(output.whole), "text/plain; charset=utf-8")
            artifacts = (ref,)
            note = f"\n[… {left_out} characters left out; the whole is in {ref}: use read_file]\n"
        error = _error(asked, output, ended, self._kept)
        text = output.clip.text(note) or "(no output)"
        status = error.message if error else "Exit code 0."
        return ToolResult(
            id=call.id,
            ok=error is None,
            parts=(Part(type="text", text=f"{text.rstrip(chr(10))}\n[{status}]"),),
            artifacts=artifacts,
            error=error,
            truncated=left_out > 0,
        )


def _arguments(call: ToolCall) -> ShellArguments:
    asked = arguments(call, ShellArguments)
    if not asked.command.strip():
        raise refuse("shell: the command is empty. Send a command line.")
    return asked


def shell_program(command: str) -> list[str]:
    """The program that runs a command line, with its arguments."""
    program = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    return [program, "-c", "--", command]


def _title(command: str) -> str:
    lines = command.strip().split("\n")
    line = lines[0].strip()
    return line if len(line) <= _TITLE and len(lines) == 1 else line[: _TITLE - 1] + "…"


def _check_folder(place: Spot) -> None:
    if place.found is None:
        raise ToolFailed(f"The folder {place.label} is not there. Leave cwd out to run in the workspace.")
    if not place.is_folder:
        raise ToolFailed(f"{place.label} is no folder. Give cwd a folder, or leave it out to run in the workspace.")


def _error(asked: ShellArguments, output: Output, ended: Ended, kept: int) -> CallError | None:
    if output.full:
        return CallError("tool_error", f"It printed more than {kept} bytes and was ended. Send long output to a file.")
    if ended.why == "timeout":
        return CallError(
            "tool_timeout", f"It was ended after {asked.timeout_s:g} s. Give it a longer timeout_s, or run it in the background."
        )
    if ended.status:
        return CallError("tool_error", status_text(ended.status))
    return None


def status_text(status: int | None) -> str:
    """How a program ended that did not end well, in words."""
    if status is None:
        return "It was ended."
    if status > 0:
        return f"Exit code {status}."
    try:
        return f"Ended by {signal.Signals(-status).name}."
    except ValueError:
        return f"Ended by signal {-status}."


__all__ = ["Shell", "ShellArguments", "shell_program", "status_text"]
