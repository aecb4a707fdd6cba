"""`verify`: the commands that check the work in a folder, one after the other until one fails, and what they left behind.

What runs is what the folder's own files say, with the rights of whoever started the daemon. A call names its commands from before it is
decided, so that nothing else runs than what was shown. They run in the sandbox that holds here, without network (SECURITY.md 14, 16).

With `require_clean` a check counts only on what this session made: not when its commands changed files that were there, and not when git
knows of changes that no turn of the session made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from palaver.errors import ToolFailed
from palaver.tools.arguments import Arguments, arguments, refuse, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.confined import caution_of, launched
from palaver.tools.folder_state import changed, look_at
from palaver.tools.git import git_status
from palaver.tools.output import KEPT, SHOWN, Clip, Output
from palaver.tools.paths import plain, spot
from palaver.tools.processes import Ended, run
from palaver.tools.shell import shell_program, status_text
from palaver.tools.trust import rests_on
from palaver.tools.verify_commands import find_commands
from palaver.wire.events import VerifyCompleted
from palaver.wire.values import CallError, CommandRun, Part, Preview, ToolCall, ToolResult

if TYPE_CHECKING:
    from palaver.sandbox.variants import Sandbox

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

    def __init__(
        self,
        commands: Callable[[Path], tuple[str, ...]] = find_commands,
        sandbox: Sandbox | None = None,
        *,
        require_clean: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._commands = commands
        self._sandbox = sandbox
        self._require_clean = require_clean
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
            rests_on=rests_on(context.workspace, commands) if commands == self._commands(context.workspace) else None,
            confined=self._sandbox is not None and self._sandbox.look().variant is not None,
            caution=caution_of(self._sandbox),
            input={"commands": list(commands)},
        )

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        commands = await asyncio.to_thread(self._asked, context, call)
        strange = await self._strange(context)
        before = await look_at(context)
        ran = list[_Ran]()
        for command in commands:
            ran.append(await self._run(context, call, command, len(ran) + 1, SHOWN // len(commands)))
            if ran[-1].error is not None:
                break
        after = await look_at(context)
        touched = changed(before, after)
        error = ran[-1].error or self._not_clean([path for path in touched if path in before.files], strange)
        dirty = sorted({*touched, *strange})
        context.note(
            VerifyCompleted(
                ok=error is None,
                clean=not dirty,
                dirty=tuple(plain(path) for path in dirty[:_DIRTY]),
                commands=tuple(one.run for one in ran),
                workspace_hash=after.hash,
                tool_call_id=call.id,
            )
        )
        left = commands[len(ran) :]
        skipped = f"\n[Not run after that: {', '.join(left)}]" if left else ""
        return ToolResult(
            id=call.id,
            ok=error is None,
            parts=(Part(type="text", text="\n".join(one.text for one in ran) + skipped + _remark(error, ran)),),
            artifacts=tuple(one.run.artifact for one in ran if one.run.artifact is not None),
            error=error,
            truncated=any(one.truncated for one in ran),
        )

    async def _strange(self, context: ToolContext) -> list[str]:
        """What differs from the last commit though no turn of this session changed it; asked for by `require_clean` alone."""
        if not self._require_clean or context.look is None:
            return []
        made = (await context.look()).made
        status = await git_status(context.workspace, context.env)
        return [] if status is None else sorted(one.path for one in status.dirty if one.path not in made and one.origin not in made)

    def _not_clean(self, changed: Sequence[str], strange: Sequence[str]) -> CallError | None:
        """Why a check that passed does not count. What others left lying there is nothing that the model should mend."""
        if not self._require_clean or not (changed or strange):
            return None
        if changed:
            return CallError("tool_error", f"The commands passed, but they changed files, so this does not count: {_names(changed)}.")
        text = (
            f"The commands passed, but changes lie here that no turn of this session made, so this does not count: {_names(strange)}. "
            "Leave them alone: the person has to commit them or put them aside."
        )
        return CallError("tool_skipped", text)

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
            launch = await launched(self._sandbox, context, place, shell_program(command), [command], network=False)
            ended = await run(launch.command, folder=launch.folder, env=launch.env, sink=output.take, timeout_s=self._timeout_s)
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


def _names(paths: Sequence[str], most: int = 10) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(map(plain, paths[:most])) + more


def _remark(error: CallError | None, ran: Sequence[_Ran]) -> str:
    """What the commands' own output does not say."""
    return f"\n[{error.message}]" if error is not None and ran[-1].error is None else ""


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
