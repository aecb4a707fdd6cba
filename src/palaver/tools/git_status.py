"""`git_status`: the branch and what differs from its last commit, by a git that runs nothing of the repository's (SECURITY.md 12)."""

from __future__ import annotations

from palaver.tools.arguments import Arguments, arguments, schema_of
from palaver.tools.base import Description, ToolContext, ToolDefinition, ToolKind
from palaver.tools.git import Dirty, Status, git_log, git_status
from palaver.tools.paths import plain, real_workspace
from palaver.wire.values import Location, Part, ToolCall, ToolResult

_LINES = 300
_IN_SUMMARY = 12


class GitStatusArguments(Arguments, frozen=True, kw_only=True):
    pass


class GitStatus:
    """Says where the repository stands."""

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            "git_status",
            "Show the git branch, the last commits, and each changed path as git's short status has it: XY path.",
            schema_of(GitStatusArguments),
            ToolKind.READ,
        )

    def describe(self, context: ToolContext, call: ToolCall) -> Description:
        arguments(call, GitStatusArguments)
        return Description(title="Look at git's status", locations=(Location("."),), reads=(plain(real_workspace(context)),))

    async def invoke(self, context: ToolContext, call: ToolCall) -> ToolResult:
        arguments(call, GitStatusArguments)
        status = await git_status(context.workspace, context.env)
        if status is None:
            return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text="The workspace is in no git repository."),))
        commits = await git_log(context.workspace, context.env, 3)
        lines = [_branch(status), *(f"{commit.hash[:10]} {commit.at[:10]} {commit.subject}" for commit in commits)]
        lines += ["", *map(_line, status.dirty[:_LINES])] if status.dirty else ["", "Nothing differs from the last commit."]
        cut = len(status.dirty) - _LINES
        if cut > 0:
            lines.append(f"[{cut} paths more]")
        return ToolResult(id=call.id, ok=True, parts=(Part(type="text", text="\n".join(lines)),), truncated=cut > 0)


def summary(status: Status) -> str:
    """In one line, for whoever wants to know at a glance."""
    if not status.dirty:
        return f"{_branch(status)} Nothing differs from the last commit."
    shown = ", ".join(one.path for one in status.dirty[:_IN_SUMMARY])
    more = f" and {len(status.dirty) - _IN_SUMMARY} more" if len(status.dirty) > _IN_SUMMARY else ""
    return f"{_branch(status)} Changed: {shown}{more}."


def _branch(status: Status) -> str:
    where = f"On branch {status.branch}" if status.branch else "On no branch"
    return f"{where}, at {status.head[:10]}." if status.head else f"{where}, without a commit yet."


def _line(dirty: Dirty) -> str:
    return f"{dirty.staged}{dirty.unstaged} {dirty.path}" + (f" (was {dirty.origin})" if dirty.origin else "")


__all__ = ["GitStatus", "GitStatusArguments", "summary"]
