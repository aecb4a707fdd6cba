"""`verify`: the commands that check the work in a folder, one after the other until one fails, and what they left behind.

What runs is what the folder's own files say, with the rights of whoever started the daemon. A call names its commands from before it is
decided, so that nothing else runs than what was shown; what the files below them (a Makefile, a test) say is not compared yet, nor is
there a sandbox around them, and `require_clean` does not ask git yet (SECURITY.md 14, 16).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools.arguments import Arguments, arguments, refuse, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.folder_state import changed, hash_of, look
from palaver.tools.output import KEPT, SHOWN, Clip, Output
from palaver.tools.paths import folder_for_child, plain, spot
from palaver.tools.processes import Ended, run
from palaver.tools.shell import shell_program, status_text
from palaver.tools.verify_commands import find_commands
from palaver.wire.events import VerifyCompleted
from palaver.wire.values import CallError, CommandRun, Part, Preview, ToolCall, ToolResult

TIMEOUT_S = 600.0
"""Of each command."""
_TITLE = 80
_DIRTY = 100
"""Changed paths that the event names."""

Command = Annotated[str, Meta(min_length=1, max_length=1000)]


class VerifyArguments(Arguments, frozen=True, kw_only=True):
    commands: Annotated[
        tuple[Command, ...] | None,
        Meta(description="Command lines, run in order until one fails. Leave it out for those of the workspace."),
    ] = None


@dataclass(frozen=True)
class _Ran:
    """One command that has ended."""

    run: CommandRun
    text: str
    error: CallError | None
    truncated: bool


class Verify:
    """Runs the commands of the call. `commands`: those of a workspace, for a call that names none; may read files."""

    def __init__(self, commands: Callable[[Path], tuple[str, ...]] = find_commands, *, timeout_s: float = TIMEOUT_S) -> None:
        self._commands = commands
        self._timeout_s = timeout_s

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "verify",
            "Check the work: run the workspace's verify commands (its tests) in order, until one fails. Gives their output and exit codes. "
            "Also runs by itself when you have finished and files have changed.",
            schema_of(VerifyArguments),
            ToolKind.EXEC,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        commands = self._asked(context, call)
        lines = "\n".join(commands)
        title = f"Verify: {', '.join(commands)}"
        return Description(
            title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
            preview=Preview(command=lines),
            command=lines,
            input={"commands": list(commands)},
        )

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        commands = await asyncio.to_thread(self._asked, context, call)
        before = await asyncio.to_thread(look, context.workspace)
        ran = list[_Ran]()
        for command in commands:
            ran.append(await self._run(context, call, command, len(ran) + 1, SHOWN // len(commands)))
            if ran[-1].error is not None:
                break
        after = await asyncio.to_thread(look, context.workspace)
        dirty = changed(before, after)
        error = ran[-1].error
        context.note(
            VerifyCompleted(
                ok=error is None,
                clean=not dirty,
                dirty=tuple(plain(path.decode("utf-8", "surrogateescape")) for path in dirty[:_DIRTY]),
                commands=tuple(one.run for one in ran),
                workspace_hash=hash_of(after),
                tool_call_id=call.id,
            )
        )
        left = commands[len(ran) :]
        skipped = f"\n[Not run after that: {', '.join(left)}]" if left else ""
        return ToolResult(
            id=call.id,
            ok=error is None,
            parts=(Part(type="text", text="\n".join(one.text for one in ran) + skipped),),
            artifacts=tuple(one.run.artifact for one in ran if one.run.artifact is not None),
            error=error,
            truncated=any(one.truncated for one in ran),
        )

    def _asked(self, context: ToolContext, call: ToolCall) -> tuple[str, ...]:
        asked = arguments(call, VerifyArguments).commands
        commands = self._commands(context.workspace) if asked is None else asked
        if not commands:
            raise ToolFailed(
                "There are no verify commands here. Give `commands`, write a line `verify: COMMAND` into AGENTS.md, "
                "or give the Makefile a target `test`."
            )
        for command in commands:
            _check_line(command)
        return commands

    async def _run(self, context: ToolContext, call: ToolCall, command: str, number: int, shown: int) -> _Ran:
        output = Output(context.output, kept=KEPT)
        output.clip = Clip(shown)
        began = time.monotonic()
        with spot(context, ".") as place:
            env = {**context.env, "PWD": str(place.path)}
            folder = folder_for_child(place)
            ended = await run(shell_program(command), folder=folder, env=env, sink=output.take, timeout_s=self._timeout_s)
        output.finish()
        took = round((time.monotonic() - began) * 1000)
        artifact = await _kept(context, call, number, output)
        error = self._error(command, output, ended)
        left_out = output.clip.left_out
        note = f"\n[… {left_out} characters left out; the whole is in {artifact}: use read_file]\n" if left_out else ""
        said = (output.clip.text(note) or "(no output)").rstrip("\n")
        status = error.message if error else "Exit code 0."
        return _Ran(CommandRun(command, ended.status, took, artifact), f"$ {command}\n{said}\n[{status}]", error, left_out > 0)

    def _error(self, command: str, output: Output, ended: Ended) -> CallError | None:
        if output.full:
            return CallError("tool_error", f"`{command}` printed more than {KEPT} bytes and was ended.")
        if ended.why == "timeout":
            return CallError("tool_timeout", f"`{command}` was ended after {self._timeout_s:g} s.")
        return CallError("tool_error", f"`{command}` failed: {status_text(ended.status)}") if ended.status else None


async def _kept(context: ToolContext, call: ToolCall, number: int, output: Output) -> str | None:
    """The whole output as a file of the turn; none where there was none."""
    if not output.whole:
        return None
    return await context.artifact(f"{call.id}-verify-{number}.txt", bytes(output.whole), "text/plain; charset=utf-8")


def _check_line(command: str) -> None:
    """Each command runs alone, and is judged with the others as lines of one text: one that could swallow the next is refused."""
    if not command.strip() or "\n" in command or "<<" in command or command.rstrip(" ").endswith("\\"):
        raise refuse(f"verify: {command[:200]!r} is not one whole line without a here-document. Put it into a script, and run that.")


__all__ = ["TIMEOUT_S", "Verify", "VerifyArguments"]
