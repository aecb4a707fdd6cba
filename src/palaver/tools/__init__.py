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
    from palaver.tools.jobs import BackgroundJobs


def builtin(jobs: BackgroundJobs | None = None, verify_commands: Callable[[Path], tuple[str, ...]] | None = None) -> list[Tool]:
    """The tools that come with Palaver.

    `jobs`: where `shell` keeps its background jobs, for whoever lists and ends them. `verify_commands`: those
    of a workspace, for a `verify` that names none.
    """
    # Imported with the first turn: together they cost a third of a start.
    from palaver.tools.apply_patch import ApplyPatch
    from palaver.tools.ask_user import AskUser
    from palaver.tools.read_file import ReadFile
    from palaver.tools.search import Search
    from palaver.tools.shell import Shell
    from palaver.tools.verify import Verify
    from palaver.tools.verify_commands import find_commands

    return [ReadFile(), Search(), ApplyPatch(), Shell(jobs), Verify(verify_commands or find_commands), AskUser()]


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
