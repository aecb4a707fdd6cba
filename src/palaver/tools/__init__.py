"""What our own loop may do, one file each. A person adds a tool by the entry point group `palaver.tools`.

A tool describes a call before it runs (that is what policy decides on and a person is shown), then runs it. It raises `ToolFailed`
for what the model should read and act on; a bug in it ends its call and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.tools.base import (
    Description,
    MessagePart,
    Tool,
    ToolContext,
    ToolDefinition,
    ToolKind,
    ToolRegistry,
)
from palaver.wire.values import ToolCall, ToolResult

if TYPE_CHECKING:
    from palaver.sandbox.variants import Sandbox
    from palaver.tools.jobs import BackgroundJobs
    from palaver.tools.repo_map import Maps


def builtin(
    jobs: BackgroundJobs | None = None,
    verify_commands: Callable[[Path], tuple[str, ...]] | None = None,
    sandbox: Sandbox | None = None,
    maps: Maps | None = None,
    *,
    require_clean: bool = False,
) -> list[Tool]:
    """The tools that come with Palaver.

    `jobs`: where `shell` keeps its background jobs, for whoever lists and ends them. `verify_commands`: those
    of a workspace, for a `verify` that names none. `sandbox`: what holds the commands that are run. `maps`: who knows what
    a workspace's files define, for `repo_map`; without it there is none. `require_clean`: of `verify`.
    """
    # Imported with the first turn: together they cost a third of a start.
    from palaver.tools.apply_patch import ApplyPatch
    from palaver.tools.ask_user import AskUser
    from palaver.tools.diagram import Diagram
    from palaver.tools.git_status import GitStatus
    from palaver.tools.read_file import ReadFile
    from palaver.tools.repo_map import RepoMap
    from palaver.tools.repo_tree import RepoTree
    from palaver.tools.search import Search
    from palaver.tools.shell import Shell
    from palaver.tools.update_plan import UpdatePlan
    from palaver.tools.verify import Verify
    from palaver.tools.verify_commands import find_commands

    return [
        *(RepoTree(), ReadFile(), Search(), GitStatus()),
        *([RepoMap(maps)] if maps else []),
        *(ApplyPatch(), Shell(jobs, sandbox), Verify(verify_commands or find_commands, sandbox, require_clean=require_clean), Diagram()),
        AskUser(),
        UpdatePlan(),
    ]


__all__ = [
    "Description",
    "MessagePart",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolDefinition",
    "ToolKind",
    "ToolRegistry",
    "ToolResult",
    "builtin",
]
